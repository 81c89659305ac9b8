// OpDef: one row that states everything true of an operator on every backend: inputs, outputs, attributes, the only
// shape and type rule, gradient, in-place variants, aliasing, decomposition, ONNX names. Rows are built once at
// start-up with the fluent calls below, one file per op or tight family under src/ops, listed in src/ops/catalog.cpp.
//
//   const OpDef kGelu = OpDef("ai.graphcore", "Gelu", {1})
//       .input("x", kFloats, "T").output("y")            // no infer(): output 0 has the info of input 0
//       .traits(Trait::Elementwise).inplace("GeluInplace", 10).cost(perElement(10))
//       .vjp([](VjpBuilder &b) { b.grad(0, b.emit("GeluGrad", {b.gradOut(0), b.in(0)})); })
//       .doc("Gaussian error linear unit, tanh approximation.");
#pragma once
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <popart/attributes.hpp>
#include <popart/datatype.hpp>
#include <popart/ids.hpp>
#include <popart/operatoridentifier.hpp>
#include <popart/tensorinfo.hpp>

namespace popart {

class Op;
class Graph;
class OpCreatorInfo;

// Set of element types, one bit per DataType.
using TypeSet = uint32_t;
constexpr TypeSet typeBit(DataType t) { return 1u << static_cast<int>(t); }
constexpr TypeSet kFloats =
    typeBit(DataType::FLOAT) | typeBit(DataType::FLOAT16) | typeBit(DataType::BFLOAT16) | typeBit(DataType::DOUBLE);
constexpr TypeSet kSignedInts =
    typeBit(DataType::INT8) | typeBit(DataType::INT16) | typeBit(DataType::INT32) | typeBit(DataType::INT64);
constexpr TypeSet kUnsignedInts =
    typeBit(DataType::UINT8) | typeBit(DataType::UINT16) | typeBit(DataType::UINT32) | typeBit(DataType::UINT64);
constexpr TypeSet kInts = kSignedInts | kUnsignedInts;
constexpr TypeSet kBool = typeBit(DataType::BOOL);
constexpr TypeSet kNumeric = kFloats | kInts;
constexpr TypeSet kAllTypes = kNumeric | kBool;  // types with arithmetic
// Floats of at most eight bits and smaller integers, which are only converted and moved.
constexpr TypeSet kSmallTypes =
    typeBit(DataType::FLOAT8_143) | typeBit(DataType::FLOAT8_152) | typeBit(DataType::FLOAT8E4M3FN) |
    typeBit(DataType::FLOAT8E5M2) | typeBit(DataType::FLOAT8E8M0) | typeBit(DataType::FLOAT6E2M3) |
    typeBit(DataType::FLOAT6E3M2) | typeBit(DataType::FLOAT4E2M1) | typeBit(DataType::INT4) | typeBit(DataType::UINT4) |
    typeBit(DataType::INT2) | typeBit(DataType::UINT2);
constexpr TypeSet kComplexTypes = typeBit(DataType::COMPLEX64) | typeBit(DataType::COMPLEX128);  // only moved
constexpr TypeSet kStoredTypes = kAllTypes | kSmallTypes | kComplexTypes;  // types that can be stored and moved
constexpr TypeSet kIndices = kInts;

// Facts for passes and backends. No trait: a pure function of its inputs and attributes.
enum class Trait : uint32_t {
  Elementwise = 1 << 0,  // each output element depends only on the (broadcast) input elements at the same position
  View = 1 << 1,        // output 0 has the elements of input 0 in the same memory order (Reshape, Identity, Detach …)
  SideEffect = 1 << 2,  // never pruned (host and remote stores, print, abort)
  Random = 1 << 3,      // reads the random seed (last input "seed", UINT32[2])
  Loss = 1 << 4,
  Norm = 1 << 5,
  VarUpdate = 1 << 6,  // updates a variable or optimizer state given as input 0
  Gradient = 1 << 7,   // visible upstream as <Op>Grad
  HostIo = 1 << 8,
  Call = 1 << 9,   // runs a subgraph once or more (Call, Loop, If)
  Init = 1 << 10,  // computes a value without tensor inputs
  Commutative = 1 << 11,
  Internal = 1 << 12,     // created only by compiler passes; not part of getSupportedOperations(false)
  Metadata = 1 << 13,     // result depends only on the input's shape (Shape, Size): always folded
  Conversion = 1 << 14,   // converts the element type of its input (Cast, BitCast)
  NeverFolded = 1 << 15,  // not folded even if its inputs are constant: it marks a place (Init, Detach, Nop)
  Spatial = 1 << 16,      // convolution, pool or normalisation of (N, C, spatial…), forward or gradient
};
constexpr Trait operator|(Trait a, Trait b) { return Trait(uint32_t(a) | uint32_t(b)); }

// Operators that passes, planning or a backend treat by name, one row each; all others are known only by their facts.
enum class Role : uint8_t {
  None,
  Call,  // control
  Loop,
  If,
  HostLoad,  // host transfers
  HostStore,
  RemoteLoad,
  RemoteStore,
  VariableAssign,
  ReplicatedAllReduce,  // collectives over replicas …
  ReplicatedReduceScatter,
  ReplicatedAllGather,
  CollectiveReduce,  // … and those for which devices have kernels
  CollectiveScatter,
  CollectiveGather,
  CollectivePublish,
  LoopRow,  // rows of a stack that loops read
  Gather,
  GatherGrad,
  DynamicSlice,
  DynamicSliceGrad,
  DynamicAdd,
  GetRandomSeed,
  ModifyRandomSeed,
  MatMul,  // products, convolutions and the fused ops made from them
  FusedMatMul,
  DequantizePacked,
  PackedMatMul,
  Conv,
  ConvDataGrad,
  ConvWeightsGrad,
  FusedConv,
  FusedConvDataGrad,
  FusedConvWeightsGrad,
  BatchNormalization,
  FusedElementwise,
  Transpose,
  Expand,
  Where,
  Sum,  // arithmetic that fusion matches
  Add,
  Sub,
  Mul,
  Neg,
  Scale,
  ScaledAdd,
  SGD0VarUpdate,
};

// ---- rules -------------------------------------------------------------------------------------------------------

// Arguments of a shape rule. All input infos are known. `fail` throws popart::error prefixed with the op's type and
// name.
class InferContext {
 public:
  explicit InferContext(Op &op) : op_(op) {}
  Op &op() const { return op_; }
  // These throw popart::error if an operand or attribute is absent or has another type.
  int inputCount() const;   // highest connected index + 1
  int outputCount() const;  // outputs the node was created with
  bool hasIn(int i) const;
  const TensorInfo &in(int i) const;  // throws popart::error if input i is not connected
  const Shape &shape(int i) const { return in(i).shape(); }
  DataType type(int i) const { return in(i).dataType(); }
  void out(int i, TensorInfo info) const;  // no effect if output i is absent
  void out(int i, DataType type, Shape shape) const { out(i, TensorInfo(type, std::move(shape))); }
  const Attributes &attrs() const;  // complete: defaults are filled in
  int64_t attrInt(std::string_view name) const { return attrs().getAttribute<int64_t>(name); }
  float attrFloat(std::string_view name) const { return attrs().getAttribute<float>(name); }
  const std::string &attrString(std::string_view name) const { return attrs().getAttribute<std::string>(name); }
  const std::vector<int64_t> &attrInts(std::string_view name) const {
    return attrs().getAttribute<std::vector<int64_t>>(name);
  }
  bool hasAttr(std::string_view name) const { return attrs().hasAttribute(name); }
  const Graph &graph(std::string_view attribute) const;          // subgraph that a Graph attribute refers to
  int64_t axis(std::string_view attribute, int64_t rank) const;  // normalised, range checked
  template <class... A>
  [[noreturn]] void fail(std::string_view format, const A &...args) const {
    throwFailure(formatText(format, {toText(args)...}));
  }
  template <class... A>
  void require(bool ok, std::string_view format, const A &...args) const {
    if (!ok) [[unlikely]]
      throwFailure(formatText(format, {toText(args)...}));
  }

