// Op: one node of a graph. There is one concrete class for all operators of the catalog; the rules and facts of an op
// are in its OpDef row. Subclassing is the documented extension point, only for user operators
// (docs/custom-operators.md): the virtuals below default to the row.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <popart/ids.hpp>
#include <popart/opdef.hpp>
#include <popart/raremap.hpp>
#include <popart/region.hpp>
#include <popart/tensor.hpp>
#include <popart/tensorlocation.hpp>

namespace popart {

class Graph;
class Ir;
class OpSerialiserBase;

// Whether an op's outputs are kept for the backward pass; a hint.
enum class RecomputeType { Undefined = 0, Checkpoint, Recompute, Recomputed };
// The part of the program an op belongs to.
enum class ExecutionContext {
  Normal = 0,
  AccumulateOuterFragment,
  WeightsFromHostFragment,
  WeightsToHostFragment,
  OptimizerFromHostFragment,
  Subgraph
};

// Which forward tensor is an input of a user-written gradient op.
enum class GradOpInType { In = 0, Out, GradOut };
struct GradInOutMapper {
  InIndex iGrad;      // input of the gradient op
  int iNonGrad;       // index of the forward op's input or output
  GradOpInType type;  // which of its tensors
  GradInOutMapper(InIndex grad, int nonGrad, GradOpInType t) : iGrad(grad), iNonGrad(nonGrad), type(t) {}
  bool operator==(const GradInOutMapper &) const = default;
};

// A node. Created and owned by a Graph; edges change only through the graph.
class Op {
 public:
  // Where, when and under which name a node runs, but not what it computes.
  struct Settings {
    Settings(Graph &g, std::string opName = "") : graph(&g), name(std::move(opName)) {}
    Graph *graph;       // never null
    std::string name;   // debug name, "<scope>/<name>"
    std::string scope;  // name scopes, "a/b"
    // Placement and order, empty if the program gave none; no result depends on them.
    std::optional<VGraphId> vgraphId;
    std::optional<PipelineStage> pipelineStage;
    std::optional<ExecutionPhase> executionPhase;
    RecomputeType recomputeType = RecomputeType::Undefined;
    ExecutionContext executionContext = ExecutionContext::Normal;
    TileSet tileSet = TileSet::Compute;
    std::optional<TensorLocation> tensorLocation;
    double schedulePriority = 0.0;
    // Position in program order, which orders ops that data does not; -1: the op's own creation index. An op that
    // replaces another one (pattern, decomposition) keeps its position.
    int64_t sequence = -1;
    std::set<std::string> excludePatterns;
    RareMap<float> inplacePreferences;
    RareMap<std::string> extraOutlineAttributes;
    // Back-end hints that change no result (partials type, available memory proportion, matmul serialisation …).
    RareMap<std::string> hints;
    // For a call made by outlining: the names of the ops that it replaces, by the ids of their copies in the callee.
    // For reports; not printed.
    std::shared_ptr<const std::map<OpId, std::string>> namesInside;
    Graph &getGraph() const { return *graph; }
  };

  // Completes and checks the attributes (OpDef::completeAttributes); takes an id from the Ir.
  Op(const OpDef &def, Attributes attributes, const Settings &settings);
  // By identifier: the library's operator of that name, otherwise a user's, whose row is registered or is created here.
  // Attributes of a library's operator are completed and checked; the version may be any one that the operator has.
  Op(const OperatorIdentifier &opid, const Settings &settings) : Op(opid, {}, settings) {}
  Op(const OperatorIdentifier &opid, Attributes attributes, const Settings &settings);
  Op(const Op &) = default;  // copies everything except edges, which Graph creates again
  virtual ~Op();

  OpId id = -1;             // printed "Type.id"; taken from the Ir's counter on construction
  OperatorIdentifier opid;  // type is the row's, version the row's newest
  Settings settings;        // settings.graph is set by the graph that owns the op

  // ---- definition
  const OpDef &def() const { return *def_; }
  void setDef(const OpDef &def);  // same inputs and outputs, another row (in-place variant and back)
  bool is(std::string_view type) const { return def_->type() == type; }
  bool is(Role role) const { return def_->role() == role; }
  bool has(Trait t) const { return def_->has(t); }
  const OpType &opType() const { return opid.type; }
  const Attributes &attributes() const { return attributes_; }
  Attributes &mutableAttributes() { return attributes_; }
  // These throw popart::error if the attribute is absent or has another type.
  int64_t attrInt(std::string_view name) const { return attributes_.getAttribute<int64_t>(name); }
  float attrFloat(std::string_view name) const { return attributes_.getAttribute<float>(name); }
  const std::string &attrString(std::string_view name) const { return attributes_.getAttribute<std::string>(name); }
  const std::vector<int64_t> &attrInts(std::string_view name) const {
    return attributes_.getAttribute<std::vector<int64_t>>(name);
  }
  bool hasAttr(std::string_view name) const { return attributes_.hasAttribute(name); }
  const std::string &name() const { return settings.name; }
  std::string str() const;        // "Gelu.103"
  std::string debugName() const;  // "Gelu 'scope/name'" for messages
  Graph &getGraph() const { return *settings.graph; }
  Ir &getIr() const;  // the graph's
  OpIndex index() const { return index_; }

