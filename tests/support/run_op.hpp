// Runs, infers and differentiates single ops outside a model: the door for operator tests.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <popart/attributes.hpp>
#include <popart/opdef.hpp>
#include <popart/tensordata.hpp>

#include "executable/executable.hpp"

namespace popart {

// An empty TensorData is an absent optional input.
// A node and its operands.
struct SingleOp {
  std::string type;                // of the catalog: "Gelu"
  Attributes attributes;           // completed by the row
  std::vector<TensorData> inputs;  // in the order of the row
  int outputs = -1;                // -1: every output of the row that is not optional (variadic: one)
};

// Reference: the kernels that define meaning. Best: those a CPU session would use. Counting: the same on a device with
// memory of its own (counting_device/).
enum class OpBackend { Reference, Best, Counting };
// Transposed: inputs of rank 2 and more arrive with their dimensions reversed and a Transpose puts them right, so that
// backends which read permuted operands without a copy do so.
enum class OpOperands { Plain, Transposed };

// How runOp runs it.
struct OpRun {
  OpBackend backend = OpBackend::Reference;
  OpOperands operands = OpOperands::Plain;
  int threads = 0;      // 0: as many as sessions use
  int repetitions = 1;  // of the run, on one engine
};

// Builds a one-op program, lowers it for the backend and runs it. Throws popart::error as a session would, and
// popart::internal_error when a repetition gives other bits than the first run.
std::vector<TensorData> runOp(const SingleOp &op, const OpRun &run);
inline std::vector<TensorData> runOp(const SingleOp &op, OpBackend backend) {
  return runOp(op, OpRun{backend, OpOperands::Plain, 0, 1});
}
// The op's program after print and parse, as text. Throws popart::internal_error when it is not equal to the original.
std::string textOfOp(const SingleOp &op);
// The op written as an ONNX model, read again and run on the reference backend. nullopt: it has no ONNX form.
std::optional<std::vector<TensorData>> runOpAsOnnx(const SingleOp &op);
// Types and shapes only; input values are not read.
std::vector<TensorInfo> inferOp(const SingleOp &op);
// What the row says the op costs.
Cost costOfOp(const SingleOp &op);
// Gradients of the inputs listed in `wanted`, in that order, given the gradients of the outputs (empty: none).
// An empty TensorData in the result: the op gives no gradient for that input.
std::vector<TensorData> gradOp(const SingleOp &op, const std::vector<TensorData> &gradOutputs,
                               const std::vector<int> &wanted, OpBackend backend);

// The kernels of the program that runOp, or gradOp, would run which the CPU backend leaves to the reference, each with
// its reason.
std::vector<executable::Fallback> opFallbacks(const SingleOp &op);
std::vector<executable::Fallback> gradFallbacks(const SingleOp &op, const std::vector<TensorData> &gradOutputs,
                                                const std::vector<int> &wanted);

// The passes of lowering that change the program that runOp, or gradOp, would run on the CPU, and that may be switched
// off.
std::set<std::string> passesOfOp(const SingleOp &op);
std::set<std::string> passesOfGradient(const SingleOp &op, const std::vector<TensorData> &gradOutputs,
                                       const std::vector<int> &wanted);

}  // namespace popart
