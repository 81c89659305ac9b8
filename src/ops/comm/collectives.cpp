// Collectives over replicas. Each row states shapes for a group of `group_size` replicas; `op` is the collective
// operator, and `stride` is the distance between the members of a group. They decompose into the three collectives that
// devices have kernels for (CollectiveReduce, CollectiveScatter, CollectiveGather) and arithmetic before and after
// them.
// Within a group of one they are identities except for the shape (SquareAdd squares).
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/comm/collective_rules.hpp"
#include "ops/expression.hpp"
#include "ops/operand_layouts.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

void requireOperator(const InferContext &c) {
  const std::string &op = c.attrString("op");
  bool known = false;
  for (const char *name : {"Add", "Mean", "Mul", "Min", "Max", "LogicalAnd", "LogicalOr", "SquareAdd", "Local"})
    known |= op == name;
  c.require(known,
            "unknown collective operator: got '{}', expected Add, Mean, Mul, Min, Max, LogicalAnd, LogicalOr, "
            "SquareAdd or Local",
            op);
}

OpDef collectiveRow(const char *type, Role role, TypeSet types = kNumeric | kBool) {
  return OpDef("ai.graphcore", type, {1})
      .role(role)
      .input("data", types)
      .output("output")
      .attr("op", std::string("Add"))
      .attr("group_size", int64_t{1})
      .attr("stride", int64_t{1});
}

bool isAlone(const Op &op) { return op.attrInt("group_size") == 1; }

// The value that each member contributes, for example to a sum of squares or a logical reduction.
TensorIndex contribution(DecomposeBuilder &b) {
  return b.op().attrString("op") == "SquareAdd" ? b.emit("Mul", {b.in(0), b.in(0)}) : b.in(0);
}

// A collective that devices have a kernel for, on one tensor.
TensorIndex emitCollective(DecomposeBuilder &b, const char *type, TensorIndex x, const std::string &op,
                           Attributes more = {}) {
  more.set("op", op);
  more.set("group_size", b.op().attrInt("group_size"));
  more.set("stride", b.op().attrInt("stride"));
  return b.emit(type, {x}, std::move(more));
}

// Mean and SquareAdd become sums with additional arithmetic.
TensorIndex emitReduction(DecomposeBuilder &b, const char *type) {
  const std::string &op = b.op().attrString("op");
  const bool sum = op == "Mean" || op == "SquareAdd";
  const TensorIndex joined = emitCollective(b, type, contribution(b), sum ? "Add" : op);
  if (op != "Mean") return joined;
  return b.emit("Div", {joined, b.scalar(b.inInfo(0).dataType(), static_cast<double>(b.op().attrInt("group_size")))});
}

void addReplicatedAllReduce(OpDefs &rows) {
  rows.push_back(collectiveRow("ReplicatedAllReduce", Role::ReplicatedAllReduce)
                     .infer([](InferContext &c) {
                       requireCollective(c);
                       c.out(0, c.in(0));
                     })
                     .inplace("ReplicatedAllReduceInplace", 10)
                     .decompose([](DecomposeBuilder &b) {
                       const bool alone = isAlone(b.op()) || b.op().attrString("op") == "Local";
                       b.result(0,
                                alone ? b.emit("Identity", {contribution(b)}) : emitReduction(b, "CollectiveReduce"));
                     })
                     .noGrad("reductions over replicas are not differentiable")
                     .doc("Reduction over the replicas of each group; every replica gets the result."));
}

