// Compiles a copy of the Ir with the ordinary lowering and drives the engine from whole-run stream buffers.
#include "api/ir_session.hpp"

#include <unordered_map>

#include "api/memory_limit.hpp"
#include "api/session_impl.hpp"
#include "api/virtual_ipus.hpp"
#include "backends/ref/ref.hpp"
#include "pipeline/passes.hpp"
#include "runtime/engine.hpp"

namespace popart {
namespace {

// Streams over buffers that hold `slices` values each; past the last slice a stream starts again.
class SliceStreams : public runtime::StreamSource {
 public:
  void reset(std::span<const void *const> inputs, std::span<void *const> outputs, int64_t slices) {
    inputs_ = inputs, outputs_ = outputs, slices_ = slices;
    inputCursor_.assign(inputs.size(), 0);
    outputCursor_.assign(outputs.size(), 0);
  }
  const void *input(int stream, int64_t bytes) override {
    return static_cast<const char *>(inputs_[stream]) + bytes * advance(inputCursor_[stream]);
  }
  void *output(int stream, int64_t bytes) override {
    return static_cast<char *>(outputs_[stream]) + bytes * advance(outputCursor_[stream]);
  }

 private:
  int64_t advance(int64_t &cursor) const {
    const int64_t slice = cursor;
    cursor = cursor + 1 == slices_ ? 0 : cursor + 1;
    return slice;
  }
  std::span<const void *const> inputs_;
  std::span<void *const> outputs_;
  int64_t slices_ = 1;
  std::vector<int64_t> inputCursor_, outputCursor_;
};

}  // namespace

struct IrSession::Impl {
  std::unique_ptr<runtime::Engine> engine;
  std::vector<Stream> inputs, outputs;
  std::unordered_map<TensorId, int> variables;
  SliceStreams streams;
  int64_t transfers = 1;

  int variable(const TensorId &id) const {
    const auto it = variables.find(id);
    if (it == variables.end()) throw error("Session: the compiled program has no variable '{}'", id);
    return it->second;
  }
};

IrSession::IrSession(const Ir &ir, const IrSessionOptions &options) : impl_(std::make_unique<Impl>()) {
  for (const Graph *graph : ir.getAllGraphs()) checkInplaceAmbiguity(*graph);
  lower::LowerOptions lowering;
  lowering.backends = backendsFor(options.device == "ipu_model" ? DeviceType::IpuModel : DeviceType::Cpu);
  lowering.evaluate = ref::evaluate;
  lowering.threads = options.threads > 0 ? options.threads : computeThreadCount();
  lowering.maxMemoryBytes = memoryLimitBytes(nullptr);
  checkTensorsFit(ir);
  auto executable = withinMemory("Session: compiling", [&] { return pipeline::lower(ir, lowering); });
  impl_->transfers = options.transfers;
  for (const auto &s : executable->inputs) impl_->inputs.push_back({s.id, s.info});
  for (const auto &s : executable->outputs) impl_->outputs.push_back({s.id, s.info});
  for (size_t i = 0; i < executable->variables.size(); ++i)
    impl_->variables.emplace(executable->variables[i].id, static_cast<int>(i));
  impl_->engine = withinMemory(
      "Session: loading", [&] { return std::make_unique<runtime::Engine>(std::move(executable), lowering.threads); });
}

IrSession::~IrSession() = default;

const std::vector<IrSession::Stream> &IrSession::inputs() const { return impl_->inputs; }
const std::vector<IrSession::Stream> &IrSession::outputs() const { return impl_->outputs; }
bool IrSession::hasVariable(const TensorId &id) const { return impl_->variables.count(id) != 0; }
void IrSession::writeVariable(const TensorId &id, const void *data) {
  impl_->engine->writeVariable(impl_->variable(id), data);
}
void IrSession::readVariable(const TensorId &id, void *data) const {
  impl_->engine->readVariable(impl_->variable(id), data);
}

void IrSession::run(std::span<const void *const> inputs, std::span<void *const> outputs) {
  check(inputs.size() == impl_->inputs.size() && outputs.size() == impl_->outputs.size(),
        "Session: wrong number of stream buffers: got {} inputs and {} outputs, expected {} and {}", inputs.size(),
        outputs.size(), impl_->inputs.size(), impl_->outputs.size());
  impl_->streams.reset(inputs, outputs, impl_->transfers);
  impl_->engine->run(impl_->streams);
}

std::string IrSession::summary() const {
  const executable::Executable &e = impl_->engine->executable();
  std::string text = "arena " + std::to_string(e.memory.arenaBytes) + " bytes, variables " +
                     std::to_string(e.memory.variableBytes) + " bytes";
  for (const auto &f : e.fallbacks) text += "\n" + f.op + ": not on " + f.backend + ": " + f.reason;
  return text;
}

}  // namespace popart
