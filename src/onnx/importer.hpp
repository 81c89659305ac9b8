// The importer: reads ONNX nodes in order and adds ops to graphs of the Ir. Private to this room; does not include
// protobuf types. When a node is reached, types and shapes of all its inputs are known, and everything that depends
// only on constants and shapes has been folded, so inputs that state shapes have values.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <popart/error.hpp>

#include "base/unknown_value.hpp"
#include "onnx/bounded_sizes.hpp"
#include "onnx/model_content.hpp"
#include "onnx/operator_table.hpp"
#include "onnx/reader.hpp"

namespace popart::onnx {

// The attributes of one node, with reference attributes of functions replaced. Graphs stay as messages.
struct NodeAttributes {
  Attributes values;
  std::map<std::string, const onnx_proto::GraphProto *> graphs;
  std::vector<int64_t> commGroup;  // for collectives: [CommGroupType, size]; empty: all replicas
};
// Attributes that the Builder writes: the replica group of collectives, the number of a node's debug information.
constexpr const char *kCommGroupAttribute = "__collectiveCommGroup", *kDebugInfoAttribute = "__debug_info_id";

// The tensors of an ONNX sequence. Its length is known when the graph is built.
using Sequence = std::vector<TensorIndex>;

// The largest number of nodes, after functions are expanded, for a model of `given` nodes.
int64_t mostNodesAfterExpansion(int64_t given);

// The meaning of a name in the model: a tensor, a sequence, or nothing (an absent optional value).
struct Meaning {
  Meaning(TensorIndex t = {}) : tensor(t) {}
  Meaning(Sequence elements) : sequence(std::move(elements)) {}
  TensorIndex tensor;  // invalid for a sequence and for nothing
  std::optional<Sequence> sequence;
};

// Names of tensors -> numbers of the nodes that compute them.
using NodeNumbers = std::unordered_map<std::string, int>;

// Where the names of one GraphProto or FunctionProto are looked up.
struct Scope {
  Graph *graph = nullptr;
  Scope *outer = nullptr;  // scope of the node that contains this graph; null for models and functions
  std::string prefix;      // of tensor ids made here
  std::map<std::string, int64_t> opsets;
  const NodeAttributes *functionAttributes = nullptr;  // of the call to this function
  const onnx_proto::FunctionProto *function = nullptr;
  const onnx_proto::GraphProto *source = nullptr;        // the graph whose nodes are imported; null: the function's
  std::shared_ptr<const NodeNumbers> producers;          // for these nodes; made when first needed
  std::unordered_map<std::string, TensorIndex> tensors;  // ONNX name -> tensor
  std::unordered_map<std::string, Sequence> sequences;   // ONNX name -> its tensors
  std::unordered_map<std::string, TensorId> wantedIds;   // ONNX name -> id it must get (outputs of inlined graphs)
  std::unordered_map<std::string, int> readers;          // ONNX name -> nodes that read it; if BuildOptions request it
  std::unordered_map<const onnx_proto::NodeProto *, std::string> moduleNames;  // of nodes whose modules the file says
  struct Capture {
    TensorIndex outer;
    TensorIndex inner;
  };
  std::unordered_map<std::string, std::string> refusals;  // ONNX name of a tensor that cannot be read -> reason
  std::vector<Capture> captures;               // tensors of `outer` that this graph reads, as additional graph inputs
  std::map<TensorIndex, TensorIndex> innerOf;  // of captures: outer -> inner
};

// The structure of the graph depends on a value that is computed in the run. A rule that reads the value may catch this
// and import the node in another way.
class unknown_value : public unknown_value_error {
 public:
  using unknown_value_error::unknown_value_error;
};

// An operator that neither the library nor a user provides.
class unsupported_operator : public error {
 public:
  using error::error;
};

// The model exceeds a limit. No part of it may be skipped for this reason.
class limit_error : public error {
 public:
  using error::error;
};

// Whether outputs of a body may have sizes that depend on data of the run.
enum class BodySizes : uint8_t { Known, Open };

// The operands of DequantizeLinear: (numbers - zero) scale, with one scale for all or one for each index of `axis`.
struct Dequantised {
  TensorIndex numbers, scale, zero;  // zero: may be absent
  int64_t axis = 0;
};

class NodeContext;
using ImportFn = void (*)(NodeContext &);

// Why a node cannot be imported.
struct Refusal {
  enum class Reason {
    None,     // it can be imported
    Input,    // a tensor that it reads is undefined
    Value,    // its structure depends on a value that is not known yet
    Unknown,  // no such operator is known
    Node      // its inputs, attributes or outputs are wrong
  };
  Reason reason = Reason::None;
  std::string text;  // empty for None
};

class Importer {
 public:
  Importer(const ModelContent &model, const BuildOptions &options, Ir &ir);

