// BatchNormalization in inference form, folded into what is in front of it.
//
//   y = BatchNormalization(Conv(x, W, b), s, B, m, v)  →  y = Conv(x, W r, (b - m) r + B),  r = s / sqrt(v + epsilon)
//
// by output channel; ConvTranspose and Gemm in the same way.
#pragma once

namespace popart::onnx_proto {
class ModelProto;
}

namespace popart::onnx {
class ExternalFiles;

// In the main graph of a model in inference form, where the product has initializers of the same float type as weights
// and no other reader. Weights that others read are copied. Leaves the old ones where they are.
void foldBatchNorms(onnx_proto::ModelProto &model, const ExternalFiles &files);

}  // namespace popart::onnx
