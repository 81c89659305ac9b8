// Transforms that users register, by name.
#include <popart/transforms/transform.hpp>

#include <algorithm>

#include <popart/error.hpp>

#include "base/nearest.hpp"

namespace popart {
namespace {

std::vector<std::unique_ptr<const Transform>> &registered() {
  static std::vector<std::unique_ptr<const Transform>> transforms;
  return transforms;
}

}  // namespace

bool Transform::registerTransform(std::unique_ptr<Transform> transform) {
  check(transform != nullptr, "Transform: the transform is a null pointer. Register an object");
  const std::string name = transform->getName();
  check(std::ranges::none_of(registered(), [&](const auto &other) { return other->getName() == name; }),
        "Transform '{}': a transform of this name exists already. Give it another name", name);
  registered().push_back(std::move(transform));
  return true;
}

const Transform &Transform::get(const std::string &name) {
  for (const auto &transform : registered())
    if (transform->getName() == name) return *transform;
  throw error("Transform '{}': no transform of this name is registered{}", name, nearestText(name, names()));
}

std::vector<std::string> Transform::names() {
  std::vector<std::string> result;
  for (const auto &transform : registered()) result.push_back(transform->getName());
  return result;
}

}  // namespace popart