  void importMainGraph();
  // Imports one node into `scope`. Throws popart::error naming the node.
  void importNode(const onnx_proto::NodeProto &node, Scope &scope);
  // Imports `body` as a separate subgraph whose inputs have `inputInfos`; captured tensors follow as additional inputs,
  // and outputs are marked. `scope` receives the captures and must outlive the call. Constants of the outer graph are
  // copied, not captured. `meanings` receives the meaning of each output (the tensors of a sequence are marked one by
  // one); without it every output must be a tensor. Throws unknown_value if an output has a size that depends on data
  // of the run, except for tensors if `sizes` leaves it open.
  Graph &importBody(const onnx_proto::GraphProto &body, const std::string &name,
                    const std::vector<TensorInfo> &inputInfos, Scope &scope, std::vector<Meaning> *meanings = nullptr,
                    BodySizes sizes = BodySizes::Known);
  // Imports the nodes `nodes` of a graph, in this order, as a separate subgraph. Tensors `names` have `infos` and are
  // its first inputs; the rest is as in importBody. No output is marked.
  Graph &importPart(const std::vector<const onnx_proto::NodeProto *> &nodes, const std::vector<std::string> &names,
                    const std::vector<TensorInfo> &infos, const std::string &name, Scope &scope);
  // Adds the nodes of `body` to the graph of `outer`; outputs get `outputIds` unless these are empty. Returns the
  // outputs.
  std::vector<Meaning> inlineGraph(const onnx_proto::GraphProto &body, Scope &outer, const std::string &prefix,
                                   const std::vector<TensorId> &outputIds, const std::vector<Meaning> &inputs = {});
  // Adds the nodes of `body` to scope.graph, with `inputs` as its inputs. Returns the outputs.
  std::vector<Meaning> writeGraph(const onnx_proto::GraphProto &body, Scope &scope, const std::vector<Meaning> &inputs);

  // For builders: imports the nodes that can be imported; the outputs of other nodes stay undefined, with the reason in
  // scope.refusals.
  void importAvailable(const onnx_proto::GraphProto &graph, Scope &scope);
  // Why the node is refused, if it is; its outputs then stay undefined and get that text. A node that reads an
  // undefined tensor gets the tensor's text.
  Refusal tryImportNode(const onnx_proto::NodeProto &node, Scope &scope);

  // Removes the graphs that an attempt has made: all except `before`.
  void removeGraphsBut(const std::vector<Graph *> &before);

