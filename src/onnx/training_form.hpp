// The two forms of nodes that compute differently in training: BatchNormalization and Dropout, in the main graph,
// bodies and functions of a message, for every operator set.
//
//                             training                              inference
//   BatchNormalization < 14   five outputs                          one output
//   BatchNormalization >= 14  training_mode = 1, three outputs      training_mode left out, one output
//   Dropout < 12              one form: the session decides         its input
//   Dropout >= 12             training_mode is a constant true      its input
//
// Nodes whose training_mode is computed in the run keep it. Operator set 6 also has the attribute is_test.
#pragma once
namespace popart::onnx_proto {
class ModelProto;
}

namespace popart::onnx {

// Converts BatchNormalization and Dropout to training form. New outputs are called "<first output>_mean", "_var",
// "_saved_mean" and "_saved_var".
void toTrainingForm(onnx_proto::ModelProto &model);
// Converts BatchNormalization and Dropout to inference form. Nodes that read the running mean or variance of a node,
// and outputs of its graph with that name, get the stored one. A Dropout whose mask is read stays, and drops nothing.
void toInferenceForm(onnx_proto::ModelProto &model);

}  // namespace popart::onnx
