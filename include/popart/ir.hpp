// Ir: a program: the graphs, the counters that name things, the host streams. It knows no options, optimizers or
// passes.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <popart/graph.hpp>

namespace popart {

// Owns its graphs; there is always a main graph. Not thread-safe.
class Ir {
 public:
  Ir();  // an empty main graph
  ~Ir();
  Ir(const Ir &) = delete;
  Ir &operator=(const Ir &) = delete;

  Graph &getMainGraph() const { return *graphs_.at(""); }
  Graph &getGraph(const GraphId &id) const;  // throws popart::error when absent
  bool hasGraph(const GraphId &id) const { return graphs_.count(id) != 0; }
  Graph &createGraph(const GraphId &id);  // throws popart::error when the id exists
  // Nothing happens when there is none. Throws popart::error for the main graph. Ops that call it must be gone.
  void removeGraph(const GraphId &id);
  std::vector<Graph *> getAllGraphs() const;  // main graph first, then by id
  // `<base>_subgraph(<n>)`, n from the Ir's counter.
  GraphId createUniqueSubgraphId(const std::string &base);

  OpId getAndIncrOpsCounter() { return nextOpId_++; }  // starts at 100
  int64_t getAndIncrTensorCounter() { return nextTensor_++; }
  int64_t getAndIncrSubgraphCounter() { return nextSubgraph_++; }
  uint64_t getId() const { return irId_; }

  std::vector<Op *> opsOfType(std::string_view type) const;  // of all graphs, main graph first, creation order
  // A deep copy: same ids, constants and variables share their bytes (copy-on-write).
  std::unique_ptr<Ir> clone() const;

 private:
  std::map<GraphId, std::unique_ptr<Graph>> graphs_;
  OpId nextOpId_ = 100;
  int64_t nextTensor_ = 0;
  int64_t nextSubgraph_ = 0;
  uint64_t irId_;
};

// ---- src/ir: text, checks, comparison
enum class PrintData { Full, Summary };  // Summary: constants above 16 elements print a hash and cannot be parsed back
std::string print(const Graph &graph, PrintData data = PrintData::Full);
std::string print(const Ir &ir, PrintData data = PrintData::Full);
std::unique_ptr<Ir> parseIr(
    std::string_view text);  // parse(print(ir)) is structurally equal to ir; throws popart::error with line number
std::string toDot(const Graph &graph);
// Throws popart::internal_error naming the graph, op or tensor that breaks a rule (list at the top of
// src/ir/verify.cpp).
void verify(const Graph &graph);
void verify(const Ir &ir);
bool structurallyEqual(const Graph &a, const Graph &b);  // equal up to tensor, op and graph ids
bool structurallyEqual(const Ir &a, const Ir &b);
uint64_t hash(const Ir &ir);  // structure, attributes, constants; not variable values
// Popxl's print_schedule body (docs/compat/printing-and-naming.md): names gives dotted names of graph inputs.
std::string printSchedule(const Graph &graph, const std::map<TensorId, std::string> &names = {});
// docs/compat/serialised-ir.md. `root`: name of the model's graph; the key "maingraph" stands for generated ones.
std::string serialiseJson(const Ir &ir, const std::string &root = "");

}  // namespace popart
