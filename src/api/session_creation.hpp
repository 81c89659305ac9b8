// The request of a session or of Ir::prepare for a program made from a model, and the record of it in the program.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <popart/dataflow.hpp>
#include <popart/devicemanager.hpp>
#include <popart/inputshapeinfo.hpp>
#include <popart/optimizer.hpp>
#include <popart/session.hpp>

#include "onnx/reader.hpp"
#include "onnx/training/trainable_tensors.hpp"
#include "pipeline/prepare.hpp"

namespace popart {

// Copies of all arguments: programs for other input shapes are made from them later.
struct Creation {
  DataFlow dataFlow;
  std::shared_ptr<DeviceInfo> device;
  InputShapeInfo inputShapeInfo;
  SessionOptions options;
  Patterns patterns;
  std::string name;
  std::shared_ptr<const Optimizer> optimizer;  // null: inference
  TensorId loss;
  std::vector<LossObject> losses;
  std::set<TensorId> fed{};  // weights that are also graph inputs and whose values come with the runs
  std::shared_ptr<const onnx::TrainableTensors> trainable = nullptr;  // of the model; null: weights are constants
};

// Shared by copies of the Ir.
struct Ir::Origin {
  onnx::Model model;
  Creation request;          // without device: the caller that runs the program provides one
  pipeline::Prepared facts;  // without Ir
};

}  // namespace popart