  TensorIndex resolve(const std::string &name, Scope &scope);
  Meaning meaningOf(const std::string &name, Scope &scope);
  // From now on `name` means `meaning` in `scope`.
  static void define(const std::string &name, Meaning meaning, Scope &scope);
  // Floats of the main graph that represent integers.
  std::map<TensorIndex, Dequantised> &dequantised() { return dequantised_; }
  // In training, for tensors that QuantizeLinear made: the same numbers as floats, through which the gradient goes.
  using InGraph = std::pair<const Graph *, TensorIndex>;
  std::map<InGraph, TensorIndex> &quantisedFloats() { return quantisedFloats_; }
  // Sizes that depend on data of the run; graph outputs have additional tensors for their lengths.
  BoundedSizes &sizes() { return sizes_; }
  const BoundedSizes &sizes() const { return sizes_; }
  // Throws unknown_value for a tensor with such a size, which `what` cannot read.
  void requireKnownSize(const Graph &graph, TensorIndex t, const std::string &name, const std::string &what) const;
  // For a graph output, or an element of one, whose sizes depend on data: the tensors that hold the sizes, by
  // dimension.
  const std::vector<OutputLength> &lengthsOf(const TensorId &output) const;
  // The sequence of that name, with its tensors captured if it is in an outer graph; null for other names.
  const Sequence *findSequence(const std::string &name, Scope &scope);
  // An unused id in the model and graph, which starts with `base`.
  TensorId freshId(const Graph &graph, const std::string &base) const;
  // Adds the op and folds it if its inputs are constant; outputs keep their ids in both cases. Passes sizes that depend
  // on data on to its outputs, or throws unknown_value.
  void addOp(Graph &graph, std::string_view type, const std::vector<TensorIndex> &inputs,
             const std::vector<TensorId> &ids, Attributes attributes, const Op::Settings &settings);
  // The same for an op whose output sizes the caller sets.
  void addPlainOp(Graph &graph, std::string_view type, const std::vector<TensorIndex> &inputs,
                  const std::vector<TensorId> &ids, Attributes attributes, const Op::Settings &settings);
  TensorData readTensor(const onnx_proto::TensorProto &tensor, const std::string &name) const;
  TensorData readSparseTensor(const onnx_proto::SparseTensorProto &tensor, const std::string &name) const;
  NodeAttributes readAttributes(const onnx_proto::NodeProto &node, const Scope &scope) const;

  const BuildOptions &options() const { return options_; }
  Ir &ir() const { return ir_; }
  const ModelContent &model() const { return model_; }
  // Folds the ops left in the graph that must be folded for `t` to become a constant.
  void foldWhatLeadsTo(Graph &graph, TensorIndex t) const;
  // For constants that are not stored in the file.
  FoldBudget &budget() const { return budget_; }
  // Counts one more node of the model, or one more iteration of a loop that is unrolled: throws popart::error when
  // there are too many.
  void countNode();
  bool isFunction(const NodeContext &node) const;
  // Records that the node has training form in the file and is read in inference form.
  void noteInferenceForm(const std::string &node) { inferenceForms_.insert(node); }
  // Logs unusual properties of the imported model.
  void logFindings() const;
  // Throws popart::error with `what` when the budget has fewer bytes left.
  void takeFromBudget(int64_t bytes, const std::string &what) const;

 private:
  // The tensor `outer` of the enclosing scope, captured for `scope`.
  TensorIndex capture(TensorIndex outer, const std::string &name, Scope &scope);
  void addInitializers(const onnx_proto::GraphProto &graph, Scope &scope);
  // Whether the floating-point initializer is a variable of the program instead of a constant.
  bool isVariable(const TensorId &id) const;
  // Adds the variables that are not initializers of the main graph: copies of others, results of Identity nodes, and
  // initializers of bodies.
  void addFurtherVariables(Scope &main);
  // The variable for an initializer of a body, captured for `scope`; invalid for constants.
  TensorIndex variableOfBody(const onnx_proto::TensorProto &tensor, Scope &scope);
  void addModelInputs(const onnx_proto::GraphProto &graph, Scope &scope);
  void importNodes(const onnx_proto::GraphProto &graph, Scope &scope);
  bool importFunction(NodeContext &node);
  void checkOpsets() const;
  // Counts how many nodes read each name of the scope; a node whose body reads it counts.
  static void countReaders(const onnx_proto::GraphProto &graph, Scope &scope);
  static void countReaders(const onnx_proto::FunctionProto &function, Scope &scope);
  bool readsShared(const onnx_proto::NodeProto &node, const Scope &scope) const;
  // Whether a size of an input depends on data of the run.
  bool readsBounded(const onnx_proto::NodeProto &node, const Scope &scope) const;
  void addSequenceInput(const onnx_proto::ValueInfoProto &input, Scope &scope);
  void markOutputs(const onnx_proto::GraphProto &graph, Scope &scope);
  void compareDeclared(const onnx_proto::GraphProto &graph, const Scope &scope);
  void markOutput(Graph &graph, TensorIndex t, const TensorId &id);
  void makeOutput(Graph &graph, TensorIndex t, const TensorId &id);  // the tensor, and the tensors of its lengths
  void boundReturned(Scope &scope);                                  // for options.returned, if sizes depend on data
  bool isDifferentiated(const Graph &graph, const std::vector<TensorIndex> &tensors) const;
  int64_t givenBytes() const;
  AttributeValue readAttribute(const onnx_proto::AttributeProto &attribute, const std::string &where) const;
  void putAttribute(const onnx_proto::AttributeProto &attribute, const std::string &where, NodeAttributes &to) const;

