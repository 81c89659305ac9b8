// See forward_program.hpp. Values of variables are copied through the host: their layouts may differ between programs.
#include "api/forward_program.hpp"

namespace popart {

ForwardProgram::ForwardProgram(const std::string &session, pipeline::Prepared prepared, popx::Executablex sizes)
    : prepared_(std::move(prepared)), sizes_(std::move(sizes)), program_(session + "/forward") {}

void ForwardProgram::load(DeviceInfo &device, SyntheticDataMode synthetic) {
  program_.load(device);
  streams_ = std::make_unique<StepStreams>(program_.executable());
  if (synthetic != SyntheticDataMode::Off)
    synthetic_ = std::make_unique<SyntheticStreams>(*program_.executable(), synthetic);
}

int64_t ForwardProgram::deviceBytes() const {
  if (!program_.isCompiled()) return 0;
  return program_.deviceBytes();
}

int64_t ForwardProgram::exchangeBytes() const { return program_.isCompiled() ? program_.exchangeBytes() : 0; }

void ForwardProgram::copyVariables(const session::CompiledProgram &training) {
  const auto &variables = program_.executable()->variables;
  for (size_t i = 0; i < variables.size(); ++i) {
    const int source = training.findVariable(variables[i].id);
    if (source < 0) continue;
    const auto groups = variables[i].replicas.getReplicaGrouping(static_cast<unsigned>(program_.replicas()));
    std::vector<char> value(static_cast<size_t>(variables[i].info.nbytes()) * groups.getNumGroups());
    training.readVariable(source, value.data());
    program_.writeVariable(static_cast<int>(i), value.data());
  }
}

void ForwardProgram::run(const session::CompiledProgram &training, IStepIO &stepIO) {
  bool connected = false;
  const auto connect = [&]() -> runtime::StreamSource & {
    copyVariables(training);
    if (synthetic_) return *synthetic_;
    streams_->connect(stepIO, sizes_);
    connected = true;
    return *streams_;
  };
  try {
    program_.run(connect);
  } catch (...) {
    if (connected) streams_->rewind();
    throw;
  }
}

}  // namespace popart