void addScatterGather(OpDefs &rows) {
  rows.push_back(
      collectiveRow("ReplicatedReduceScatter", Role::ReplicatedReduceScatter)
          .attrOptional("meta_shape", AttributeType::Ints)
          .infer([](InferContext &c) {
            requireCollective(c);
            const int64_t group = c.attrInt("group_size");
            const Shape shape{(c.in(0).nelms() + group - 1) / group};
            c.out(0, c.hasAttr("meta_shape") ? TensorInfo(c.type(0), shape, c.attrInts("meta_shape"))
                                             : TensorInfo(c.type(0), shape));
          })
          .decompose([](DecomposeBuilder &b) {
            b.result(0, isAlone(b.op()) ? emitReshape(b, contribution(b), b.outInfo(0).shape())
                                        : emitReduction(b, "CollectiveScatter"));
          })
          .vjp([](VjpBuilder &b) {
            if (b.op().attrString("op") != "Local")
              throw error("{}: reductions over replicas are not differentiable. Take replica_sharded_slice",
                          b.op().debugName());
            b.grad(0, b.emit("ReplicatedAllGather", {b.gradOut(0)},
                             {{"op", std::string("Local")},
                              {"group_size", b.op().attrInt("group_size")},
                              {"stride", b.op().attrInt("stride")},
                              {"shape", b.inInfo(0).shape()}}));
          })
          .doc("Reduction of the flattened tensor; member i of the group gets chunk i of ceil(n / group_size)."));
  rows.push_back(collectiveRow("ReplicatedAllGather", Role::ReplicatedAllGather, kStoredTypes)
                     .cost(movesData())
                     .attrOptional("shape", AttributeType::Ints)
                     .infer([](InferContext &c) {
                       requireCollective(c);
                       const Shape shape =
                           c.hasAttr("shape") ? c.attrInts("shape") : Shape{c.in(0).nelms() * c.attrInt("group_size")};
                       c.require(elementCount(shape) <= c.in(0).nelms() * c.attrInt("group_size"),
                                 "the gathered tensor is larger than its parts: got shape {} from {} parts of {}",
                                 shape, c.attrInt("group_size"), c.in(0));
                       c.out(0, c.type(0), shape);
                     })
                     .decompose([](DecomposeBuilder &b) {
                       if (!isAlone(b.op()))
                         return b.result(0, emitCollective(b, "CollectiveGather", b.in(0), "Local",
                                                           {{"shape", b.outInfo(0).shape()}}));
                       const int64_t n = b.outInfo(0).nelms();
                       TensorIndex flat = emitReshape(b, b.in(0), {b.inInfo(0).nelms()});
                       if (n != b.inInfo(0).nelms()) {
                         const std::vector<int64_t> zero{0}, end{n};
                         flat = b.emit("Slice", {flat}, {{"starts", zero}, {"ends", end}, {"axes", zero}});
                       }
                       b.result(0, emitReshape(b, flat, b.outInfo(0).shape()));
                     })
                     .vjp([](VjpBuilder &b) {  // each member gets the gradient of its own part
                       const TensorIndex part = b.emit("ReplicatedReduceScatter", {b.gradOut(0)},
                                                       {{"op", std::string("Local")},
                                                        {"group_size", b.op().attrInt("group_size")},
                                                        {"stride", b.op().attrInt("stride")}});
                       b.grad(0, b.emit("Reshape", {part}, {{"shape", b.inInfo(0).shape()}}));
                     })
                     .doc("Joins the flattened parts of all members of the group, without padding, to a tensor of "
                          "`shape`."));
}

// The collectives that devices have kernels for. Their operands are independent, so several collectives of one kind can
// become one. They are combined, and divided into two steps, after layouts are chosen.
OpDef loweredRow(const char *type, Role role, TypeSet types = kNumeric | kBool) {
  return OpDef("popart", type, {1})
      .role(role)
      .cost(movesData())
      .input("data", types, "", Arity::Variadic)
      .output("results", Arity::Variadic)
      .attr("group_size", int64_t{1})
      .attr("stride", int64_t{1})
      .traits(Trait::Internal)
      .notOnnx()
      .noGrad("it is made after differentiation");
}

void requireLowered(InferContext &c) {
  if (c.hasAttr("op")) requireOperator(c);
  requireGroup(c);
  c.require(c.inputCount() >= 1 && c.outputCount() == c.inputCount(),
            "needs one output per input: got {} inputs and {} outputs", c.inputCount(), c.outputCount());
}

void requireOneType(InferContext &c) {
  for (int i = 1; i < c.inputCount(); ++i)
    c.require(c.in(i).dataType() == c.in(0).dataType(), "element types differ: got {} and {}", c.in(i), c.in(0));
}

void uniformIfOneInput(const Op &op, OperandLayouts &layouts) {
  if (op.inputCount() == 1) allUniform(op, layouts);
}

void inferLikeOperands(InferContext &c) {
  requireLowered(c);
  for (int i = 0; i < c.inputCount(); ++i) c.out(i, c.in(i));
}

// `shape`: the shapes of the results, one after the other; `ranks`: their ranks, if there are several.
void inferReplicatedGather(InferContext &c) {
  requireLowered(c);
  requireOneType(c);
  const std::vector<int64_t> &sizes = c.attrInts("shape");
  std::vector<int64_t> ranks{static_cast<int64_t>(sizes.size())};
  if (c.hasAttr("ranks")) ranks = c.attrInts("ranks");
  int64_t all = 0;
  for (const int64_t rank : ranks) {
    c.require(rank >= 0 && rank <= static_cast<int64_t>(sizes.size()), "a rank is out of range: got {}", rank);
    all += rank;
  }
  c.require(static_cast<int>(ranks.size()) == c.inputCount() && all == static_cast<int64_t>(sizes.size()),
            "ranks do not fit: got {} of {} sizes for {} operands", ranks, sizes.size(), c.inputCount());
  auto from = sizes.begin();
  for (int i = 0; i < c.inputCount(); ++i) {
    const auto to = from + ranks[static_cast<size_t>(i)];
    const Shape shape(from, to);
    const int64_t most = c.in(i).nelms() * c.attrInt("group_size"), n = elementCount(shape);
    c.require(n >= 0 && n <= most, "the gathered tensor must have 0 to {} elements: got {}", most, n);
    c.out(i, c.type(i), shape);
    from = to;
  }
}

