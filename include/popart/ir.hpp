// Ir: a program: its graphs, and the counters for names. It knows no optimizers or passes: prepare(), and functions
// about the model, options and data flow from which it was created, are defined in src/api (decision 0055).
#pragma once
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <popart/graph.hpp>

namespace popart {

class DataFlow;
class DeviceInfo;
class InputShapeInfo;
class Optimizer;
class Patterns;
class SessionOptions;
namespace onnx {
class ModelProto;  // popart/io.hpp
}

// The arguments from which a program is prepared. It stores references, whose objects must outlive it.
struct IrBundle {
  // Without optimizer, the loss must be empty: inference.
  IrBundle(const onnx::ModelProto &model, const InputShapeInfo &shapes, const DataFlow &flow, const TensorId &lossId,
           const Optimizer *opt, DeviceInfo &device, const SessionOptions &options, const Patterns &switches,
           const std::string &name = "ir")
      : modelProto(model),
        inputShapeInfo(shapes),
        dataFlow(flow),
        loss(lossId),
        optimizer(opt),
        deviceInfo(device),
        userOptions(options),
        patterns(switches),
        sessionName(name) {}
  const onnx::ModelProto &modelProto;
  const InputShapeInfo &inputShapeInfo;
  const DataFlow &dataFlow;
  TensorId loss;
  const Optimizer *optimizer;
  DeviceInfo &deviceInfo;
  const SessionOptions &userOptions;
  const Patterns &patterns;
  std::string sessionName;  // for messages and the log
};

// Owns its graphs; there is always a main graph. Not thread-safe.
class Ir {
 public:
  enum class SerialiseFormat { JSON };  // of serialise()
  struct Origin;                        // the arguments of prepare(): src/api/ir_origin.hpp

  Ir();  // an empty main graph
  ~Ir();
  Ir(const Ir &) = delete;
  Ir &operator=(const Ir &) = delete;

  Graph &getMainGraph() const { return *graphs_.at(""); }
  Graph &getGraph(const GraphId &id) const;  // throws popart::error if absent
  bool hasGraph(const GraphId &id) const { return graphs_.count(id) != 0; }
  Graph &createGraph(const GraphId &id);  // throws popart::error if the id exists
  // No effect if there is none. Throws popart::error for the main graph. Ops that call it must be erased first.
  void removeGraph(const GraphId &id);
  std::vector<Graph *> getAllGraphs() const;  // main graph first, then by id
  // `<base>_subgraph(<n>)`, n from the Ir's counter.
  GraphId createUniqueSubgraphId(const std::string &base);

  OpId getAndIncrOpsCounter() { return nextOpId_++; }  // starts at 100
  int64_t getAndIncrTensorCounter() { return nextTensor_++; }
  int64_t getAndIncrSubgraphCounter() { return nextSubgraph_++; }
  uint64_t getId() const { return irId_; }

  std::vector<Op *> opsOfType(std::string_view type) const;  // in all graphs, main graph first, in creation order
  std::vector<Op *> opsOfType(const OperatorIdentifier &opid) const;  // those whose Op::opid is equal
  // The ops of each graph in the order of Graph::getOpSchedule, graph after graph. Throws popart::error as that does.
  std::vector<Op *> getOpSchedule(const OpsBeforeKey &before, RequireOptimalSchedule required) const;
  Tensors getTensors() const;  // of all graphs; of several with the same id, the main graph's, then the first graph's
  std::vector<TensorId> getTensorIds(TensorType type) const { return getTensors().getIds(type); }
  // serialiseJson of the graphs as they are, unlike Session::serializeIr; without `useScheduler`, each graph is in
  // creation order.
  void serialise(SerialiseFormat format, std::ostream &out, bool useScheduler = true) const;

  // ---- programs of models.
  // Makes this Ir, which must be new, the program that a session with this bundle runs, including backward pass,
  // updates, host transfers and loops over batches. Graph objects obtained earlier become invalid. Throws popart::error
  // as the sessions' createFromOnnxModel, for a loss without optimizer or vice versa, and if the Ir already has graphs
  // or ops; the Ir is then unchanged.
  void prepare(const IrBundle &bundle);
  bool isPrepared() const { return origin_ != nullptr; }  // by prepare, or by a session created from a model
  // As given, with options from environment variables; the defaults for a program that was not prepared.
  const SessionOptions &getSessionOptions() const;
  const DataFlow &getDataFlow() const;
  // Whether it was prepared with an optimizer; false for a program that was not prepared.
  bool isTraining() const;
  bool canTrain() const { return isTraining(); }
  bool canInfer() const { return true; }
  bool tensorExistsInInitialisers(const TensorId &id) const;  // of the model; false if there is none
  // The anchors whose values the program sends to the host, sorted.
  std::vector<TensorId> getAllRemainingAnchors() const;

  // A deep copy with the same ids; constants and variables share their bytes (copy-on-write).
  std::unique_ptr<Ir> clone() const;

 private:
  friend struct SessionCreation;
  void takeGraphs(Ir &from);              // replaces its own graphs; `from` may only be destroyed afterwards
  std::shared_ptr<const Origin> origin_;  // null: not prepared from a model
  std::map<GraphId, std::unique_ptr<Graph>> graphs_;
  OpId nextOpId_ = 100;
  int64_t nextTensor_ = 0;
  int64_t nextSubgraph_ = 0;
  uint64_t irId_;
};

// ---- src/ir: text, checks, comparison
enum class PrintData { Full, Summary };  // Summary: constants above 16 elements print a hash, and cannot be parsed
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
// The body of popxl's print_schedule (docs/compat/printing-and-naming.md): names are dotted names of graph inputs.
std::string printSchedule(const Graph &graph, const std::map<TensorId, std::string> &names = {});
// docs/compat/serialised-ir.md. `root`: name of the model's graph; generated ones have the key "maingraph". Ops are in
// creation order unless `inOrder`, which throws popart::error for a cycle.
std::string serialiseJson(const Ir &ir, const std::string &root = "", bool inOrder = true);

}  // namespace popart

template <>
struct std::hash<popart::Ir> {
  std::size_t operator()(const popart::Ir &ir) const { return popart::hash(ir); }
};
// Of the model, shapes, data flow, loss, device, options, patterns and optimizer. For values of the optimizer that are
// not constant, only this fact counts.
template <>
struct std::hash<popart::IrBundle> {
  std::size_t operator()(const popart::IrBundle &bundle) const;
};
