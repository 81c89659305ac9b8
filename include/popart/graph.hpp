// Graph: owns ops and tensors in stable storage. Edges change only through it, and each edit leaves the graph legal.
// Ops keep their creation order; topological order and constraints come from schedule/.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <popart/op.hpp>
#include <popart/tensor.hpp>
#include <popart/tensors.hpp>

namespace popart {

class Ir;

// compat: the order of a graph is always the order of execution, so both have the same effect.
enum class RequireOptimalSchedule { No = 0, Yes };
// For an op, the ops that must run before it.
using OpsBeforeKey = std::map<Op *, std::vector<Op *>>;

// compat: an op as getOps() lists it, used as the pointer that owns it.
class OpPointer {
 public:
  explicit OpPointer(Op *op) : op_(op) {}
  Op *get() const { return op_; }
  Op *operator->() const { return op_; }
  Op &operator*() const { return *op_; }

 private:
  Op *op_;
};

// The order constraints of a graph beyond those of data. Throw popart::error for an op of another graph.
class TopoCons {
 public:
  explicit TopoCons(Graph &graph) : graph_(graph) {}
  TopoCons(const TopoCons &) = delete;
  TopoCons &operator=(const TopoCons &) = delete;
  // No effect if it exists. `tied` is accepted: the planner chooses which ops are neighbours in order of execution.
  // Also throws popart::error for the same op twice.
  void insert(Op *before, Op *after, bool tied = false) const;
  bool contains(const Op *before, const Op *after) const;
  std::vector<Op *> getBefores(const Op *after) const;  // in creation order
  std::vector<Op *> getAfters(const Op *before) const;
  void remove(const Op *op) const;                     // every constraint of the op
  const TopoCons *operator->() const { return this; }  // compat: programs that treat it as a pointer

 private:
  Graph &graph_;
};

// A graph of an Ir. Functions that take an index expect an existing one of this graph (alive()).
class Graph {
 public:
  Graph(Ir &ir, GraphId id);  // called only by Ir::createGraph
  ~Graph();
  Graph(const Graph &) = delete;
  Graph &operator=(const Graph &) = delete;

  const GraphId id;                // "" for the main graph
  const TopoCons topoCons{*this};  // the same constraints as below
  Ir &getIr() const { return *ir_; }
  const std::string &str() const { return id; }
  std::string getGraphString() const { return id.empty() ? "the main graph" : "subgraph '" + id + "'"; }
  bool isMain() const { return id.empty(); }
  // "<graph id>/<name>"; in the main graph, `name`.
  TensorId addScope(const std::string &name) const { return id.empty() ? name : id + "/" + name; }
  std::string removeScope(const TensorId &tensorId) const;

  // ---- tensors
  // Throws popart::error if the id exists in this graph.
  TensorIndex addTensor(const TensorId &id, const TensorInfo &info, TensorType type);
  TensorIndex addConstant(const TensorId &id, const TensorData &data);
  TensorIndex addVariable(const TensorId &id, const TensorData &data);
  TensorIndex addInput(const TensorId &id, const TensorInfo &info);  // appends a graph input
  TensorIndex addStream(const TensorId &id, const TensorInfo &info);
  void markInput(TensorIndex t);
  void markOutput(TensorIndex t);
  void setInputs(std::vector<TensorIndex> inputs) { inputs_ = std::move(inputs); }
  void setOutputs(std::vector<TensorIndex> outputs) { outputs_ = std::move(outputs); }
  const std::vector<TensorIndex> &inputs() const { return inputs_; }
  const std::vector<TensorIndex> &outputs() const { return outputs_; }
  std::vector<TensorId> getInputIds() const;
  std::vector<TensorId> getOutputIds() const;
  TensorIndex find(const TensorId &id) const;  // invalid index if absent
  bool contains(const TensorId &id) const { return find(id).valid(); }
  Tensor &tensor(TensorIndex t) const { return *tensors_[t.value]; }
  Tensor *getTensor(const TensorId &id) const;  // throws popart::error naming the nearest existing ids
  const TensorInfo &info(TensorIndex t) const { return tensors_[t.value]->info; }
  std::vector<Tensor *> tensors() const;  // creation order
  std::vector<Tensor *> tensorsOfType(TensorType type) const;
  Tensors getTensors() const { return Tensors({this}); }
  void renameTensor(TensorIndex t, const TensorId &newId);
  // First free id among `id`, `id__t<K>` with K from the Ir's counter (popxl naming rule).
  TensorId uniqueId(const TensorId &id);
  // First free id among `id`, `id/1`, `id/2` … (ONNX builder naming rule), without the popxl counter. n calls for one
  // id take n steps in total.
  TensorId freeId(const TensorId &id);