void addLowered(OpDefs &rows) {
  rows.push_back(loweredRow("CollectiveReduce", Role::CollectiveReduce)
                     .attr("op", std::string("Add"))
                     .attrOptional("channel", AttributeType::Int)
                     .layouts(uniformIfOneInput)
                     .infer([](InferContext &c) {
                       requireOneType(c);
                       inferLikeOperands(c);
                     })
                     .doc("Add, Mul, Min, Max, LogicalAnd or LogicalOr over the group; every member gets the result. "
                          "With `channel`, the operands are those that the op CollectivePublish with the same number "
                          "has published."));
  rows.push_back(loweredRow("CollectiveScatter", Role::CollectiveScatter)
                     .attr("op", std::string("Add"))
                     .attrOptional("channel", AttributeType::Int)
                     .layouts([](const Op &, OperandLayouts &layouts) {
                       for (OperandLayout &whole : layouts.in) whole = OperandLayout::ChosenLast;
                     })
                     .infer([](InferContext &c) {
                       requireLowered(c);
                       requireOneType(c);
                       const int64_t group = c.attrInt("group_size");
                       for (int i = 0; i < c.inputCount(); ++i)
                         c.out(i, c.in(i).dataType(), {(c.in(i).nelms() + group - 1) / group});
                     })
                     .doc("As CollectiveReduce, or no reduction (Local); member i gets chunk i of the flattened "
                          "result."));
  rows.push_back(loweredRow("CollectiveGather", Role::CollectiveGather, kStoredTypes)
                     .attr("op", std::string("Local"))
                     .attrRequired("shape", AttributeType::Ints)
                     .attrOptional("ranks", AttributeType::Ints)
                     .layouts([](const Op &, OperandLayouts &layouts) {
                       for (OperandLayout &whole : layouts.out) whole = OperandLayout::ChosenLast;
                     })
                     .infer(inferReplicatedGather)
                     .doc("Concatenates the flattened tensors of the members; elements beyond `shape` are dropped."));
  // Moves no data: its results usually use the operands' memory.
  rows.push_back(
      loweredRow("CollectivePublish", Role::CollectivePublish)
          .cost([](const Op &, Cost &c) { c = {}; })
          .attrRequired("channel", AttributeType::Int)
          .layouts(uniformIfOneInput)
          .infer(inferLikeOperands)
          .doc("Publishes this member's operands to the group without waiting. The only reader of the results, in the "
               "same graph, is the collective with the same `channel`."));
}

// Copies between IPUs or tile sets: they state placement and change no values.
void addCopies(OpDefs &rows) {
  auto copyRow = [](const char *type) {
    return OpDef("ai.graphcore", type, {1})
        .input("x", kStoredTypes)
        .output("y")
        .traits(Trait::View | Trait::NeverFolded)
        .identityIf(always)
        .decompose([](DecomposeBuilder &b) { b.result(0, b.emit("Identity", {b.in(0)})); })
        .notOnnx();
  };
  rows.push_back(
      copyRow("IpuCopy")
          .attrRequired("destination", AttributeType::Int)
          .attrOptional("source", AttributeType::Int)
          .vjp([](VjpBuilder &b) {
            if (!b.op().hasAttr("source"))
              throw error("{}: the source IPU is unknown, so its gradient cannot be sent back. Give `source`",
                          b.op().debugName());
            b.grad(0, b.emit("IpuCopy", {b.gradOut(0)},
                             {{"destination", b.op().attrInt("source")}, {"source", b.op().attrInt("destination")}}));
          })
          .doc("Copies the value to another IPU."));
  rows.push_back(copyRow("IoTileCopy")
                     .vjp([](VjpBuilder &b) { b.grad(0, b.emit("IoTileCopy", {b.gradOut(0)})); })
                     .doc("Copies the value to the other tile set."));
}

