// Legal IR. Each rule below is checked by one function of the same number's group and has a negative unit test.
//   identity      an op is in its slot and belongs to its graph; tensor ids are unique, not empty and indexed
//   connectivity  an op's input tensor lists that use exactly once, an op's output tensor names it as producer; and the
//                 other way round; nothing refers to an erased op or tensor
//   types         every connected tensor has an element type
//   rows          the op's row is the one in the catalog; attributes are known, complete and of the declared types;
//                 required inputs and outputs are connected, lists have no gaps (those of calls and user ops may), and
//                 there are none beyond those of the row
//   leaves        a tensor that is read has a producer, is a graph input, or is a const, variable or stream; consts and
//                 variables have no producer, graph inputs neither; graph inputs are listed once
//   data          consts have values of their own type and shape, or the bytes of their layout; outputs of ops have no
//                 data
//   place         variables and streams belong to the main graph; remote tensors are variables that no op reads
//   order         data edges and constraints have no cycle
//   calls         the graphs that ops name exist; Call, Loop and If pass as many tensors as these have inputs and
// outputs,
//                 with equal infos (`modified` within range); no graph calls itself, directly or through others
#include <algorithm>
#include <set>
#include <tuple>

#include "ir/program_order.hpp"

namespace popart {
namespace {

// The producer's name, made only when a message needs it.
struct ProducerOf {
  const Tensor &tensor;
  std::string str() const { return tensor.getProducer()->str(); }
};

// Whether a const holds the bytes of its layout (lowered programs).
bool isStored(const Tensor &t) {
  const TensorInfo &info = t.tensorData().info();
  return !t.layout.empty() && info.dataType() == DataType::UINT8 && info.rank() == 1;
}

class Verifier {
 public:
  explicit Verifier(const Graph &graph) : graph_(graph) {}

