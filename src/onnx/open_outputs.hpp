// Outputs of models whose inputs have open dimensions.
#pragma once

namespace popart::onnx_proto {
class GraphProto;
}

namespace popart::onnx {

struct BuildOptions;
struct ModelContent;

// Writes the type and shape of outputs that declare no type into `graph`, which is the graph of `model` or a copy. A
// dimension equal to an open dimension of an input gets its name; one that depends on open dimensions in another way
// gets no name. An output whose type cannot be inferred from the inputs does not change.
void declareOpenOutputs(const ModelContent &model, const BuildOptions &options, onnx_proto::GraphProto &graph);

}  // namespace popart::onnx