  const ModelContent &model_;
  const BuildOptions &options_;
  Ir &ir_;
  BoundedSizes sizes_{*this};
  std::map<TensorIndex, Dequantised> dequantised_;
  std::map<InGraph, TensorIndex> quantisedFloats_;
  const TrainableTensors *trainable_ = nullptr;            // null: all weights are constants, or all are variables
  std::map<TensorId, std::vector<OutputLength>> lengths_;  // of graph outputs
  std::set<std::string> inferenceForms_;                   // nodes read in inference form
  std::vector<std::string> wrongDeclarations_;             // of values and outputs: declared and computed
  std::set<TensorId> marked_;                              // graph outputs and their parts that exist
  std::unordered_set<std::string> reserved_;               // names the model uses
  mutable std::unordered_map<std::string, int64_t>
      lastNumbers_;  // graph and base of fresh ids -> the last one's number
  std::map<std::string, const onnx_proto::FunctionProto *> functions_;
  int depth_ = 0, functionDepth_ = 0;
  bool folds_ = true;  // for the node being imported
  int64_t nodesImported_ = 0, mostNodes_;
  mutable FoldBudget budget_;
};

// An operator of one version of its domain.
struct OperatorName {
  const char *type;
  int64_t opset = newestOnnxOpset();
  const char *domain = "ai.onnx";
};

// The view of one node for its import rule.
class NodeContext {
 public:
  NodeContext(Importer &importer, Scope &scope, const onnx_proto::NodeProto &node, NodeAttributes attributes,
              Op::Settings settings);

  const std::string &type() const { return type_; }
  const std::string &domain() const { return domain_; }
  int64_t opset() const { return opset_; }  // version of the node's domain that the model imports
  bool training() const { return importer_.options().purpose == Purpose::Training; }
  // For a node with training form in the file: whether this form is kept. If not, the importer records it.
  bool keepsTrainingForm() const {
    if (training() || importer_.options().trainingForm == TrainingForm::FromFile) return true;
    importer_.noteInferenceForm(scope_.prefix + text_ + (outputNames_.empty() ? "" : outputNames_.front()));
    return false;
  }
  Graph &graph() const { return *scope_.graph; }
  Scope &scope() const { return scope_; }
  Importer &importer() const { return importer_; }
  const Op::Settings &settings() const { return settings_; }
  const std::string &overload() const { return overload_; }

  Attributes &attributes() { return attributes_.values; }
  const NodeAttributes &nodeAttributes() const { return attributes_; }
  template <class T>
  T attr(std::string_view name, const T &fallback) const {
    return attributes_.values.getAttribute<T>(name, fallback);
  }
  bool hasAttr(std::string_view name) const { return attributes_.values.hasAttribute(name); }
  // Subgraph attribute; throws popart::error when it is missing.
  const onnx_proto::GraphProto &graphAttribute(const std::string &name) const;