 private:
  [[noreturn]] void throwFailure(const std::string &what) const;
  Op &op_;
};
// Sets the info of every output, or fails. It depends on shapes and types, not on values.
using InferFn = std::function<void(InferContext &)>;

// Adds ops to a graph on behalf of another op, whose settings they inherit (see inheritSettings in op.hpp).
class OpEmitter {
 public:
  // `scope`: part of the names of new ops between the name of `origin` and their type, such as "grad/".
  OpEmitter(Graph &graph, const Op &origin, std::string scope = "")
      : graph_(graph), origin_(origin), scope_(std::move(scope)) {}
  Graph &graph() const { return graph_; }
  const Op &op() const { return origin_; }  // the op being differentiated or decomposed
  const Attributes &attrs() const;          // of op()
  // Adds an op of the catalog with one output, infers its info and returns output 0. An invalid TensorIndex is an
  // absent optional input.
  TensorIndex emit(std::string_view type, std::initializer_list<TensorIndex> inputs, Attributes attributes = {});
  TensorIndex emit(std::string_view type, const std::vector<TensorIndex> &inputs, Attributes attributes = {});
  // The same with `outputs` outputs.
  std::vector<TensorIndex> emitMany(std::string_view type, const std::vector<TensorIndex> &inputs, int outputs,
                                    Attributes attributes = {});
  TensorIndex constant(const TensorData &value);  // a new constant of the graph
  // Scalar constant of `type` (rank 0), converted by TensorData::fromDoubles, which may throw.
  TensorIndex scalar(DataType type, double value);
  const TensorInfo &info(TensorIndex t) const;

