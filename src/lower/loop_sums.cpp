// See loop_sums.hpp.
#include "lower/loop_sums.hpp"

#include <algorithm>

#include "ir/values.hpp"
#include "lower/counted_loop.hpp"
#include "lower/hand_down.hpp"
#include "ops/control/loops.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

// Of iterations: products over more rows are as fast one by one.
constexpr int64_t kMostRows = 256;
// Columns of b for each one of a that are stacked for the product.
constexpr int64_t kMostColumns = 8;

bool readsOnce(const Graph &graph, TensorIndex t) {
  return graph.tensor(t).uses().size() == 1 && !graph.tensor(t).isGraphOutput();
}

// The op `role` that alone makes `t`, which nothing but its reader reads; null: another one.
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

// Along which axis the op adds one slice of the sum it makes; -1: it adds several.
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

// What each iteration holds in one value, outside of the loop: row `line` of `whole`.
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

class LoopProducts {
 public:
  explicit LoopProducts(Op &loop) : loop_(&loop), graph_(loop.getGraph()), body_(*loop.getCalledGraphs().front()) {}

  // The product behind the loop for one sum; false: there is none left.
  bool moveOne() {
    CountedLoop counted(*loop_);
    if (!counted.isCounted()) return false;
    for (const Passed &carried : passedBy(*loop_)) {
      const auto found = productOf(carried);
      if (!found) continue;
      const auto a = stackOf(counted, found->a());
      if (!a) continue;
      const auto b = stackOf(counted, found->b());
      if (b ? b->line == a->line : mayStack(*found)) return move(carried, *found, *a, b), true;
    }
    return false;
  }

 private:
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

  // An Add whose only reader is the next iteration.
  Op *soleProducerOfOutput(TensorIndex t) const {
    const Tensor &tensor = body_.tensor(t);
    Op *op = tensor.getProducerUnsafe();
    const auto carries = std::count(body_.outputs().begin(), body_.outputs().end(), t);
    return op && op->is(Role::Add) && tensor.uses().empty() && carries == 1 ? op : nullptr;
  }

  // Whether each row of a stack is taken once, forwards or backwards.
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

  // zeros, to which every iteration adds the value in one place.
  std::optional<Stack> addedToStack(CountedLoop &counted, TensorIndex t) const {
    for (const Passed &carried : passedBy(*loop_)) {
      const Op *add = body_.tensor(carried.next).getProducerUnsafe();
      if (!add || !add->is(Role::DynamicAdd) || add->inputs()[0] != carried.inner || !carried.result.valid() ||
          !readsOnce(body_, carried.inner) || throughViews(add->inputs()[2]) != t || !isZeros(carried.outer) ||
          add->attrInts("axes") != std::vector<int64_t>{0} || add->attrInts("sizes") != std::vector<int64_t>{1})
        continue;
      const auto line = counted.line(add->inputs()[1]);
      if (line && takesAll(counted, *line, carried.outer)) return Stack{carried.result, *line};
    }
    return std::nullopt;
  }

  std::optional<Stack> writtenToStack(TensorIndex t) const {
    const auto carried = static_cast<size_t>(ops::carriedCount(*loop_));
    for (size_t o = carried; o + 1 < body_.outputs().size(); ++o)
      if (throughViews(body_.outputs()[o + 1]) == t && loop_->hasOutput(static_cast<int>(o)))
        return Stack{loop_->outputs()[o], {0, 1}};
    return std::nullopt;
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

  // Rows of b in the order of the stack of a.
  TensorIndex stack(const CarriedProduct &p, const Line &line, int64_t trips) {
    const TensorInfo &row = body_.info(p.b());
    const TensorId id = graph_.freeId(graph_.tensor(loop_->outputs()[0]).id + "/rows");
    if (line.step > 0) {
      body_.markOutput(p.b());
      const TensorIndex whole = graph_.createOutput(loop_->index(), static_cast<int>(body_.outputs().size()) - 2, id);
      loop_->setup();
      return whole;
    }
    Shape shape = row.shape();
    shape.insert(shape.begin(), trips);
    const TensorIndex fresh =
        OpEmitter(graph_, *loop_)
            .emit("Init", {},
                  {{"shape", shape}, {"dtype", int64_t{toOnnxDataType(row.dataType())}}, {"init_type", int64_t{0}}});
    const TensorIndex inner = handDown(*loop_, body_, fresh);
    const Op &read = *body_.tensor(throughViews(p.a())).getProducer();
    const TensorIndex written = OpEmitter(body_, *p.product)
                                    .emit("DynamicUpdate", {inner, read.inputs()[1], p.b()},
                                          {{"axes", std::vector<int64_t>{0}}, {"sizes", std::vector<int64_t>{1}}});
    std::vector<TensorIndex> outputs = body_.outputs();
    const int carried = ops::carriedCount(*loop_);
    outputs[static_cast<size_t>(carried)] = written;
    body_.setOutputs(std::move(outputs));
    const TensorIndex whole = graph_.createOutput(loop_->index(), carried - 1, id);
    loop_->setup();
    return whole;
  }

  void move(const Passed &carried, const CarriedProduct &p, const Stack &a, std::optional<Stack> b) {
    const int64_t trips = ops::iterationCount(*loop_), rows = trips * body_.info(p.a()).shape()[0];
    const Shape left = {rows, body_.info(p.a()).shape()[1]}, right = {rows, body_.info(p.b()).shape()[1]};
    if (!b) b = Stack{stack(p, a.line, trips), a.line};
    OpEmitter behind(graph_, *loop_);
    auto flat = [&](TensorIndex whole, const Shape &shape) {
      return behind.emit("Reshape", {whole}, {{"shape", shape}, {"allowzero", int64_t{1}}});
    };
    const TensorIndex turned = behind.emit("Transpose", {flat(a.whole, left)}, {{"perm", std::vector<int64_t>{1, 0}}});
    TensorIndex sum = behind.emit("MatMul", {turned, flat(b->whole, right)});
    if (!isZeros(carried.outer)) sum = behind.emit("Add", {carried.outer, sum});
    if (carried.result.valid()) graph_.replaceTensor(carried.result, sum);
    std::vector<TensorIndex> outputs = body_.outputs();
    *std::find(outputs.begin(), outputs.end(), carried.next) = p.sum;
    body_.setOutputs(std::move(outputs));
    body_.eraseOpAndOutputs(p.add->index());
    body_.eraseOpAndOutputs(p.product->index());
    body_.eraseOpAndOutputs(p.transpose->index());
    loop_ = &dropCarried(*loop_, body_, p.sum);
  }

  Op *loop_;  // made anew where a sum goes
  Graph &graph_, &body_;
};

}  // namespace

void addRowsInLoops(Ir &flat) {
  for (const Op *loop : loopsOf(flat))
    if (CountedLoop counted(*loop); counted.isCounted()) addRows(counted);
}

void multiplyAfterLoops(Ir &flat) {
  for (Op *loop : loopsOf(flat))
    for (LoopProducts products(*loop); products.moveOne();) {
    }
}

}  // namespace popart::lower