  int inputCount() const { return static_cast<int>(inputs_.size()); }
  bool hasIn(int i) const { return i < inputCount() && inputs_[i].valid(); }
  TensorIndex in(int i) const;  // throws popart::error when absent
  TensorIndex optionalIn(int i) const { return hasIn(i) ? inputs_[i] : TensorIndex{}; }
  const TensorInfo &info(int i) const { return graph().info(in(i)); }
  const TensorInfo &info(TensorIndex t) const { return graph().info(t); }
  const std::vector<TensorIndex> &inputs() const { return inputs_; }
  // The axis counted from 0; a negative axis counts from the end. Throws popart::error if it is not one of `rank`
  // dimensions.
  int64_t axisOf(int64_t axis, int64_t rank) const;
  bool hasSequence(int i) const { return sequences_.contains(i); }
  const Sequence &sequence(int i) const;  // throws popart::error for other inputs
  // The number of named inputs, including those at the end that mean nothing.
  int namedInputs() const { return static_cast<int>(inputNames_.size()); }
  Meaning meaning(int i) const;  // nothing for an absent input
  bool isConstant(TensorIndex t) const;
  // The value of input i; null when it depends on data of the run.
  const TensorData *knownValue(int i) const;
  // The value of input i; throws popart::error, which says that it must be known when the graph is built, if it is not.
  const TensorData &constant(int i) const;
  std::vector<int64_t> constantInts(int i) const;
  int64_t constantInt(int i) const;    // one integer, rank 0 or 1
  double constantNumber(int i) const;  // one element

  int outputCount() const { return static_cast<int>(outputNames_.size()); }
  bool hasOut(int i) const { return i < outputCount() && !outputNames_[i].empty(); }
  const std::vector<std::string> &outputNames() const { return outputNames_; }
  const std::string &firstOutput() const;  // its name; throws popart::error for a node without outputs
  TensorId outputId(int i) const;          // the id for the tensor of output i

  // An intermediate value.
  TensorIndex emit(std::string_view type, const std::vector<TensorIndex> &inputs, Attributes attributes = {});
  TensorIndex literal(const TensorData &value);
  TensorIndex literalInts(const std::vector<int64_t> &values);  // INT64, one dimension
  TensorIndex literalLike(TensorIndex t, double value);         // scalar with the element type of t
  // Adds the op that makes all outputs of the node, or output i.
  void results(std::string_view type, const std::vector<TensorIndex> &inputs, Attributes attributes = {});
  void result(int output, std::string_view type, const std::vector<TensorIndex> &inputs, Attributes attributes = {});
  void resultValue(int output, const TensorData &value);  // a constant
  void resultTensor(int output, TensorIndex t);           // a tensor that exists; adds Identity
  void bind(int output, TensorIndex t);                   // output i is the tensor t itself
  void bindSequence(int output, Sequence elements);       // of one element type
  void boundOutput(int output, const Bounds &bounds);     // output i, which has its tensor
  // The sizes of the dimensions of input i.
  Sizes shapeOf(int i) const { return importer_.sizes().shapeOf(graph(), in(i)); }
  // The numbers of input i, each known or a size of the run; throws popart::error if one is neither.
  Sizes sizesIn(int i) const;
  void resultSizes(int output, const Sizes &sizes, int rank);  // INT64, of no dimensions or one
  PlainOps plainOps() const;
  void resultMeaning(int output, const Meaning &meaning);  // a tensor that exists, a sequence, or nothing

  TensorId unusedId(std::string_view type, int output) const;

  // This node as a node of another operator, with the given inputs and attributes; results have the names `outputs`.
  NodeContext as(const OperatorName &op, const std::vector<TensorIndex> &inputs, Attributes attributes,
                 std::vector<std::string> outputs) const;
  // Imports such a node with the names of this node's results.
  void importAs(const OperatorName &op, const std::vector<TensorIndex> &inputs, Attributes attributes) const;

  template <class... A>
  [[noreturn]] void fail(std::string_view format, const A &...args) const {
    throw error("{}: {}", text_, formatText(format, {toText(args)...}));
  }
  template <class... A>
  void require(bool ok, std::string_view format, const A &...args) const {
    if (!ok) fail(format, args...);
  }
  // The same if the reason is a value that the run computes.
  template <class... A>
  void requireKnown(bool ok, std::string_view format, const A &...args) const {
    if (!ok) throw unknown_value_error("{}: {}", text_, formatText(format, {toText(args)...}));
  }