 protected:
  Graph &graph_;
  const Op &origin_;
  const std::string scope_;
};

// Arguments of a gradient rule: forward tensors as they are available in the gradient graph, and the incoming
// gradients.
class VjpBuilder : public OpEmitter {
 public:
  // Returns the tensor of the gradient graph with the value of a forward tensor. A call makes the tensor an activation,
  // which the forward pass keeps.
  using TensorOf = std::function<TensorIndex(TensorIndex forward)>;
  // gradOuts: invalid if an output has no gradient; wanted: inputs whose gradient is requested.
  VjpBuilder(Graph &graph, const Op &forward, TensorOf activation, std::vector<TensorIndex> gradOuts,
             std::vector<bool> wanted)
      : OpEmitter(graph, forward, "grad/"),  // kGradientSuffix
        activation_(std::move(activation)),
        gradOuts_(std::move(gradOuts)),
        wanted_(std::move(wanted)) {
    grads_.resize(wanted_.size());
  }
  TensorIndex in(int i);                   // forward input i (invalid index if not connected)
  TensorIndex out(int i);                  // forward output i
  const TensorInfo &inInfo(int i) const;   // infos do not make the tensor an activation
  const TensorInfo &outInfo(int i) const;  // these throw popart::error if absent
  bool hasIn(int i) const;                 // connected in the forward op
  bool hasGradOut(int i) const { return i < static_cast<int>(gradOuts_.size()) && gradOuts_[i].valid(); }
  TensorIndex gradOut(int i) const { return gradOuts_.at(i); }
  bool wants(int i) const { return i < static_cast<int>(wanted_.size()) && wanted_[i]; }
  void grad(int input, TensorIndex g) { grads_.at(input) = g; }
  const std::vector<TensorIndex> &grads() const { return grads_; }

 private:
  TensorOf activation_;
  std::vector<TensorIndex> gradOuts_;
  std::vector<bool> wanted_;
  std::vector<TensorIndex> grads_;
};
// Calls grad(i, …) for requested inputs, with tensors of the inputs' type and shape; without a call, an input's
// gradient is zero.
using VjpFn = std::function<void(VjpBuilder &)>;

// Arguments of a decomposition: inputs of the op. It must return a tensor for every connected output.
class DecomposeBuilder : public OpEmitter {
 public:
  // `op`: a node of `graph`, which the decomposition replaces.
  DecomposeBuilder(Graph &graph, const Op &op);
  TensorIndex in(int i) const;  // invalid if absent
  bool hasIn(int i) const { return in(i).valid(); }
  const TensorInfo &inInfo(int i) const;  // these throw popart::error if absent
  const TensorInfo &outInfo(int i) const;
  bool hasOut(int i) const;  // connected
  void result(int output, TensorIndex t) { results_.at(output) = t; }
  const std::vector<TensorIndex> &results() const { return results_; }

