// See join_in_place.hpp. Concatenations are visited from the last to the first, so that the rows of the outer one are
// known.
#include "lower/join_in_place.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "executable/channel_slice.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/kernels.hpp"
#include "lower/try_replace.hpp"
#include "memory/plan.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

// The positions in program order from the producer of a value to its last reader.
struct Range {
  int first = 0, last = 0;
};

// Bytes at each position of a graph: of all live values, as if only slices and their whole shared memory, and of what
// the op's kernel uses only while it runs.
class LiveBytes {
 public:
  LiveBytes(const Graph &graph, const std::vector<OpIndex> &order, const std::function<int64_t(const Op &)> &temporary)
      : graph_(graph) {
    for (size_t i = 0; i < order.size(); ++i) position_.emplace(order[i], static_cast<int>(i));
    for (const OpIndex o : order) live_.push_back(temporary(graph.op(o)));
    for (const OpIndex o : order)
      for (const TensorIndex t : graph.op(o).outputs())
        if (t.valid()) count(ranges_[t] = rangeOf(graph.tensor(t)), bytesOf(t));
  }

  // Moves parts into the memory of the whole. Leaves out parts that are made early, if otherwise more bytes would be
  // live at one time than before. Returns the parts that were left out.
  std::vector<TensorIndex> join(std::vector<TensorIndex> parts, TensorIndex whole) {
    while (wholes_.count(whole)) whole = wholes_.at(whole);
    const int64_t most = *std::ranges::max_element(live_);
    std::ranges::sort(parts, std::greater(), [this](TensorIndex t) { return ranges_.at(t).first; });
    const Range old = ranges_.at(whole);
    count(old, -bytesOf(whole));
    for (const TensorIndex t : parts) count(ranges_.at(t), -bytesOf(t));
    std::vector<TensorIndex> left;
    Range all;
    while (true) {
      all = old;
      for (const TensorIndex t : parts)
        all = {std::min(ranges_.at(t).first, all.first), std::max(ranges_.at(t).last, all.last)};
      count(all, bytesOf(whole));
      if (parts.empty() || *std::ranges::max_element(live_) <= most) break;
      count(all, -bytesOf(whole));
      left.push_back(parts.back());
      parts.pop_back();
      count(ranges_.at(left.back()), bytesOf(left.back()));
    }
    for (const TensorIndex t : parts) wholes_[t] = whole;
    ranges_[whole] = all;
    return left;
  }

 private:
  Range rangeOf(const Tensor &t) const {
    Range range{position_.at(t.getProducer()->index()), 0};
    range.last = t.isGraphOutput() ? static_cast<int>(live_.size()) - 1 : range.first;
    for (const Op *reader : t.consumerOps()) range.last = std::max(range.last, position_.at(reader->index()));
    return range;
  }
  int64_t bytesOf(TensorIndex t) const { return graph_.info(t).nbytes(); }
  void count(const Range &range, int64_t bytes) {
    for (int i = range.first; i <= range.last; ++i) live_[static_cast<size_t>(i)] += bytes;
  }

  const Graph &graph_;
  std::vector<int64_t> live_;
  std::map<OpIndex, int> position_;
  std::map<TensorIndex, Range> ranges_;
  std::map<TensorIndex, TensorIndex> wholes_;
};

class Joiner {
 public:
  Joiner(Graph &graph, const executable::Backend &backend, int threads)
      : graph_(graph), backend_(backend), threads_(threads) {}

  void run() {
    for (const OpIndex o : schedule::orderOps(graph_))
      if (joins(graph_.op(o))) joins_.push_back(o), parts_.push_back(graph_.op(o).inputs());
    if (joins_.empty()) return;
    for (size_t j = 0; j < joins_.size(); ++j) nest(j);
    LiveBytes live(graph_, schedule::orderOps(graph_), [this](const Op &op) { return temporaryBytes(op); });
    for (size_t j = joins_.size(); j-- > 0;) place(graph_.op(joins_[j]), live);
  }

 private:
  bool joins(const Op &op) const {
    return executable::joinsChannels(op) && op.outInfo(0).dataType() == DataType::FLOAT && op.inputCount() > 1 &&
           executable::layoutOf(*op.outTensor(0)) == executable::channelsLast() && op.outInfo(0).nelms() > 0;
  }

