// Transforms: whole-graph changes written by users, run at the checkpoints in
// SessionOptions::experimentalSettings.customTransformApplierSettings (docs/custom-operators.md).
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace popart {

class Graph;

// A change of one graph. Objects must not have state that a call changes: a session may apply one more than once.
class Transform {
 public:
  virtual ~Transform() = default;
  // The graph must stay legal. Returns whether it changed. An exception ends the creation of the session.
  virtual bool apply(Graph &graph) const = 0;
  virtual std::size_t getId() const = 0;
  virtual std::string getName() const = 0;  // options use this name

  // Registers the transform for all sessions of the process; returns true, for static initialisers. Throws
  // popart::error for a null pointer and for a name in use.
  static bool registerTransform(std::unique_ptr<Transform> transform);
  static bool registerTransform(Transform *transform) {
    return registerTransform(std::unique_ptr<Transform>(transform));
  }
  // Throws popart::error, with the nearest names, if it is not registered.
  static const Transform &get(const std::string &name);
  static std::size_t getIdFromName(const std::string &name) { return get(name).getId(); }
  // In the order of registration.
  static std::vector<std::string> names();
};

}  // namespace popart
