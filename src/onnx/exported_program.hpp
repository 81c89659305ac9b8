// Models that PyTorch's exporter wrote from an exported program: numbers of the program (scales, exponents, masks,
// buffers) are initializers there, beside the parameters. The graph's metadata lists the parameters, each node's the
// call it stands for.
#pragma once
#include <map>
#include <set>
#include <string>

#include "onnx/model_content.hpp"

namespace popart::onnx_proto {
class GraphProto;
}  // namespace popart::onnx_proto

namespace popart::onnx {

struct ExportedNumbers {
  // Initializers that the program reads as numbers: training leaves them as they are.
  std::set<std::string> names;
  // Those among them that have the shape of a parameter transposed which their call names but does not read: copies of
  // a parameter used twice. Copy -> parameter.
  std::map<std::string, std::string> copies;
};

// Parameters that the exporter stored in another form under another name (transposed, reshaped) are weights and not
// listed. Empty for models of other origin. Nodes without metadata of a call were added by somebody else: what they
// read is not listed either. Throws popart::error for initializers with impossible dimensions.
ExportedNumbers numbersOfExportedProgram(const onnx_proto::GraphProto &graph);

// The copies among them whose values are their parameter's, transposed: one parameter that training has to keep one.
std::map<std::string, std::string> transposedCopies(const ModelContent &model);

// A matrix, rows and columns exchanged.
TensorData transposedMatrix(const TensorData &matrix);

}  // namespace popart::onnx
