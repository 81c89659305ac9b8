// The parts of Ir that describe the model, options and data flow a program was made from. Preparation:
// session_create.cpp.
#include <algorithm>

#include <popart/io.hpp>

#include "api/session_creation.hpp"
#include "base/hash.hpp"

namespace popart {

onnx::ModelProto io::getModelFromString(const std::string &modelProto) {
  return onnx::ModelProto(onnx::Model::parse(modelProto).shared(), hashOfBytes(modelProto.data(), modelProto.size()));
}

const SessionOptions &Ir::getSessionOptions() const {
  static const SessionOptions defaults;
  return origin_ ? origin_->request.options : defaults;
}

const DataFlow &Ir::getDataFlow() const {
  static const DataFlow none;
  return origin_ ? origin_->request.dataFlow : none;
}

bool Ir::isTraining() const { return origin_ && origin_->request.optimizer; }

bool Ir::tensorExistsInInitialisers(const TensorId &id) const {
  return origin_ && std::ranges::count(origin_->model.initializerIds(), id) > 0;
}

std::vector<TensorId> Ir::getAllRemainingAnchors() const {
  std::set<TensorId> sent;
  for (const Op *store : opsOfType("HostStore")) sent.insert(store->attrString("stream"));
  std::vector<TensorId> remaining = getDataFlow().anchors();
  std::erase_if(remaining, [&](const TensorId &id) { return !sent.contains(id); });
  return remaining;
}

}  // namespace popart

using popart::combineHashes;

size_t std::hash<popart::InputShapeInfo>::operator()(const popart::InputShapeInfo &shapes) const {
  size_t seed = 0;
  for (const auto &[id, info] : shapes.getInfos()) {
    seed = combineHashes(seed, std::hash<std::string>()(id));
    seed = combineHashes(seed, std::hash<std::string>()(toText(info)));
  }
  return seed;
}

size_t std::hash<popart::IrBundle>::operator()(const popart::IrBundle &bundle) const {
  size_t seed = bundle.modelProto.hash();
  seed = combineHashes(seed, std::hash<popart::InputShapeInfo>()(bundle.inputShapeInfo));
  seed = combineHashes(seed, bundle.dataFlow.hash());
  seed = combineHashes(seed, std::hash<std::string>()(bundle.loss));
  seed = combineHashes(seed, bundle.optimizer ? bundle.optimizer->hash() : 0);
  seed = combineHashes(seed, bundle.deviceInfo.hash());
  seed = combineHashes(seed, std::hash<popart::SessionOptions>()(bundle.userOptions));
  return combineHashes(seed, std::hash<popart::Patterns>()(bundle.patterns));
}
