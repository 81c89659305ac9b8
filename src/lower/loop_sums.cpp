// See loop_sums.hpp.
#include "lower/loop_sums.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/values.hpp"
#include "lower/counted_loop.hpp"
#include "lower/hand_down.hpp"
#include "ops/control/loops.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

// Limit of iterations: with more rows, separate products are as fast.
constexpr int64_t kMostRows = 256;
// Columns of b for each one of a that are stacked for the product.
constexpr int64_t kMostColumns = 8;

bool readsOnce(const Graph &graph, TensorIndex t) {
  return graph.tensor(t).uses().size() == 1 && !graph.tensor(t).isGraphOutput();
}

// The producer of `t` if it is the op `role` and `t` has only one reader; else null.
Op *soleProducer(const Graph &graph, TensorIndex t, Role role) {
  Op *op = graph.tensor(t).getProducerUnsafe();
  return op && op->is(role) && readsOnce(graph, t) ? op : nullptr;
}

std::vector<Op *> loopsOf(const Ir &flat) {
  std::vector<Op *> loops;
  for (const Graph *graph : schedule::programGraphs(flat))
    for (Op *op : graph->ops())
      if (op->is(Role::Loop)) loops.push_back(op);
  return loops;
}

// ---- rows ---------------------------------------------------------------------------------------

// The axis along which the op adds one slice of its sum; -1: it adds several.
int64_t sliceAxis(const Op &gradient) {
  if (gradient.inInfo(1).nelms() != 1 || gradient.attrInt("group_size") != 1) return -1;
  return normalizeAxis(gradient.attrInt("axis"), gradient.outRank(0), "axis");
}

void addRow(Op &add, Op &gradient, int64_t axis, TensorIndex sum) {
  Graph &body = add.getGraph();
  const TensorIndex slice = gradient.inputs()[0], position = gradient.inputs()[1];
  const TensorIndex added = OpEmitter(body, add).emit(
      "DynamicAdd", {sum, position, slice}, {{"axes", std::vector<int64_t>{axis}}, {"sizes", std::vector<int64_t>{1}}});
  body.replaceTensor(add.outputs()[0], added);
  body.eraseOpAndOutputs(add.index());
  body.eraseOpAndOutputs(gradient.index());
}

void addRows(CountedLoop &loop) {
  Graph &body = loop.body();
  for (Op *op : body.ops()) {
    if (!op->is(Role::Add) || op->inShape(0) != op->inShape(1)) continue;
    for (const size_t i : {0, 1}) {
      Op *gradient = soleProducer(body, op->inputs()[i], Role::GatherGrad);
      const int64_t axis = gradient ? sliceAxis(*gradient) : -1;
      const auto line = axis < 0 ? std::nullopt : loop.line(gradient->inputs()[1]);
      if (!line || !loop.staysInside(*line, 1, op->outShape(0)[static_cast<size_t>(axis)])) continue;
      addRow(*op, *gradient, axis, op->inputs()[1 - i]);
      break;
    }
  }
}

// ---- products -----------------------------------------------------------------------------------

// A value that each iteration has is, outside the loop, row `line` of `whole`.
struct Stack {
  TensorIndex whole;
  Line line;
};

// sum' = sum + Transpose(a) b
struct CarriedProduct {
  TensorIndex sum;  // the body's input
  Op *add, *product, *transpose;
  TensorIndex a() const { return transpose->inputs()[0]; }
  TensorIndex b() const { return product->inputs()[1]; }
};

// A sum that becomes a product after the loop.
struct Move {
  Passed carried;
  CarriedProduct product;
  Stack a;
  std::optional<Stack> b;
  size_t rows = 0;  // without b: index of the new stack
};

// Rows of b in the order of the stack of a; the loop is changed to write them.
struct NewStack {
  CarriedProduct of;
  Line line;
  TensorIndex whole;
};

class LoopProducts {
 public:
  explicit LoopProducts(Op &loop) : loop_(loop), graph_(loop.getGraph()), body_(*loop.getCalledGraphs().front()) {}

  void moveAll() {
    CountedLoop counted(loop_);
    if (!counted.isCounted()) return;
    passed_ = passedBy(loop_);
    noteOutputs();
    std::vector<Move> moves;
    std::vector<NewStack> stacks;
    std::map<std::pair<TensorIndex, Shape>, size_t> places;  // of b without views, and its shape → index in stacks
    for (const Passed &carried : passed_) {
      const auto found = productOf(carried);
      if (!found) continue;
      const auto a = stackOf(counted, found->a());
      if (!a) continue;
      const auto b = stackOf(counted, found->b());
      if (!b && !mayStack(*found)) continue;
      moves.push_back({carried, *found, *a, b});
      if (b) continue;
      const auto [place, isNew] =
          places.try_emplace({throughViews(found->b()), body_.info(found->b()).shape()}, stacks.size());
      if (isNew || stacks[place->second].line != a->line)
        place->second = stacks.size(), stacks.push_back({*found, a->line, {}});
      moves.back().rows = place->second;
    }
    if (moves.empty()) return;
    write(stacks);
    for (const Move &m : moves) multiply(m, m.b ? m.b->whole : stacks[m.rows].whole);
    drop(moves);
  }