 private:
  std::vector<TensorIndex> results_;
};
// Calls result(i, …) for each connected output, with a tensor of its type and shape.
using DecomposeFn = std::function<void(DecomposeBuilder &)>;

// A condition on an op whose infos are known.
using OpPredicate = std::function<bool(const Op &)>;

// The inverse of a view: returns the inputs' new values if `written` is the new value of output 0. `inputs`: their
// values before, in the emitter's graph; the emitter's op is the view.
using WriteBackFn =
    std::function<std::vector<TensorIndex>(OpEmitter &, const std::vector<TensorIndex> &inputs, TensorIndex written)>;

// Work of one execution of an op.
struct Cost {
  double flops = 0;                        // arithmetic operations; a multiply-add is two
  double bytesRead = 0, bytesWritten = 0;  // of operands, each counted once
  // Adds the work of another op.
  Cost &operator+=(const Cost &other) {
    return flops += other.flops, bytesRead += other.bytesRead, bytesWritten += other.bytesWritten, *this;
  }
};
// Corrects the cost that follows from the shapes (see costOf in op.hpp).
using CostFn = std::function<void(const Op &, Cost &)>;

// The layout that an op requires for the memory of one operand.
enum class OperandLayout : uint8_t {
  Plain,       // C order
  Uniform,     // any layout, the same for all Uniform operands of the op
  Channels,    // C order or channels last, equal to that of the op's other Channels operands
  Chosen,      // the layout that the kernels of the backend prefer
  ChosenLast,  // the same, with lower priority than Chosen operands of other ops
  Passed,      // operand of a called graph, or value that a loop carries out of it: the same layout outside and inside
};
// One entry per operand, connected or not.
struct OperandLayouts {
  std::vector<OperandLayout> in, out;  // by operand
};
// Sets what is not Plain; shapes are known.
using LayoutFn = void (*)(const Op &op, OperandLayouts &layouts);

// One way to split an op into `count` independent pieces. Split operands are divided into equal blocks along an axis.
// Piece i of every result depends only on piece i of the split operands and on all other operands.
struct Pieces {
  static constexpr int kWhole = -1;  // instead of an axis: every piece reads the whole operand
  int64_t count = 1;                 // number of pieces
  std::vector<int> in, out;          // by operand: the axis; results are always split
  // Attributes that are lists of sizes, with the index of the size of the split axis of output 0.
  std::vector<std::pair<std::string, int>> sizes;
};
// Whether the op splits into `pieces.count` pieces if input `cut` is split along `axis`, whose size the count divides.
// Writes how to `pieces`, whose lists have the right lengths and are all kWhole before the call. Shapes are known.
using PiecesFn = bool (*)(const Op &op, InIndex cut, int axis, Pieces &pieces);

// Creates an op of a user-written class (popart/opmanager.hpp); edges are connected afterwards.
using CreateFn = std::function<std::unique_ptr<Op>(const OpCreatorInfo &)>;

// ---- the row -----------------------------------------------------------------------------------------------------

// The role of an operand in training, which determines whether an initializer of it trains
// (docs/decisions/0078-what-trains.md).
enum class Slot : uint8_t {
  Operand,    // any value (Add, Mul, Concat …): trains by the rule of plain operands
  Parameter,  // weight, bias, embedding, scale or shift of a norm, slope, recurrent matrix: trains
  Statistic,  // running mean or variance: updated by the op itself, or not at all
  Setting,    // exponent, bound, scale of quantisation, size, pad, index: never trains
};

// How an op takes part if a network computes in 16 bits (docs/decisions/0085-precision.md).
enum class Precision : uint8_t {
  Full,     // computes in FLOAT: losses, softmax, sums over many elements, logarithms …
  Follows,  // computes in 16 bits if its operands are 16 bits: activations, sums of two, pools, data movement
  Reduced,  // computes in 16 bits: products and convolutions
};

enum class Arity { Required, Optional, Variadic };  // Variadic: zero or more, last only

// One input, or (Variadic) the last ones.
struct InputDef {
  std::string name;           // as in the ONNX specification if the op is an ONNX op
  TypeSet types;              // supported element types
  std::string typeVar;        // inputs with the same non-empty type variable must have equal element types
  Arity arity;                // only the last one may be Variadic
  Slot slot = Slot::Operand;  // role of its initializers in training
};
// One output, or (Variadic) the last ones; the shape rule sets infos.
struct OutputDef {
  std::string name;  // as in InputDef
  Arity arity;       // as in InputDef
};
// One attribute. If it is neither required nor has a default, it is absent unless given.
struct AttributeDef {
  std::string name;                          // as in the ONNX specification
  AttributeType type;                        // a value of another type is refused
  bool required;                             // completeAttributes throws if it is not given
  std::vector<AttributeValue> defaultValue;  // empty or one value
};
// ONNX input `index` (from operator version `since` on) that this IR stores as attribute `attribute`: its value must be
// known when the graph is built.
struct ConstInputDef {
  int index;              // position in ONNX's list of inputs
  std::string attribute;  // of the row
  OpVersion since;        // in lower versions, ONNX has it as an attribute as well
};
// An in-place variant of an op.
struct InplaceDef {
  std::string type;  // "GeluInplace"
  float priority;    // higher is preferred
  int input;         // which input it overwrites (or, for views, aliases)
};
// An input and an output that share memory.
struct AliasDef {
  static constexpr int kEveryInput = -1;  // as `input`: all inputs
  int input;                              // indices of the op
  int output;                             // indices of the op
  bool modifies;                          // the output is the input's memory with new values; false: shared, unchanged
};
// An ONNX operator that the row implements.
struct OnnxName {
  std::string domain;               // "ai.onnx", "ai.graphcore" or a user's
  std::string type;                 // "Gelu"
  std::vector<OpVersion> versions;  // supported since-versions, ascending
};

// The row. Functions of the first group state facts and return the row; those of the second group read them.
class OpDef {
 public:
  // `versions`: supported ONNX since-versions, ascending; empty means {1}. The name is also an ONNX name unless
  // notOnnx() is called.
  OpDef(std::string domain, std::string type, std::vector<OpVersion> versions);

