// Tensors: a view of the tensors of one graph, or of all graphs of a program, by id.
#pragma once
#include <string>
#include <vector>

#include <popart/names.hpp>

namespace popart {

class Graph;
class Tensor;
enum class TensorType;

// Valid as long as its graphs. Lists are in creation order, graph after graph.
class Tensors {
 public:
  explicit Tensors(std::vector<const Graph *> graphs) : graphs_(std::move(graphs)) {}
  Tensor *get(const TensorId &id) const;    // from the first graph that has it; popart::error with the nearest ids
  bool contains(const TensorId &id) const;  // whether any of the graphs has it
  size_t n() const { return getAll().size(); }
  std::vector<Tensor *> getAll() const;                    // of every type
  std::vector<Tensor *> getOfType(TensorType type) const;  // of one type
  std::vector<TensorId> getAllTensorIds() const;           // of getAll
  std::vector<TensorId> getIds(TensorType type) const;     // of getOfType

 private:
  Tensor *find(const TensorId &id) const;  // null if no graph has it
  std::vector<const Graph *> graphs_;
};

}  // namespace popart