 private:
  void noteOutputs() {
    const auto carried = static_cast<size_t>(ops::carriedCount(loop_));
    for (size_t o = 0; o < body_.outputs().size(); ++o) {
      const TensorIndex t = body_.outputs()[o];
      ++timesOutput_[t];
      if (o > carried && loop_.hasOutput(static_cast<int>(o) - 1))
        written_.emplace(throughViews(t), loop_.outputs()[o - 1]);
    }
    for (const Passed &c : passed_) {
      const Op *add = body_.tensor(c.next).getProducerUnsafe();
      if (add && add->is(Role::DynamicAdd) && add->inputs()[0] == c.inner && c.result.valid() &&
          readsOnce(body_, c.inner) && isZeros(c.outer) && add->attrInts("axes") == std::vector<int64_t>{0} &&
          add->attrInts("sizes") == std::vector<int64_t>{1})
        added_.emplace(throughViews(add->inputs()[2]), &c);
    }
  }

  std::optional<CarriedProduct> productOf(const Passed &carried) const {
    Op *add = soleProducerOfOutput(carried.next);
    if (!add || !readsOnce(body_, carried.inner) || add->inShape(0) != add->inShape(1)) return std::nullopt;
    const auto &terms = add->inputs();
    if (terms[0] != carried.inner && terms[1] != carried.inner) return std::nullopt;
    Op *product = soleProducer(body_, terms[terms[0] == carried.inner ? 1 : 0], Role::MatMul);
    if (!product || product->inRank(0) != 2 || product->inRank(1) != 2) return std::nullopt;
    Op *transpose = soleProducer(body_, product->inputs()[0], Role::Transpose);
    if (!transpose || transpose->isIdentity() || transpose->inShape(0)[0] > kMostRows) return std::nullopt;
    return CarriedProduct{carried.inner, add, product, transpose};
  }

  // The Add whose only reader is the next iteration.
  Op *soleProducerOfOutput(TensorIndex t) const {
    const Tensor &tensor = body_.tensor(t);
    Op *op = tensor.getProducerUnsafe();
    return op && op->is(Role::Add) && tensor.uses().empty() && timesOutput_.at(t) == 1 ? op : nullptr;
  }

  // Whether each row of a stack is used once, in ascending or descending order.
  bool takesAll(const CountedLoop &counted, const Line &line, TensorIndex whole) const {
    const int64_t rows = counted.trips();
    return graph_.info(whole).rank() > 0 && graph_.info(whole).shape()[0] == rows &&
           (line == Line{0, 1} || line == Line{rows - 1, -1});
  }

  TensorIndex throughViews(TensorIndex t) const {
    for (const Op *op = body_.tensor(t).getProducerUnsafe(); op && op->has(Trait::View) && op->inputCount() > 0;
         op = body_.tensor(t).getProducerUnsafe())
      t = op->inputs()[0];
    return t;
  }

  std::optional<Stack> stackOf(CountedLoop &counted, TensorIndex value) const {
    const TensorIndex t = throughViews(value);
    if (auto read = readFromStack(counted, t)) return read;
    if (auto added = addedToStack(counted, t)) return added;
    return writtenToStack(t);
  }

  std::optional<Stack> readFromStack(CountedLoop &counted, TensorIndex t) const {
    const Op *read = body_.tensor(t).getProducerUnsafe();
    if (!read || !read->is(Role::Gather) || read->inInfo(1).nelms() != 1 || read->attrInt("group_size") != 1 ||
        read->attrInt("axis") % read->inRank(0) != 0)
      return std::nullopt;
    const Passed *stack = counted.carried(read->inputs()[0]);
    const auto line = counted.line(read->inputs()[1]);
    if (!stack || !counted.isInvariant(stack->inner) || !line || !takesAll(counted, *line, stack->outer))
      return std::nullopt;
    return Stack{stack->outer, *line};
  }

  // A stack of zeros, to which every iteration adds the value at one position.
  std::optional<Stack> addedToStack(CountedLoop &counted, TensorIndex t) const {
    for (auto [it, end] = added_.equal_range(t); it != end; ++it) {
      const Passed &carried = *it->second;
      const auto line = counted.line(body_.tensor(carried.next).getProducer()->inputs()[1]);
      if (line && takesAll(counted, *line, carried.outer)) return Stack{carried.result, *line};
    }
    return std::nullopt;
  }

  std::optional<Stack> writtenToStack(TensorIndex t) const {
    const auto found = written_.find(t);
    return found == written_.end() ? std::nullopt : std::optional(Stack{found->second, {0, 1}});
  }

  bool isZeros(TensorIndex t) const {
    const Tensor &tensor = graph_.tensor(t);
    if (tensor.tensorType() != TensorType::Const) return false;
    const auto *bytes = static_cast<const char *>(tensor.tensorData().data());
    return std::all_of(bytes, bytes + tensor.info.nbytes(), [](char c) { return c == 0; });
  }

