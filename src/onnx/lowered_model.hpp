// A lowered program in the form of an ONNX model, for people who look at it in Netron or read it by the onnx package.
// Nobody can run it: its operators are those of the device, in the domain "popart.lowered".
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <popart/ir.hpp>

#include "schedule/schedule.hpp"

namespace popart::onnx {

inline constexpr char kLoweredDomain[] = "popart.lowered";

// What is known of the step of an op, by name: its kernel, for example.
using StepFacts = std::vector<std::pair<std::string, AttributeValue>>;

// The bytes of the model. Nodes are in the order of `schedule`; bodies of loops, branches and fused operators are
// attributes. A node has the attributes of its op, and those of `facts` with "step." before their names; its
// documentation is the title of the step. All tensors have types and shapes; those in a layout of the device say so.
// Values of more than 16 elements are there with PrintData::Full alone, and never those in a layout of the device.
// Throws popart::error when the model exceeds 2 GiB.
std::string loweredModel(const Ir &ir, const schedule::Schedule &schedule, PrintData values,
                         const std::function<StepFacts(const Op &)> &facts);

}  // namespace popart::onnx
