// The program that a device runs in the form of an ONNX model (onnx/lowered_model.hpp), with the kernels and layers of
// its steps.
#pragma once
#include <string>

#include <popart/ir.hpp>

#include "lower/program.hpp"
#include "schedule/schedule.hpp"

namespace popart::session {

// The bytes of the model. `ir` was lowered and has the order `schedule`, and `executable` was made of both. Throws
// popart::error when the model exceeds 2 GiB.
std::string loweredView(const Ir &ir, const schedule::Schedule &schedule, const executable::Executable &executable,
                        PrintData values);

}  // namespace popart::session