  // Lets this Concat read the result of the longest earlier Concat whose operands are its first, or its last, operands.
  void nest(size_t j) {
    Op &op = graph_.op(joins_[j]);
    const std::vector<TensorIndex> &inputs = parts_[j];
    size_t inner = j;
    bool isFirst = true;
    for (size_t e = 0; e < j; ++e) {
      const std::vector<TensorIndex> &parts = parts_[e];
      if (parts.size() >= inputs.size() || (inner < j && parts.size() <= parts_[inner].size())) continue;
      if (runsApart(graph_.op(joins_[e]), op)) continue;
      const bool first = std::equal(parts.begin(), parts.end(), inputs.begin());
      if (!first && !std::equal(parts.rbegin(), parts.rend(), inputs.rbegin())) continue;
      inner = e, isFirst = first;
    }
    if (inner == j) return;
    const auto count = static_cast<std::ptrdiff_t>(parts_[inner].size());
    std::vector<TensorIndex> joined = graph_.op(joins_[inner]).outputs();
    if (isFirst)
      joined.insert(joined.end(), inputs.begin() + count, inputs.end());
    else
      joined.insert(joined.begin(), inputs.begin(), inputs.end() - count);
    Op *made = tryReplace(graph_, {op.def(), joined, op.attributes(), inheritSettings(op, graph_), op.outputs()},
                          [](const Op &) { return true; });
    executable::setLayout(graph_.tensor(made->outputs()[0]), executable::channelsLast());
    for (auto &parts : parts_) std::ranges::replace(parts, op.outputs()[0], made->outputs()[0]);
    graph_.moveConstraints(op.index(), made->index());
    graph_.eraseOpAndOutputs(op.index());
    joins_[j] = made->index();
  }

  void place(const Op &join, LiveBytes &live) {
    const Tensor &result = *join.outTensor(0);
    if (result.isGraphOutput() || std::ranges::any_of(result.consumerOps(), passesOn)) return;
    const int64_t inner = executable::channelsOfWhole(executable::layoutOf(result));
    const executable::Layout *slice = executable::channelSlice(inner > 0 ? inner : result.info.shape()[1]);
    std::vector<TensorIndex> parts;
    for (const TensorIndex t : join.inputs())
      if (isPart(join, graph_.tensor(t)) && takesPart(graph_.tensor(t), slice)) parts.push_back(t);
    for (const TensorIndex t : live.join(std::move(parts), result.index()))
      executable::setLayout(graph_.tensor(t), executable::channelsLast());
  }

  // Whether the op passes its operands to other graphs, or into variables.
  static bool passesOn(const Op *op) {
    return (op->has(Trait::Call) && !op->has(Trait::Internal)) || op->is(Role::VariableAssign);
  }

  static bool isPart(const Op &join, const Tensor &t) {
    if (!t.hasProducer() || t.isGraphOutput() || executable::layoutOf(t) != executable::channelsLast()) return false;
    int joins = 0;
    for (const Use &use : t.uses()) {
      const Op &reader = t.getGraph().op(use.op);
      joins += executable::joinsChannels(reader);
      if (passesOn(&reader) || runsApart(reader, join)) return false;
    }
    return joins == 1 && !passesOn(t.getProducer()) && !runsApart(*t.getProducer(), join) && t.info.nelms() > 0;
  }

  std::shared_ptr<const executable::Kernel> kernelOf(const Op &op) const {
    std::string reason;
    return backend_.createKernel(executable::requestOf(op), reason);
  }
  int64_t temporaryBytes(const Op &op) const {
    const auto kernel = needsKernel(op) ? kernelOf(op) : nullptr;
    if (!kernel) return 0;
    const memory::TemporaryBytes bytes = memory::temporaryBytes(*kernel, threads_);
    return bytes.shared + bytes.scratch;
  }

  // Whether all ops that use the tensor accept the layout.
  bool takesPart(Tensor &t, const executable::Layout *layout) const {
    executable::setLayout(t, layout);
    std::vector<Op *> around = t.consumerOps();
    around.push_back(t.getProducer());
    const auto takes = [&](const Op *op) { return !needsKernel(*op) || kernelOf(*op) != nullptr; };
    if (std::ranges::all_of(around, takes)) return true;
    executable::setLayout(t, executable::channelsLast());
    return false;
  }

  Graph &graph_;
  const executable::Backend &backend_;
  const int threads_;
  std::vector<OpIndex> joins_;                   // in program order
  std::vector<std::vector<TensorIndex>> parts_;  // the original parts of each
};

}  // namespace

void joinInPlace(Ir &flat, const executable::Backend &backend, int threads) {
  for (Graph *graph : schedule::programGraphs(flat)) Joiner(*graph, backend, threads).run();
}

}  // namespace popart::lower