  // ---- ops
  // Adds an op of the catalog; connect its edges afterwards with connect…, and call setup() at the end. Returned
  // pointers are valid until erase.
  Op *addOp(const OpDef &def, Attributes attributes, Op::Settings settings);
  Op *addOp(std::unique_ptr<Op> op);  // user ops and clones; edges must be empty
  // Adds, connects inputs (invalid index: absent), creates outputs named by `outputIds` and infers their infos.
  Op *addConnectedOp(const OpDef &def, const std::vector<TensorIndex> &inputs, const std::vector<TensorId> &outputIds,
                     Attributes attributes, Op::Settings settings);
  // Constructs an op of class T in this graph: a user's class, or Op itself for an operator of the library.
  template <class T, class... Args>
  T *createOp(Args &&...args) {
    return static_cast<T *>(addOp(std::make_unique<T>(std::forward<Args>(args)...)));
  }
  // The same, with inputs and new outputs by tensor id, and set up. Throws popart::error if the graph has no such
  // input, has such an output or the op refuses them; the graph is then unchanged.
  template <class T, class... Args>
  T *createConnectedOp(const std::map<InIndex, TensorId> &in, const std::map<OutIndex, TensorId> &out, Args &&...args) {
    T *op = createOp<T>(std::forward<Args>(args)...);
    connect(*op, in, out);
    return op;
  }
  void connectInput(OpIndex op, InIndex i, TensorIndex t);
  void disconnectInput(OpIndex op, InIndex i);
  TensorIndex createOutput(OpIndex op, OutIndex i, const TensorId &id);  // a new ActGrad tensor
  void connectOutput(OpIndex op, OutIndex i, TensorIndex t);             // t must have no producer
  void disconnectOutput(OpIndex op, OutIndex i);
  void replaceUses(TensorIndex oldTensor, TensorIndex newTensor);  // consumers only, not graph outputs
  void replaceUse(Use use, TensorIndex newTensor);
  void replaceOutputs(TensorIndex oldTensor, TensorIndex newTensor);  // in the list of graph outputs
  void eraseOp(OpIndex op);  // its outputs must be unused, or the caller erases them first; disconnects all edges
  void eraseOp(OpId id);     // the same by the op's id; throws popart::error if this graph has no such op
  void eraseTensor(TensorIndex t);  // must have neither producer nor uses
  // `fresh` replaces `old` for consumers and in the list of graph outputs.
  void replaceTensor(TensorIndex old, TensorIndex fresh) { replaceUses(old, fresh), replaceOutputs(old, fresh); }
  void eraseOpAndOutputs(OpIndex op);  // nothing may read its outputs
  Op &op(OpIndex o) const { return *ops_[o.value]; }
  bool alive(OpIndex o) const { return o.value < ops_.size() && ops_[o.value]; }
  bool alive(TensorIndex t) const { return t.value < tensors_.size() && tensors_[t.value]; }
  std::vector<Op *> ops() const;             // creation order
  std::map<OpId, OpPointer> getOps() const;  // by number
  size_t opCount() const { return opCount_; }
  size_t tensorSlots() const { return tensors_.size(); }  // index values are below this
  size_t opSlots() const { return ops_.size(); }
  // schedule/: a topological order that satisfies all constraints, including those of `before`; throws popart::error
  // for a cycle, and if `before` has an op of another graph.
  std::vector<Op *> getOpSchedule() const;
  std::vector<Op *> getOpSchedule(const OpsBeforeKey &before, RequireOptimalSchedule required) const;
  std::vector<Graph *> getCalledGraphs() const;

  // ---- extra order constraints: `before` runs before `after`
  void addConstraint(OpIndex before, OpIndex after);
  const std::vector<std::pair<OpIndex, OpIndex>> &constraints() const { return constraints_; }
  void removeConstraints(OpIndex op);  // all constraints of the op
  void moveConstraints(OpIndex from, OpIndex to);

  // Changes with every edit; analyses computed for one revision are valid only for it.
  uint64_t revision() const { return revision_; }

 private:
  void connect(Op &op, const std::map<InIndex, TensorId> &in, const std::map<OutIndex, TensorId> &out);
  void setupOrErase(Op &op);  // for a new op: if setup() throws, the op is erased
  void removeUse(TensorIndex t, OpIndex op, InIndex i);
  friend class Ir;
  Ir *ir_;  // never null
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::unordered_map<TensorId, TensorIndex> byId_;
  std::unordered_map<TensorId, int64_t> lastNumbers_;  // the last numbers that freeId used
  std::vector<TensorIndex> inputs_, outputs_;
  std::vector<std::pair<OpIndex, OpIndex>> constraints_;
  size_t opCount_ = 0;
  uint64_t revision_ = 0;
};

}  // namespace popart