  bool mayStack(const CarriedProduct &p) const {
    return body_.info(p.b()).shape()[1] <= kMostColumns * body_.info(p.a()).shape()[1];
  }

  // Stacks that start at the last row are carried and written row by row; the loop stacks the others.
  void write(std::vector<NewStack> &stacks) {
    const TensorId id = graph_.tensor(loop_.outputs()[0]).id + "/rows";
    std::vector<TensorIndex> fresh;
    for (const NewStack &s : stacks) {
      if (s.line.step > 0) continue;
      const TensorInfo &row = body_.info(s.of.b());
      Shape shape = row.shape();
      shape.insert(shape.begin(), ops::iterationCount(loop_));
      fresh.push_back(
          OpEmitter(graph_, loop_)
              .emit("Init", {},
                    {{"shape", shape}, {"dtype", int64_t{toOnnxDataType(row.dataType())}}, {"init_type", int64_t{0}}}));
    }
    int carried = ops::carriedCount(loop_);
    const std::vector<TensorIndex> inner = fresh.empty() ? fresh : handDown(loop_, body_, fresh);
    std::vector<TensorIndex> outputs = body_.outputs();
    size_t next = 0;
    for (NewStack &s : stacks) {
      if (s.line.step > 0) continue;
      const Op &read = *body_.tensor(throughViews(s.of.a())).getProducer();
      outputs[static_cast<size_t>(carried) + 1] =
          OpEmitter(body_, *s.of.product)
              .emit("DynamicUpdate", {inner[next++], read.inputs()[1], s.of.b()},
                    {{"axes", std::vector<int64_t>{0}}, {"sizes", std::vector<int64_t>{1}}});
      s.whole = graph_.createOutput(loop_.index(), carried++, graph_.freeId(id));
    }
    for (NewStack &s : stacks) {
      if (s.line.step < 0) continue;
      outputs.push_back(s.of.b());
      s.whole = graph_.createOutput(loop_.index(), static_cast<int>(outputs.size()) - 2, graph_.freeId(id));
    }
    if (stacks.empty()) return;
    body_.setOutputs(std::move(outputs));
    loop_.setup();
  }

  void multiply(const Move &m, TensorIndex rowsOfB) {
    const CarriedProduct &p = m.product;
    const int64_t rows = ops::iterationCount(loop_) * body_.info(p.a()).shape()[0];
    OpEmitter behind(graph_, loop_);
    // Both stacks have a row for each iteration; one of them may be in reverse order.
    const bool areOpposite = m.b && m.b->line != m.a.line;
    const TensorIndex rowsOfA =
        areOpposite ? behind.emit("Reverse", {m.a.whole}, {{"dimensions", std::vector<int64_t>{0}}}) : m.a.whole;
    auto flat = [&](TensorIndex whole, TensorIndex row) {
      return behind.emit("Reshape", {whole},
                         {{"shape", Shape{rows, body_.info(row).shape()[1]}}, {"allowzero", int64_t{1}}});
    };
    const TensorIndex turned = behind.emit("Transpose", {flat(rowsOfA, p.a())}, {{"perm", std::vector<int64_t>{1, 0}}});
    TensorIndex sum = behind.emit("MatMul", {turned, flat(rowsOfB, p.b())});
    if (!isZeros(m.carried.outer)) sum = behind.emit("Add", {m.carried.outer, sum});
    if (m.carried.result.valid()) graph_.replaceTensor(m.carried.result, sum);
  }

  void drop(const std::vector<Move> &moves) {
    std::map<TensorIndex, TensorIndex> sums;  // output of the body → input of the body
    std::vector<TensorIndex> inner, outputs = body_.outputs();
    for (const Move &m : moves) sums[m.carried.next] = m.product.sum, inner.push_back(m.product.sum);
    for (TensorIndex &t : outputs)
      if (const auto sum = sums.find(t); sum != sums.end()) t = sum->second;
    body_.setOutputs(std::move(outputs));
    for (const Move &m : moves)
      for (const Op *op : {m.product.add, m.product.product, m.product.transpose}) body_.eraseOpAndOutputs(op->index());
    dropCarried(loop_, body_, inner);
  }

  Op &loop_;
  Graph &graph_, &body_;
  std::vector<Passed> passed_;
  std::map<TensorIndex, int> timesOutput_;            // how often a tensor is an output of the body
  std::map<TensorIndex, TensorIndex> written_;        // value without views → its stack, made by the loop
  std::multimap<TensorIndex, const Passed *> added_;  // value without views → the stack that it is added to
};

}  // namespace

void addRowsInLoops(Ir &flat) {
  for (const Op *loop : loopsOf(flat))
    if (CountedLoop counted(*loop); counted.isCounted()) addRows(counted);
}

void multiplyAfterLoops(Ir &flat) {
  for (Op *loop : loopsOf(flat)) LoopProducts(*loop).moveAll();
}

}  // namespace popart::lower