TensorIndex reduceOverIpus(DecomposeBuilder &b) {
  const std::string &op = b.op().attrString("op");
  if (b.op().attrInt("identical_inputs") != 0 && op == "Add") return b.in(0);
  std::vector<TensorIndex> terms;
  for (int i = 0; i < b.op().inputCount(); ++i)
    terms.push_back(op == "SquareAdd" ? b.emit("Mul", {b.in(i), b.in(i)}) : b.in(i));
  if (op == "Min" || op == "Max") return b.emit(op, terms);
  const std::string pair = op == "Mul" ? "Mul" : op == "LogicalAnd" ? "And" : op == "LogicalOr" ? "Or" : "Add";
  TensorIndex result = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) result = b.emit(pair, {result, terms[i]});
  if (op != "Mean") return result;
  return b.emit("Div", {result, b.scalar(b.inInfo(0).dataType(), static_cast<double>(terms.size()))});
}

void decomposeAllReduce(DecomposeBuilder &b) {
  const bool local = b.op().attrString("op") == "Local";  // every IPU keeps its own value
  const TensorIndex value = local ? TensorIndex() : reduceOverIpus(b);
  for (int i = 0; i < b.op().outputCount(); ++i)
    if (b.hasOut(i)) b.result(i, b.emit("Identity", {local ? b.in(i) : value}));
}

// The gradient is the same reduction with the two hints swapped.
void allReduceVjp(VjpBuilder &b) {
  if (b.op().attrString("op") != "Add")
    throw error("{}: only sums over IPUs are differentiable: got '{}', expected Add", b.op().debugName(),
                b.op().attrString("op"));
  std::vector<TensorIndex> gradients;
  for (int i = 0; i < b.op().outputCount(); ++i) {
    if (!b.hasGradOut(i))
      throw error("{}: output {} has no gradient, but every IPU must take part", b.op().debugName(), i);
    gradients.push_back(b.gradOut(i));
  }
  const std::vector<TensorIndex> grads = b.emitMany("AllReduceGrad", gradients, b.op().inputCount(),
                                                    {{"op", b.op().attrString("op")},
                                                     {"ipus", b.op().attrInts("ipus")},
                                                     {"identical_inputs", b.op().attrInt("identical_grad_inputs")},
                                                     {"identical_grad_inputs", b.op().attrInt("identical_inputs")}});
  for (int i = 0; i < b.op().inputCount(); ++i)
    if (b.wants(i)) b.grad(i, grads[i]);
}

// Reduction over the IPUs of one replica: tensor i is on IPU ipus[i]; every output has the reduced value.
// identical_inputs: all inputs are equal, and the value is any of them; identical_grad_inputs: the same for gradients.
void addAllReduce(OpDefs &rows, const char *type) {
  rows.push_back(OpDef("ai.graphcore", type, {1})
                     .input("inputs", kNumeric | kBool, "", Arity::Variadic)
                     .output("outputs", Arity::Variadic)
                     .attr("op", std::string("Add"))
                     .attr("ipus", std::vector<int64_t>{})
                     .attr("identical_inputs", int64_t{0})
                     .attr("identical_grad_inputs", int64_t{0})
                     .infer([](InferContext &c) {
                       requireOperator(c);
                       c.require(c.inputCount() >= 1 && c.outputCount() <= c.inputCount(),
                                 "needs one input per output: got {} inputs and {} outputs", c.inputCount(),
                                 c.outputCount());
                       for (int i = 0; i < c.inputCount(); ++i)
                         c.require(c.in(i) == c.in(0), "inputs differ: got {} and {}", c.in(i), c.in(0));
                       for (int i = 0; i < c.outputCount(); ++i) c.out(i, c.in(0));
                     })
                     .decompose(decomposeAllReduce)
                     .vjp(allReduceVjp)
                     .notOnnx()
                     .doc("Reduction over tensors that are on different IPUs; sums are differentiable."));
}

}  // namespace

void requireGroup(const InferContext &c) {
  constexpr int64_t kMostReplicas = int64_t{1} << 14;  // times 2^48 elements stays below 2^63
  const int64_t group = c.attrInt("group_size");
  c.require(group >= 1 && group <= kMostReplicas,
            "the group's number of replicas is out of range: got {}, expected 1 to {}", group, kMostReplicas);
}

void requireCollective(const InferContext &c) {
  requireOperator(c);
  requireGroup(c);
}

OpDefs collectiveOps() {
  OpDefs rows;
  addCopies(rows);
  addAllReduce(rows, "AllReduce");
  addAllReduce(rows, "AllReduceGrad");
  addReplicatedAllReduce(rows);
  addScatterGather(rows);
  addLowered(rows);
  return rows;
}

}  // namespace popart::ops