  void run() {
    for (const Op *op : graph_.ops()) verifyIdentity(*op);
    for (const Tensor *t : graph_.tensors()) verifyIdentity(*t);
    for (const Tensor *t : graph_.tensors()) verifyEdges(*t);
    verifyUses();
    for (const Op *op : graph_.ops()) verifyEdges(*op);
    verifyGraphEdges();
    for (const Tensor *t : graph_.tensors()) verifyTensor(*t);
    for (const Op *op : graph_.ops()) verifyRow(*op);
    if (dataOrder(graph_).size() != graph_.opCount()) fail("the operators have a cycle of data edges and constraints");
    for (const Op *op : graph_.ops()) verifyCalls(*op);
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(std::string_view format, const Args &...args) const {
    throw internal_error("verify: {}: {}", graph_.getGraphString(), formatText(format, {toText(args)...}));
  }
  template <class... Args>
  void require(bool ok, std::string_view format, const Args &...args) const {
    if (!ok) [[unlikely]]
      fail(format, args...);
  }

  // ---- identity
  void verifyIdentity(const Op &op) const {
    require(graph_.alive(op.index()) && &graph_.op(op.index()) == &op, "{} is not in the slot it names", op);
    require(op.settings.graph == &graph_, "{} names another graph as its own", op);
  }
  void verifyIdentity(const Tensor &t) const {
    require(!t.id.empty(), "tensor in slot {} has no id", t.index().value);
    require(&t.getGraph() == &graph_, "tensor '{}' names another graph as its own", t.id);
    require(graph_.find(t.id) == t.index(), "tensor '{}' is not the one found by its id", t.id);
  }

  // ---- connectivity
  void verifyEdges(const Op &op) const {
    for (int i = 0; i < op.inputCount(); ++i) {
      const TensorIndex t = op.inputs()[i];
      if (!t.valid()) continue;
      require(graph_.alive(t), "input {} of {} is an erased tensor", i, op);
      require(std::binary_search(uses_.begin(), uses_.end(), Edge(op.index().value, i, t.value)),
              "input {} of {} is not among the uses of '{}'", i, op, graph_.tensor(t).id);
    }
    for (int i = 0; i < op.outputCount(); ++i) {
      const TensorIndex t = op.outputs()[i];
      if (!t.valid()) continue;
      require(graph_.alive(t), "output {} of {} is an erased tensor", i, op);
      require(graph_.tensor(t).producerIndex() == op.index() && graph_.tensor(t).producerOutput() == i,
              "output {} of {}: tensor '{}' names another producer", i, op, graph_.tensor(t).id);
    }
  }
  void verifyEdges(const Tensor &t) {
    for (const Use &use : t.uses()) {
      require(graph_.alive(use.op), "tensor '{}' is used by an erased operator", t.id);
      const Op &op = graph_.op(use.op);
      require(op.hasInput(use.input) && op.inputs()[use.input] == t.index(),
              "tensor '{}' is not input {} of {} as its uses say", t.id, use.input, op);
      uses_.emplace_back(use.op.value, use.input, t.index().value);
    }
    if (!t.hasProducer()) return;
    require(graph_.alive(t.producerIndex()), "tensor '{}' is produced by an erased operator", t.id);
    const Op &op = graph_.op(t.producerIndex());
    require(op.hasOutput(t.producerOutput()) && op.outputs()[t.producerOutput()] == t.index(),
            "tensor '{}' is not output {} of {} as it says", t.id, t.producerOutput(), op);
  }
  void verifyUses() {
    std::sort(uses_.begin(), uses_.end());
    const auto twice = std::adjacent_find(uses_.begin(), uses_.end());
    if (twice == uses_.end()) return;
    const auto &[op, input, t] = *twice;
    fail("tensor '{}' lists input {} of {} twice", graph_.tensor(TensorIndex{t}).id, input, graph_.op(OpIndex{op}));
  }
  void verifyGraphEdges() {
    for (TensorIndex t : graph_.inputs()) {
      require(graph_.alive(t), "a graph input is an erased tensor");
      require(!graph_.tensor(t).hasProducer(), "graph input '{}' is produced by {}", graph_.tensor(t).id,
              ProducerOf{graph_.tensor(t)});
      require(graphInputs_.insert(t).second, "graph input '{}' is listed twice", graph_.tensor(t).id);
    }
    for (TensorIndex t : graph_.outputs()) require(graph_.alive(t), "a graph output is an erased tensor");
    for (const auto &[before, after] : graph_.constraints())
      require(graph_.alive(before) && graph_.alive(after), "an order constraint names an erased operator");
  }

  // ---- types, leaves, data, place
  void verifyTensor(const Tensor &t) const {
    const TensorType type = t.tensorType();
    const bool connected = t.hasProducer() || !t.uses().empty() || graphInputs_.count(t.index());
    require(!connected || t.info.isSet(), "tensor '{}' has no type and shape", t.id);
    if (t.hasProducer()) {
      require(type != TensorType::Const && type != TensorType::Variable,
              "tensor '{}' is a const or variable but is produced by {}", t.id, ProducerOf{t});
      require(!t.hasTensorData(), "tensor '{}' has values but is produced by {}", t.id, ProducerOf{t});
    } else if (type == TensorType::ActGrad || type == TensorType::Unknown) {
      require((t.uses().empty() && !t.isGraphOutput()) || graphInputs_.count(t.index()),
              "tensor '{}' is read but nothing produces it", t.id);
    }
    if (type == TensorType::Const) {
      require(t.hasTensorData(), "const tensor '{}' has no values", t.id);
      require(t.tensorData().info() == t.info || isStored(t),
              "const tensor '{}' has values of another type or shape: got {}, expected {}", t.id, t.tensorData().info(),
              t.info);
    }
    if (type == TensorType::Variable || type == TensorType::Stream)
      require(graph_.isMain(), "variable or stream '{}' is outside the main graph", t.id);
    require(!t.isRemote || (type == TensorType::Variable && t.uses().empty()),
            "tensor '{}' is remote: it must be a variable that no op reads directly", t.id);
  }

  // ---- rows
  void verifyRow(const Op &op) const {
    const OpDef &def = op.def();
    require(findOpDef(def.type()) == &def, "{}: its row is not in the catalog", op);
    require((op.isUserOp() ? op.opid.str() : op.opType()) == def.type(), "{}: its identifier differs from its row '{}'",
            op, def.type());
    if (!op.isUserOp()) verifyAttributes(op);
    const auto hasInput = [&](int i) { return op.hasInput(i); };
    verifyOperands(op, def.inputs(), op.inputCount(), "input", hasInput);
    verifyOperands(op, def.outputs(), op.outputCount(), "output", [&](int i) { return op.hasOutput(i); });
    // Operands of calls and user ops are inputs of the callee, which may be optional.
    if (!op.has(Trait::Call) && !op.isUserOp()) verifyList(op, def.inputs(), op.inputCount(), hasInput);
  }
  void verifyAttributes(const Op &op) const {
    Attributes complete;
    try {
      complete = op.def().completeAttributes(op.attributes(), op.name());
    } catch (const error &e) {
      fail("{}: {}", op, e.what());
    }
    for (const auto &entry : complete.entries())
      require(op.hasAttr(entry.first), "{}: attribute '{}' is missing although it has a default", op, entry.first);
  }
  template <class Rows, class Has>
  void verifyOperands(const Op &op, const Rows &rows, int count, const char *what, Has has) const {
    const bool variadic = !rows.empty() && rows.back().arity == Arity::Variadic;
    for (int i = static_cast<int>(rows.size()); !variadic && i < count; ++i)
      require(!has(i), "{}: {} {} does not exist in its row", op, what, i);
    for (size_t i = 0; i < rows.size(); ++i)
      require(rows[i].arity != Arity::Required || has(static_cast<int>(i)), "{}: {} {} ('{}') is not connected", op,
              what, i, rows[i].name);
  }
  template <class Rows, class Has>
  void verifyList(const Op &op, const Rows &rows, int count, Has has) const {
    if (rows.empty() || rows.back().arity != Arity::Variadic) return;
    for (int i = static_cast<int>(rows.size()) - 1; i < count; ++i)
      require(has(i), "{}: input {} of the list '{}' is not connected", op, i, rows.back().name);
  }

  // ---- calls
  void requireInfo(const Op &op, const TensorInfo &given, const TensorInfo &expected, const char *what,
                   size_t i) const {
    require(given.dataType() == expected.dataType() && given.shape() == expected.shape(),
            "{}: {} {} differs from the subgraph's: got {}, expected {}", op, what, i, given, expected);
  }
  void verifyCalls(const Op &op) const {
    for (const auto &[name, value] : op.attributes().entries())
      if (const auto *ref = std::get_if<GraphRef>(&value))
        require(graph_.getIr().hasGraph(ref->id), "{}: attribute '{}' names graph '{}', which does not exist", op, name,
                ref->id);
    if (op.hasAttr("modified") && op.has(Trait::Call))
      for (int64_t m : op.attrInts("modified"))
        require(m >= 0 && m < op.inputCount() && op.hasInput(static_cast<int>(m)),
                "{}: 'modified' names input {}, which does not exist", op, m);
    if (op.is(Role::Call)) {
      const Graph &callee = called(op, "callee");
      require(static_cast<size_t>(op.inputCount()) == callee.inputs().size(),
              "{}: wrong number of inputs for {}: got {}, expected {}", op, callee.getGraphString(), op.inputCount(),
              callee.inputs().size());
      takes(op, 0, callee, 0, callee.inputs().size());
      gives(op, callee);
    } else if (op.is(Role::Loop)) {
      verifyLoop(op, called(op, "body"));
    } else if (op.is(Role::If)) {
      const Graph &yes = called(op, "then_branch"), &no = called(op, "else_branch");
      const size_t inputs = yes.inputs().size();
      require(static_cast<size_t>(op.inputCount()) == 1 + inputs + no.inputs().size(),
              "{}: wrong number of inputs: got {}, expected the condition and {} and {} for the branches", op,
              op.inputCount(), inputs, no.inputs().size());
      takes(op, 1, yes, 0, inputs);
      takes(op, 1 + static_cast<int>(inputs), no, 0, no.inputs().size());
      gives(op, yes);
      gives(op, no);
    }
  }
  const Graph &called(const Op &op, const char *attribute) const {
    return graph_.getIr().getGraph(op.attributes().getAttribute<GraphRef>(attribute).id);
  }
  void verifyLoop(const Op &op, const Graph &body) const {
    const size_t given = static_cast<size_t>(std::max(op.inputCount(), 2)) - 2;
    require(body.inputs().size() == given + 2, "{}: the body takes {} inputs, expected iteration, condition and {}", op,
            body.inputs().size(), given);
    require(!body.outputs().empty(), "{}: the body gives no condition", op);
    takes(op, 2, body, 2, given);
    const size_t results = body.outputs().size() - 1;
    require(static_cast<size_t>(op.outputCount()) <= results, "{}: wrong number of outputs: got {}, the body gives {}",
            op, op.outputCount(), results);
    size_t carried = std::min(results, given);
    if (op.hasAttr("carried"))
      carried = std::min(carried, static_cast<size_t>(std::max<int64_t>(op.attrInt("carried"), 0)));
    for (size_t i = 0; i < carried; ++i)
      requireInfo(op, body.info(body.outputs()[i + 1]), body.info(body.inputs()[i + 2]), "carried output", i);
  }
  // Inputs first… of the op are the callee's inputs calleeFirst….
  void takes(const Op &op, int first, const Graph &callee, size_t calleeFirst, size_t count) const {
    for (size_t i = 0; i < count; ++i) {
      const int input = first + static_cast<int>(i);
      require(op.hasInput(input), "{}: input {} for {} is not connected", op, input, callee.getGraphString());
      requireInfo(op, op.inInfo(input), callee.info(callee.inputs()[calleeFirst + i]), "input",
                  static_cast<size_t>(input));
    }
  }
  void gives(const Op &op, const Graph &callee) const {
    const size_t count = callee.outputs().size();
    require(static_cast<size_t>(op.outputCount()) <= count, "{}: wrong number of outputs: got {}, {} gives {}", op,
            op.outputCount(), callee.getGraphString(), count);
    for (int i = 0; i < op.outputCount(); ++i)
      if (op.hasOutput(i))
        requireInfo(op, op.outInfo(i), callee.info(callee.outputs()[static_cast<size_t>(i)]), "output",
                    static_cast<size_t>(i));
  }

  using Edge = std::tuple<uint32_t, InIndex, uint32_t>;  // op, input, tensor

  const Graph &graph_;
  std::vector<Edge> uses_;  // sorted once all tensors were looked at
  std::set<TensorIndex> graphInputs_;
};

}  // namespace

void verify(const Graph &graph) { Verifier(graph).run(); }

void verify(const Ir &ir) {
  for (const Graph *g : ir.getAllGraphs()) verify(*g);
  if (calleesFirst(ir).size() != ir.getAllGraphs().size())
    throw internal_error("verify: a graph calls itself, directly or through others");
}

}  // namespace popart