  // ---- edges (indices may have gaps: absent optional inputs)
  const std::vector<TensorIndex> &inputs() const { return inputs_; }
  const std::vector<TensorIndex> &outputs() const { return outputs_; }
  int inputCount() const { return static_cast<int>(inputs_.size()); }
  int outputCount() const { return static_cast<int>(outputs_.size()); }
  bool hasInput(InIndex i) const { return i >= 0 && i < inputCount() && inputs_[i].valid(); }
  bool hasOutput(OutIndex i) const { return i >= 0 && i < outputCount() && outputs_[i].valid(); }
  Tensor *inTensor(InIndex i) const;  // throws popart::error if not connected
  Tensor *outTensor(OutIndex i) const;
  const TensorId &inId(InIndex i) const { return inTensor(i)->id; }
  const TensorId &outId(OutIndex i) const { return outTensor(i)->id; }
  const TensorInfo &inInfo(InIndex i) const { return inTensor(i)->info; }
  TensorInfo &outInfo(OutIndex i) { return outTensor(i)->info; }
  const TensorInfo &outInfo(OutIndex i) const { return outTensor(i)->info; }
  const Shape &inShape(InIndex i) const { return inInfo(i).shape(); }
  const Shape &outShape(OutIndex i) const { return outInfo(i).shape(); }
  int inRank(InIndex i) const { return inInfo(i).rank(); }
  int outRank(OutIndex i) const { return outInfo(i).rank(); }

  // ---- edges by tensor id, for user-written patterns. Throw popart::error if the graph has no such tensor.
  const Settings &getSettings() const { return settings; }
  void connectInTensor(InIndex i, const TensorId &tensorId);
  void connectOutTensor(OutIndex i, const TensorId &tensorId);  // the tensor must have no producer
  void createAndConnectOutTensor(OutIndex i, const TensorId &tensorId);
  void disconnectInTensor(InIndex i);
  void disconnectAllInputs();
  void disconnectAllOutputs();

  // ---- rules (defaults: the row)
  virtual std::unique_ptr<Op> clone() const { return std::make_unique<Op>(*this); }
  virtual void setup();                                                 // infers all output infos; throws popart::error
  virtual std::vector<std::unique_ptr<Op>> getGradOps() { return {}; }  // user ops with gradients written as ops
  virtual const std::vector<GradInOutMapper> &gradInputInfo() const;
  virtual const std::map<int, int> &gradOutToNonGradIn() const;
  virtual float getSubgraphValue() const;  // high: more operations than bytes moved
  static constexpr float getHighSubgraphValue() { return 1000.0f; }
  static constexpr float getLowSubgraphValue() { return 0.1f; }
  virtual void appendAttributes(OpSerialiserBase &) const;
  virtual void appendOutlineAttributes(OpSerialiserBase &) const;
  virtual std::vector<std::pair<OperatorIdentifier, float>> inplacePriorityDefault() const;
  virtual std::unique_ptr<Op> getInplaceVariant(const OperatorIdentifier &) const;
  virtual bool modifiesInput(InIndex i) const;                // input i's memory gets new values
  virtual bool aliasesInput(InIndex in, OutIndex out) const;  // output shares input's memory
  // The same in the form of PopART's user classes; the functions above call these. By default, a user's op does
  // neither.
  virtual view::Regions modifies(InIndex) const { return {}; }
  virtual view::Regions aliases(InIndex, OutIndex) const { return {}; }
  // compat: how regions of an input and an output that share memory correspond; here they are shared as a whole.
  virtual view::RegMap fwdRegMap(InIndex in, OutIndex out) const;
  virtual view::RegMap bwdRegMap(InIndex in, OutIndex out) const;
  virtual std::set<InIndex> optionalInputs() const;
  virtual bool canBeReplacedByIdentity() const { return false; }
  virtual bool hasSideEffect() const { return def_->has(Trait::SideEffect); }
  virtual bool requiresRandomSeed() const { return def_->has(Trait::Random); }
  virtual InIndex getSeedInIndex() const { return inputCount() - 1; }
  virtual bool isOutlineable() const { return true; }
  virtual bool isNorm() const { return def_->has(Trait::Norm); }
  virtual bool canRecompute() const { return true; }
  virtual bool canShard() const { return false; }

  bool isUserOp() const { return userOp_; }
  // Position in program order: settings.sequence, else the creation index.
  int64_t place() const { return settings.sequence >= 0 ? settings.sequence : int64_t{index_.value}; }
  // Whether output 0 has the elements, type and shape of input 0: the op may be removed if its other outputs are
  // unused.
  bool isIdentity() const;
  // Graphs referred to by Graph attributes, in attribute order.
  std::vector<Graph *> getCalledGraphs() const;

 protected:
  friend class Graph;
  const OpDef *def_;
  Attributes attributes_;
  OpIndex index_;
  std::vector<TensorIndex> inputs_, outputs_;
  bool userOp_ = false;
};

// Settings for an op that replaces or assists another one: all fields, with the position of `origin` in program order.
// The name becomes "<origin name>/<suffix>" if there is a suffix.
Op::Settings inheritSettings(const Op &origin, Graph &graph, std::string_view suffix = "");
// Settings for a copy in another graph, which is built in program order: all fields except the position.
Op::Settings copySettings(const Op &origin, Graph &graph);

// Work of one execution of an op, whose infos are known: by default, one operation for each element of the largest
// operand (none for host transfers), and all operands read and written once; nothing for views and shapes. The row may
// correct this. For a call: the work of the graphs that it runs, once if the number of runs is unknown, and that of the
// most expensive branch.
Cost costOf(const Op &op);
Cost costOf(const Graph &graph);  // of all ops

}  // namespace popart
