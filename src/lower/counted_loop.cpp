// See counted_loop.hpp.
#include "lower/counted_loop.hpp"

#include <algorithm>
#include <limits>

#include "ops/control/loops.hpp"

namespace popart::lower {
namespace {

std::optional<Line> plus(const Line &a, const Line &b, int64_t factor) {
  Line sum;
  if (__builtin_mul_overflow(b.first, factor, &sum.first) || __builtin_mul_overflow(b.step, factor, &sum.step) ||
      __builtin_add_overflow(a.first, sum.first, &sum.first) || __builtin_add_overflow(a.step, sum.step, &sum.step))
    return std::nullopt;
  return sum;
}

std::optional<Line> constant(const Graph &graph, TensorIndex t) {
  const Tensor &tensor = graph.tensor(t);
  if (tensor.tensorType() != TensorType::Const || tensor.info.nelms() != 1) return std::nullopt;
  return Line{tensor.tensorData().asInts().at(0), 0};
}

}  // namespace

CountedLoop::CountedLoop(const Op &loop, int mostMakers)
    : loop_(loop), body_(*loop.getCalledGraphs().front()), trips_(ops::iterationCount(loop)), mostMakers_(mostMakers) {
  for (const Passed &c : passedBy(loop)) carried_.emplace(c.inner, c);
}

const Passed *CountedLoop::carried(TensorIndex inner) const {
  const auto it = carried_.find(inner);
  return it == carried_.end() ? nullptr : &it->second;
}

bool CountedLoop::isInvariant(TensorIndex t) const {
  if (const Passed *c = carried(t)) return c->next == t;
  return body_.tensor(t).tensorType() == TensorType::Const;
}

std::optional<Line> CountedLoop::line(TensorIndex t) {
  struct Visit {
    TensorIndex t;
    bool operandsAreKnown;
  };
  std::vector<Visit> open{{t, false}};
  while (!open.empty()) {
    const Visit now = open.back();
    open.pop_back();
    if (now.operandsAreKnown) {
      std::optional<Line> found = derive(now.t);
      if (found && !holds(body_.info(now.t), *found)) found.reset();
      lines_[now.t] = found;
    } else if (lines_.try_emplace(now.t).second && isScalar(now.t)) {
      open.push_back({now.t, true});
      for (TensorIndex operand : operandScalars(now.t)) open.push_back({operand, false});
    }
  }
  return lines_.at(t);
}

bool CountedLoop::isScalar(TensorIndex t) const {
  const TensorInfo &info = body_.info(t);
  return (typeBit(info.dataType()) & kInts) != 0 && info.nelms() == 1;
}

std::vector<TensorIndex> CountedLoop::operandScalars(TensorIndex t) const {
  const Op *op = t == body_.inputs()[0] || carried_.contains(t) ? nullptr : body_.tensor(t).getProducerUnsafe();
  if (!op) return {};
  if (op->has(Trait::View) || op->has(Trait::Conversion) || op->is(Role::Neg)) return {op->inputs()[0]};
  if (op->is(Role::Gather)) return {op->inputs()[1]};
  if (op->is(Role::Sub) || op->is(Role::Add) || op->is(Role::Mul)) return {op->inputs()[0], op->inputs()[1]};
  return {};
}

std::optional<Line> CountedLoop::known(TensorIndex t) const {
  const auto it = lines_.find(t);
  return it == lines_.end() ? std::nullopt : it->second;
}

bool CountedLoop::staysInside(const Line &l, int64_t rows, int64_t size) const {
  const std::optional<int64_t> last = at(l, trips_ - 1);
  return last && std::min(l.first, *last) >= 0 && std::max(l.first, *last) <= size - rows;
}

std::optional<int64_t> CountedLoop::at(const Line &l, int64_t iteration) const {
  const auto value = plus({l.first, 0}, {l.step, 0}, iteration);
  return value ? std::optional(value->first) : std::nullopt;
}

bool CountedLoop::holds(const TensorInfo &info, const Line &l) const {
  const std::optional<int64_t> last = at(l, trips_ - 1);
  if (!last) return false;
  const bool isSigned = (typeBit(info.dataType()) & kSignedInts) != 0;
  const int64_t bits = info.nbytes() * 8 - (isSigned ? 1 : 0);
  const int64_t most = bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
  return std::max(l.first, *last) <= most && std::min(l.first, *last) >= (isSigned ? -most - 1 : 0);
}

std::optional<Line> CountedLoop::derive(TensorIndex t) {
  if (t == body_.inputs()[0]) return Line{0, 1};
  if (const auto it = carried_.find(t); it != carried_.end()) return ofCarried(it->second);
  const Op *op = body_.tensor(t).getProducerUnsafe();
  if (!op) return constant(body_, t);
  if (op->has(Trait::View) || op->has(Trait::Conversion)) return known(op->inputs()[0]);
  if (op->is(Role::Neg)) {
    const auto x = known(op->inputs()[0]);
    return x ? plus({}, *x, -1) : std::nullopt;
  }
  if (op->is(Role::Gather)) return ofStacked(*op);
  const bool isDifference = op->is(Role::Sub);
  if (!isDifference && !op->is(Role::Add) && !op->is(Role::Mul)) return std::nullopt;
  const auto a = known(op->inputs()[0]), b = known(op->inputs()[1]);
  if (!a || !b) return std::nullopt;
  if (!op->is(Role::Mul)) return plus(*a, *b, isDifference ? -1 : 1);
  if (!a->isConstant() && !b->isConstant()) return std::nullopt;
  return a->isConstant() ? plus({}, *b, a->first) : plus({}, *a, b->first);
}

// A carried value to which every iteration adds a constant, or from which it subtracts one.
std::optional<Line> CountedLoop::ofCarried(const Passed &c) {
  const auto first = constant(loop_.getGraph(), c.outer);
  if (!first || c.next == c.inner) return first;
  const Op *op = body_.tensor(c.next).getProducerUnsafe();
  if (!op || (!op->is(Role::Add) && !op->is(Role::Sub))) return std::nullopt;
  const bool isLeft = op->inputs()[0] == c.inner;
  if (!isLeft && (op->is(Role::Sub) || op->inputs()[1] != c.inner)) return std::nullopt;
  const auto step = constant(body_, op->inputs()[isLeft ? 1 : 0]);
  return step ? plus(*first, {0, step->first}, op->is(Role::Sub) ? -1 : 1) : std::nullopt;
}

// A row of a stack that another loop made.
std::optional<Line> CountedLoop::ofStacked(const Op &gather) {
  const auto position = known(gather.inputs()[1]);
  const auto stack = carried_.find(gather.inputs()[0]);
  if (!position || stack == carried_.end() || !isInvariant(stack->first)) return std::nullopt;
  const Graph &around = loop_.getGraph();
  const Op *maker = around.tensor(stack->second.outer).getProducerUnsafe();
  if (!maker || !maker->is(Role::Loop) || mostMakers_ == 0) return std::nullopt;
  CountedLoop other(*maker, mostMakers_ - 1);
  const auto &results = maker->outputs();
  const auto output = std::find(results.begin(), results.end(), stack->second.outer) - results.begin();
  if (output < ops::carriedCount(*maker) || !other.isCounted() || !staysInside(*position, 1, other.trips_))
    return std::nullopt;
  const auto rows = other.line(other.body_.outputs()[static_cast<size_t>(output) + 1]);
  return rows ? plus({rows->first, 0}, *position, rows->step) : std::nullopt;
}

}  // namespace popart::lower
