// Outputs of a model whose inputs have open dimensions.
#pragma once

namespace popart::onnx_proto {
class GraphProto;
}

namespace popart::onnx {

struct BuildOptions;
struct ModelContent;

// Writes type and shape of the outputs that declare no type into `graph`, which is that of `model` or a copy. A
// dimension that is one of an input has its name; one that depends on open dimensions in another way has none. An
// output whose type does not follow from the inputs' stays as it is.
void declareOpenOutputs(const ModelContent &model, const BuildOptions &options, onnx_proto::GraphProto &graph);

}  // namespace popart::onnx
