// ForwardProgram: the second program of a training session (SessionOptions::createImplicitPipeliningFwdOnlyProgram):
// the forward pass alone, pipelined over the micro-batches of a step. It reads the values that variables have in the
// training program and leaves them as they are.
#pragma once
#include <memory>

#include "api/step_streams.hpp"
#include "api/stepio_sizes.hpp"
#include "api/synthetic_streams.hpp"
#include "pipeline/prepare.hpp"
#include "session/compiled_program.hpp"

namespace popart {

class ForwardProgram {
 public:
  static constexpr const char *kHandle = "implicitPipeliningFwdOnly";  // what Session::run calls it

  // `sizes`: of the training program; a step reads as much, and may have room for anchors that it does not write.
  ForwardProgram(const std::string &session, pipeline::Prepared prepared, popx::Executablex sizes);

  const Ir &ir() const { return *prepared_.ir; }
  // As CompiledProgram::compile and load.
  void compile(const session::CompileOptions &options) { program_.compile(ir(), options); }
  void load(DeviceInfo &device, SyntheticDataMode synthetic);
  void unload() { program_.unload(); }
  // With its own copy of the variables; nothing before compile.
  int64_t deviceBytes() const;
  int64_t exchangeBytes() const;  // as CompiledProgram

  // One step, with the values that variables have in `training`, which is loaded. Throws as Session::run.
  void run(const session::CompiledProgram &training, IStepIO &stepIO);

 private:
  void copyVariables(const session::CompiledProgram &training);

  pipeline::Prepared prepared_;
  popx::Executablex sizes_;
  session::CompiledProgram program_;
  std::unique_ptr<StepStreams> streams_;         // null before load()
  std::unique_ptr<SyntheticStreams> synthetic_;  // null: data are those of the step IO
};

}  // namespace popart