  // Operands in order, attributes in any order.
  OpDef &input(std::string name, TypeSet types, std::string typeVar = "", Arity arity = Arity::Required);
  OpDef &output(std::string name, Arity arity = Arity::Required);
  OpDef &attr(std::string name, AttributeValue defaultValue);  // the default also fixes the type
  OpDef &attrRequired(std::string name, AttributeType type);
  OpDef &attrOptional(std::string name, AttributeType type);  // absent unless given
  OpDef &infer(InferFn fn);                                   // none: output 0 has the info of input 0
  OpDef &vjp(VjpFn fn);               // without it, or stopsGrad, a gradient through the op is a popart::error
  OpDef &noGrad(std::string reason);  // a request for a gradient through it is an error with this reason
  OpDef &stopsGrad();                 // cuts the path silently (Detach, integer results, Shape)
  OpDef &decompose(DecomposeFn fn);   // used if a backend has no kernel for the op
  OpDef &layouts(LayoutFn fn);        // default: element-wise ops take any layout, all others C order
  OpDef &pieces(PiecesFn fn);         // default: element-wise ops and views split, others do not
  OpDef &create(CreateFn fn);         // `fn` creates nodes of this row, with attributes as given
  OpDef &traits(Trait t);             // adds to those set
  OpDef &inplace(std::string type, float priority, int input = 0);  // the catalog makes the variant's row
  OpDef &modifies(int input, int output = 0);  // native in-place op (VarUpdate): output is the new value of input
  // The in-place variants share the memory of their input (of every input, if inputs are variadic) instead of
  // overwriting it.
  OpDef &view(WriteBackFn writeBack);
  OpDef &identityIf(OpPredicate condition);  // output 0 is then input 0, if it has the same type and shape
  OpDef &cost(CostFn fn);                    // default: the cost that follows from the shapes
  OpDef &role(Role r);
  OpDef &slots(Slot slot, std::initializer_list<int> inputs);  // for inputs stated before; all others are operands
  OpDef &precision(Precision p);                               // default: Follows for views, Full for all others
  OpDef &doc(std::string text);                                // one sentence, for getSupportedOperations and readers
  OpDef &onnx(std::string domain, std::string type,
              std::vector<OpVersion> versions);  // further ONNX names of the same op
  OpDef &notOnnx();  // no regular ONNX import or builder method (irregular ones are in src/onnx/import)
  OpDef &constInput(int index, std::string attribute, OpVersion since);  // see ConstInputDef

