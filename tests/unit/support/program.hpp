// Programs for unit tests: a graph under construction with short calls, and a run of a prepared Ir on the reference
// backend.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <popart/ir.hpp>

#include "../../support/host.hpp"
#include "backends/ref/ref.hpp"
#include "executable/executable.hpp"
#include "pipeline/passes.hpp"
#include "runtime/engine.hpp"

namespace popart::test {

class GraphBuilder {
 public:
  explicit GraphBuilder(Graph &graph) : graph_(graph) {}

  TensorIndex stream(const std::string &id, DataType type, Shape shape) {
    return graph_.addStream(id, TensorInfo(type, std::move(shape)));
  }
  TensorIndex variable(const std::string &id, Shape shape, const std::vector<float> &values) {
    return graph_.addVariable(graph_.addScope(id), TensorData::of<float>(shape, values));
  }
  TensorIndex constant(const std::string &id, Shape shape, const std::vector<float> &values) {
    return graph_.addConstant(graph_.addScope(id), TensorData::of<float>(shape, values));
  }
  TensorIndex input(const std::string &id, Shape shape, DataType type = DataType::FLOAT) {
    return graph_.addInput(graph_.addScope(id), TensorInfo(type, std::move(shape)));
  }
  // One op with one output named `id`.
  TensorIndex op(const std::string &type, const std::vector<TensorIndex> &inputs, const std::string &id,
                 Attributes attributes = {}) {
    return graph_
        .addConnectedOp(opDef(type), inputs, {graph_.addScope(id)}, std::move(attributes), Op::Settings(graph_))
        ->outputs()[0];
  }
  Graph &graph() { return graph_; }

 private:
  Graph &graph_;
};

// `count` different numbers in (-1, 1), the same on every machine.
inline std::vector<float> numbers(int64_t count, int seed = 1) {
  std::vector<float> result;
  uint32_t state = 2654435761u * static_cast<uint32_t>(seed) + 12345u;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    result.push_back(static_cast<float>(state >> 8) / 8388608.0f - 1.0f);
  }
  return result;
}

// Types of the ops of a graph in schedule order.
inline std::vector<std::string> opTypes(const Graph &graph) {
  std::vector<std::string> result;
  for (Op *op : graph.getOpSchedule()) result.push_back(op->def().type());
  return result;
}

inline int countOps(const Graph &graph, const std::string &type) {
  int count = 0;
  for (Op *op : graph.ops()) count += op->is(type);
  return count;
}

// Feeds the same values to each stream in every run and keeps the last value of each anchor.
class ProgramRun : public runtime::StreamSource {
 public:
  using Backends = std::vector<const executable::Backend *>;
  explicit ProgramRun(const Ir &ir, Backends backends = {&ref::backend()}, int threads = 1,
                      lower::LaneRule lanes = lower::LaneRule::Auto, std::set<std::string> passesOff = {}) {
    lower::LowerOptions options;
    options.passesOff = std::move(passesOff);
    options.fuse = backends.front() != &ref::backend();  // fused rows have no reference kernels
    options.backends = std::move(backends);
    options.threads = threads;
    options.lanes = lanes;
    options.keepText = true;
    executable_ = pipeline::lower(ir, options);
    engine_ = std::make_unique<runtime::Engine>(executable_, host(),
                                                runtime::RunSettings{threads, runtime::WakePolicy::Always});
    for (size_t i = 0; i < executable_->variables.size(); ++i)
      if (!executable_->variables[i].initial.empty())
        engine_->writeVariable(static_cast<int>(i), executable_->variables[i].initial.data());
  }

  template <class T>
  void feed(const std::string &stream, const std::vector<T> &values) {
    const auto *bytes = reinterpret_cast<const char *>(values.data());
    inputs_[stream].assign(bytes, bytes + values.size() * sizeof(T));
  }
  void run() { engine_->run(*this); }
  const executable::Executable &executable() const { return *executable_; }
  std::vector<float> anchor(const std::string &id) const { return asFloats(outputs_.at(id)); }
  std::vector<float> variable(const std::string &id) const {
    const int i = indexOf(id);
    std::vector<char> bytes(static_cast<size_t>(executable_->variables[i].info.nbytes()));
    engine_->readVariable(i, bytes.data());
    return asFloats(bytes);
  }
  void write(const std::string &id, const std::vector<float> &values) {
    engine_->writeVariable(indexOf(id), values.data());
  }

  const void *input(int stream, int64_t bytes) override {
    const auto &values = inputs_.at(executable_->inputs[stream].id);
    if (static_cast<int64_t>(values.size()) != bytes)
      throw error("test: stream size: got {}, expected {}", values.size(), bytes);
    return values.data();
  }
  void *output(int stream, int64_t bytes) override {
    auto &buffer = outputs_[executable_->outputs[stream].id];
    buffer.resize(static_cast<size_t>(bytes));
    return buffer.data();
  }

 private:
  static std::vector<float> asFloats(const std::vector<char> &bytes) {
    std::vector<float> result(bytes.size() / sizeof(float));
    std::copy(bytes.begin(), bytes.begin() + static_cast<int64_t>(result.size() * sizeof(float)),
              reinterpret_cast<char *>(result.data()));
    return result;
  }
  int indexOf(const std::string &id) const {
    for (size_t i = 0; i < executable_->variables.size(); ++i)
      if (executable_->variables[i].id == id) return static_cast<int>(i);
    throw error("test: no variable '{}'", id);
  }

  std::shared_ptr<const executable::Executable> executable_;
  std::unique_ptr<runtime::Engine> engine_;
  std::map<std::string, std::vector<char>> inputs_, outputs_;
};

}  // namespace popart::test
