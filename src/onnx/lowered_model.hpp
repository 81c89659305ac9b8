// Writes a lowered program as an ONNX model, for people who view it in Netron or read it with the onnx package. It
// cannot be run: its operators are those of the device, in the domain "popart.lowered".
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <popart/ir.hpp>

#include "schedule/schedule.hpp"

namespace popart::onnx {

inline constexpr char kLoweredDomain[] = "popart.lowered";

// Named properties of the step of an op, for example its kernel.
using StepFacts = std::vector<std::pair<std::string, AttributeValue>>;

// The bytes of the model. Nodes are in the order of `schedule`; bodies of loops, branches and fused operators are
// attributes. A node has the attributes of its op, and those of `facts` with the prefix "step."; its documentation is
// the title of the step. All tensors have types and shapes; tensors in a layout of the device are marked. Values of
// more than 16 elements are only included with PrintData::Full, and never for tensors in a layout of the device. Throws
// popart::error when the model exceeds 2 GiB.
std::string loweredModel(const Ir &ir, const schedule::Schedule &schedule, PrintData values,
                         const std::function<StepFacts(const Op &)> &facts);

}  // namespace popart::onnx
