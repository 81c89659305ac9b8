// What sessions and Ir::prepare ask of a program that is made from a model, and what the program remembers of it.
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

// Its own of everything: programs for other input shapes are made of it later.
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
  std::set<TensorId> fed{};  // weights that are graph inputs too, of which runs bring the values
  std::shared_ptr<const onnx::TrainableTensors> trainable = nullptr;  // of the model; null: weights are constants
};

// Shared by copies of the Ir.
struct Ir::Origin {
  onnx::Model model;
  Creation request;          // without device: who runs the program brings one
  pipeline::Prepared facts;  // without Ir
};

}  // namespace popart