 private:
  const Tensor &origin(TensorIndex t) const;
  Importer &importer_;
  Scope &scope_;
  std::string type_, domain_, overload_, text_;
  int64_t opset_ = 1;
  NodeAttributes attributes_;
  Op::Settings settings_;
  std::vector<TensorIndex> inputs_;
  std::map<int, const Sequence *> sequences_;  // inputs that are sequences, of their scope; invalid in inputs_
  std::vector<std::string> inputNames_, outputNames_;
  mutable std::vector<TensorId> outputIds_;  // chosen when first needed
};

// For a graph attribute of the node, in a separate graph.
Scope bodyScope(NodeContext &n);

// Moves PopART's private attributes ("__ipu_number", …) from `attributes` into settings.
void takePlacement(Attributes &attributes, Op::Settings &settings, const std::string &where);

// The rule for operators whose inputs and attributes do not map one to one; nullptr: the regular rule applies.
ImportFn findImportRule(const std::string &domain, const std::string &type);
// Imports by the operator's rule, or by the regular one.
void importByRule(NodeContext &node);
// The regular rule: attributes by name, ConstInputDefs as attributes. Throws popart::error for operators without a row.
void importRegular(NodeContext &node);
void importRegularAs(NodeContext &node, const OpDef &def);
// Whether the node's operator set is one that PopART has. There positions are INT32, INT64 is INT32 on its devices, and
// a reduction over an empty list of axes reduces nothing.
bool followsPopart(const NodeContext &node);
// For operators that draw random numbers: adds the session's seed as an input.
void importRandom(NodeContext &node);
// The seed for this: the session's, or one for this node if it has an attribute `seed`, which is then removed.
TensorIndex randomSeed(NodeContext &node);

// Whether a node may only have the inputs, outputs and attributes in its rule's names. Variadic: the last input may
// repeat.
enum class NameCheck : uint8_t { None, Exact, Variadic };

struct ImportRule {
  const char *domain;
  const char *type;
  ImportFn import;
  OperatorNames names = {};  // of operators that are neither in ai.onnx's table nor in the catalog
  bool takesSequences = false;
  std::vector<OpVersion> versions = {1};  // of operators that are not in ai.onnx's table
  NameCheck check = NameCheck::None;
};
// Throws popart::error if the node has inputs, outputs or attributes that `rule.names` does not list, as `rule.check`
// says.
void checkNames(const NodeContext &node, const ImportRule &rule);
// All rules, by domain and type.
const std::map<std::pair<std::string, std::string>, ImportRule> &importRules();
// The tables in src/onnx/import/*.cpp.
std::vector<ImportRule> mathRules();
std::vector<ImportRule> shapeRules();
std::vector<ImportRule> constantRules();
std::vector<ImportRule> normRules();
std::vector<ImportRule> spatialRules();
std::vector<ImportRule> controlRules();
std::vector<ImportRule> nnRules();
std::vector<ImportRule> graphcoreRules();
std::vector<ImportRule> recurrentRules();
std::vector<ImportRule> resizeRules();
std::vector<ImportRule> attentionRules();
std::vector<ImportRule> einsumRules();
std::vector<ImportRule> transformerRules();
std::vector<ImportRule> samplingRules();
std::vector<ImportRule> sequenceRules();
std::vector<ImportRule> staticSequenceRules();
std::vector<ImportRule> loopRules();
std::vector<ImportRule> ngramRules();
std::vector<ImportRule> selectionRules();
std::vector<ImportRule> fourierRules();
std::vector<ImportRule> quantisedRules();
std::vector<ImportRule> scanRules();
std::vector<ImportRule> packedDataRules();
std::vector<ImportRule> gradientRules();
std::vector<ImportRule> previewTrainingRules();
std::vector<ImportRule> machineLearningRules();
std::vector<ImportRule> supportVectorRules();
std::vector<ImportRule> determinantRules();
std::vector<ImportRule> graphcoreCompositionRules();
std::vector<ImportRule> microsoftRules();

}  // namespace popart::onnx
