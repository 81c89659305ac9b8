// The two forms of nodes that compute something else in training: BatchNormalization and Dropout, in the main graph,
// bodies and functions of a message, for every operator set.
//
//                             training                              inference
//   BatchNormalization < 14   five outputs                          one output
//   BatchNormalization >= 14  training_mode = 1, three outputs      training_mode left out, one output
//   Dropout < 12              one form: the session decides         its input
//   Dropout >= 12             training_mode is a constant true      its input
//
// Nodes whose training_mode the run computes keep it. Operator set 6 has an attribute is_test, too.
#pragma once
namespace popart::onnx_proto {
class ModelProto;
}

namespace popart::onnx {

// BatchNormalization and Dropout get training form. New outputs are called "<first output>_mean", "_var", "_saved_mean"
// and "_saved_var".
void toTrainingForm(onnx_proto::ModelProto &model);
// BatchNormalization and Dropout get inference form. What reads the running mean or variance of a node, or is an output
// of its graph by that name, gets the stored one. A Dropout whose mask is read stays, and drops nothing.
void toInferenceForm(onnx_proto::ModelProto &model);

}  // namespace popart::onnx
