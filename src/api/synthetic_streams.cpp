// Numbers are drawn by the reference kernels of the random operators, with the number of the stream as seed.
#include "api/synthetic_streams.hpp"

#include <popart/error.hpp>
#include <popart/graph.hpp>
#include <popart/ir.hpp>

#include "backends/ref/ref.hpp"

namespace popart {
namespace {

bool isDrawn(DataType type) {
  return type == DataType::FLOAT || type == DataType::FLOAT16 || type == DataType::BFLOAT16 || type == DataType::DOUBLE;
}

TensorData drawn(const TensorInfo &info, const char *generator, uint32_t stream) {
  const uint32_t words[2] = {stream, 0};
  const TensorData seed = TensorData::of<uint32_t>({2}, words);
  Ir ir;
  Graph &graph = ir.getMainGraph();
  const Op *op = graph.addConnectedOp(opDef(generator), {graph.addConstant("seed", seed)}, {"values"},
                                      {{"shape", info.shape()}, {"dtype", int64_t{toOnnxDataType(info.dataType())}}},
                                      Op::Settings(graph));
  return ref::evaluate(*op, {seed})[0];
}

}  // namespace

SyntheticStreams::SyntheticStreams(const executable::Executable &executable, SyntheticDataMode mode) {
  if (mode == SyntheticDataMode::Off) throw internal_error("SyntheticStreams: got the mode Off.");
  const char *generator = mode == SyntheticDataMode::RandomNormal ? "RandomNormal" : "RandomUniform";
  for (const executable::InputStream &s : executable.inputs) {
    const bool random = mode != SyntheticDataMode::Zeros && isDrawn(s.info.dataType());
    const auto number = static_cast<uint32_t>(inputs_.size());
    inputs_.push_back(random ? drawn(s.info, generator, number) : TensorData(s.info));
  }
  for (const executable::OutputStream &s : executable.outputs)
    outputs_.emplace_back(static_cast<size_t>(s.info.nbytes()));
}

}  // namespace popart
