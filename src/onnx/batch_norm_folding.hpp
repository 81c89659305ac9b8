// Folds BatchNormalization in inference form into the product before it.
//
//   y = BatchNormalization(Conv(x, W, b), s, B, m, v)  →  y = Conv(x, W r, (b - m) r + B),  r = s / sqrt(v + epsilon)
//
// for each output channel; ConvTranspose and Gemm in the same way.
#pragma once

namespace popart::onnx_proto {
class ModelProto;
}

namespace popart::onnx {
class ExternalFiles;

// Folds in the main graph of a model in inference form, if the product has initializers of the same float type as
// weights and no other reader. Weights that other nodes read are copied. Old initializers are not removed.
void foldBatchNorms(onnx_proto::ModelProto &model, const ExternalFiles &files);

}  // namespace popart::onnx
