// ForwardProgram: the second program of a training session (SessionOptions::createImplicitPipeliningFwdOnlyProgram). It
// runs only the forward pass, pipelined over the micro-batches of a step. It reads the values that variables have in
// the training program, and does not change them.
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
  static constexpr const char *kHandle = "implicitPipeliningFwdOnly";  // its name for Session::run

  // `sizes`: those of the training program. A step reads as much; its array may have room for anchors that it does not
  // write.
  ForwardProgram(const std::string &session, pipeline::Prepared prepared, popx::Executablex sizes);

  const Ir &ir() const { return *prepared_.ir; }
  // Like CompiledProgram::compile and load.
  void compile(const session::CompileOptions &options) { program_.compile(ir(), options); }
  void load(DeviceInfo &device, SyntheticDataMode synthetic);
  void unload() { program_.unload(); }
  // Includes its copy of the variables; 0 before compile.
  int64_t deviceBytes() const;
  int64_t exchangeBytes() const;  // as CompiledProgram

  // Runs one step with the values that variables have in `training`, which is loaded. Throws like Session::run.
  void run(const session::CompiledProgram &training, IStepIO &stepIO);

 private:
  void copyVariables(const session::CompiledProgram &training);

  pipeline::Prepared prepared_;
  popx::Executablex sizes_;
  session::CompiledProgram program_;
  std::unique_ptr<StepStreams> streams_;         // null before load()
  std::unique_ptr<SyntheticStreams> synthetic_;  // null: data come from the step IO
};

}  // namespace popart