  const std::string &domain() const { return domain_; }
  const std::string &type() const { return type_; }
  const std::vector<OpVersion> &versions() const { return versions_; }
  OperatorIdentifier id() const;  // newest version
  const std::vector<InputDef> &inputs() const { return inputs_; }
  const std::vector<OutputDef> &outputs() const { return outputs_; }
  const std::vector<AttributeDef> &attributes() const { return attributes_; }
  const AttributeDef *findAttribute(std::string_view name) const;  // null if the row has no attribute of that name
  const std::vector<ConstInputDef> &constInputs() const { return constInputs_; }
  const std::vector<InplaceDef> &inplaces() const { return inplaces_; }
  const std::vector<AliasDef> &aliasRules() const { return aliases_; }
  const std::vector<OnnxName> &onnxNames() const { return onnxNames_; }
  bool has(Trait t) const { return (traits_ & static_cast<uint32_t>(t)) != 0; }
  bool hasVjp() const { return static_cast<bool>(vjp_); }
  bool cutsGradient() const { return stopsGrad_; }
  const std::string &noGradReason() const { return noGradReason_; }
  bool hasDecomposition() const { return static_cast<bool>(decompose_); }
  const WriteBackFn &writeBackRule() const { return writeBack_; }  // empty: not a view
  const OpPredicate &identityRule() const { return identity_; }    // empty: never
  const CostFn &costRule() const { return cost_; }
  Role role() const { return role_; }
  Slot slot(int input) const;  // for a variadic input, that of its row
  Precision precision() const { return has(Trait::View) ? Precision::Follows : precision_; }
  const std::string &doc() const { return doc_; }
  const InferFn &inferRule() const { return infer_; }
  const VjpFn &vjpRule() const { return vjp_; }
  const DecomposeFn &decomposeRule() const { return decompose_; }
  LayoutFn layoutRule() const { return layouts_; }
  PiecesFn piecesRule() const { return pieces_; }
  const CreateFn &createRule() const { return create_; }
  // For "GeluInplace": the row of "Gelu"; otherwise the row itself. Kernels are looked up by base().type().
  const OpDef &base() const { return base_ ? *base_ : *this; }
  bool isInplaceVariant() const { return base_ != nullptr; }
  // The row of an in-place variant, made by the catalog.
  static OpDef inplaceVariant(const OpDef &base, const InplaceDef &variant);

  // Fills in defaults; throws popart::error (naming `opName`) for unknown names, missing required ones and wrong types.
  Attributes completeAttributes(Attributes given, const std::string &opName) const;

 private:
  std::string domain_, type_;
  std::vector<OpVersion> versions_;
  std::vector<InputDef> inputs_;
  std::vector<OutputDef> outputs_;
  std::vector<AttributeDef> attributes_;
  std::vector<ConstInputDef> constInputs_;
  std::vector<InplaceDef> inplaces_;
  std::vector<AliasDef> aliases_;
  std::vector<OnnxName> onnxNames_;
  InferFn infer_;
  VjpFn vjp_;
  DecomposeFn decompose_;
  CreateFn create_;
  WriteBackFn writeBack_;
  OpPredicate identity_;
  CostFn cost_;
  LayoutFn layouts_ = nullptr;
  PiecesFn pieces_ = nullptr;
  uint32_t traits_ = 0;
  Role role_ = Role::None;
  Precision precision_ = Precision::Full;
  bool stopsGrad_ = false;
  std::string noGradReason_, doc_;
  const OpDef *base_ = nullptr;
};

// ---- the catalog (src/ops/catalog.cpp) -----------------------------------------------------------------------------

// nullptr if there is no such op. Types are unique over all domains.
const OpDef *findOpDef(std::string_view type);
const OpDef &opDef(std::string_view type);  // throws popart::internal_error
// The row that implements ONNX operator `type` of `domain` at the newest since-version <= `version`; nullptr if it is
// not supported.
const OpDef *findOnnxOp(std::string_view domain, std::string_view type, OpVersion version);
std::vector<const OpDef *> allOpDefs();
// Adds a row created at run time (user ops). Throws popart::error if the type already exists.
const OpDef &registerOpDef(OpDef def);

}  // namespace popart
