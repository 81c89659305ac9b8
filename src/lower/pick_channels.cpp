// See pick_channels.hpp. A move is composed with the moves before it, so that each position names a tensor that is
// computed in any case. The cost is that of listing the channels that the program would copy.
#include "lower/pick_channels.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>
#include <unordered_map>

#include "lower/channels_last.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/try_replace.hpp"
#include "ops/shape/channel_moves.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

using ops::ChannelMove;
using ops::ChannelPlace;

bool isKnown(const Op &op, int input) {
  return !op.hasInput(input) ||
         (op.inTensor(input)->tensorType() == TensorType::Const && op.inTensor(input)->hasTensorData());
}
bool isKnownConv(const Op &op) { return op.is(Role::Conv) && isKnown(op, 1) && isKnown(op, 2); }
// Whether the op sums over all channels of its input.
bool sumsChannels(const Op &op) { return isKnownConv(op) && op.attrInt("group") == 1; }
// Whether the op has a result channel for each input channel.
bool keepsChannels(const Op &op) {
  if (op.is(Role::Conv)) {
    const int64_t channels = op.inShape(0)[1];
    return isKnownConv(op) && op.attrInt("group") == channels && op.outShape(0)[1] == channels;
  }
  return isElementwise(op) && op.inputCount() == 1 && op.outputCount() == 1;
}

// The data with index order[i] of the dimension at position i.
TensorData permuted(const TensorData &data, size_t dimension, const std::vector<int64_t> &order) {
  TensorData result(data.info());
  if (data.info().nelms() == 0) return result;
  int64_t outer = 1, inner = data.nbytes();  // bytes of the dimensions after it
  for (size_t d = 0; d <= dimension; ++d) {
    inner /= data.info().shape()[d];
    if (d < dimension) outer *= data.info().shape()[d];
  }
  const auto *from = static_cast<const char *>(data.data());
  auto *to = static_cast<char *>(result.mutableData());
  for (int64_t o = 0; o < outer; ++o)
    for (const int64_t i : order) {
      std::memcpy(to, from + (o * static_cast<int64_t>(order.size()) + i) * inner, static_cast<size_t>(inner));
      to += inner;
    }
  return result;
}

class Picker {
 public:
  Picker(Graph &graph, const executable::Backend &backend) : graph_(graph), backend_(backend) {}

  void run() {
    const std::vector<OpIndex> order = schedule::orderOps(graph_);
    if (std::ranges::none_of(order, [&](OpIndex o) { return isSpatial(graph_.op(o)); })) return;
    for (const OpIndex o : order) find(graph_.op(o));
    if (moves_.empty()) return;
    for (size_t i = order.size(); i-- > 0;) decideWhatStays(graph_.op(order[i]));
    for (const OpIndex o : order)
      if (graph_.op(o).outputCount() == 1)
        if (const auto move = moves_.find(graph_.op(o).outputs()[0]); move != moves_.end()) compose(move->second);
    for (size_t i = order.size(); i-- > 0;) eraseUnread(order[i]);
  }

 private:
  struct Move {
    Op *op = nullptr;
    std::vector<ChannelPlace> places;
    bool isRead = false;  // by ops that are not moves
    bool joinsMoves = false;
  };

  void find(Op &op) {
    constexpr int64_t kMostChannels = int64_t{1} << 16;  // lists of more would be as large as the tensors
    if (op.outputCount() != 1 || !op.hasOutput(0) || op.outRank(0) < 3 || op.outShape(0)[1] > kMostChannels) return;
    ChannelMove move = ops::channelMove(op);
    if (move.places.empty()) return;
    const auto isApart = [&](const Op *before) { return staysApart(*before, op); };
    // Variables that an update may change are read at their original position.
    const auto isChanged = [&](const ChannelPlace &p) {
      return graph_.tensor(p.tensor).tensorType() == TensorType::Variable;
    };
    if (std::ranges::any_of(move.before, isApart) || std::ranges::any_of(move.places, isChanged)) return;
    for (const Op *before : move.before) parts_.insert(before);
    const bool isShuffle = !move.before.empty();
    moves_.emplace(op.outputs()[0], Move{&op, std::move(move.places), false, isShuffle});
  }

  // Called from the last op to the first: decides whether the result of a move, or of a part of one, is needed.
  void decideWhatStays(const Op &op) {
    const auto move = op.outputCount() == 1 ? moves_.find(op.outputs()[0]) : moves_.end();
    if (move == moves_.end() && !parts_.count(&op)) return;
    const Tensor &made = *op.outTensor(0);
    bool isRead = made.isGraphOutput();
    for (const Op *reader : made.consumerOps()) {
      const bool isMove = reader->outputCount() == 1 && moves_.count(reader->outputs()[0]);
      isRead |= staysApart(op, *reader) || (!isMove && !unmade_.count(reader));
    }
    if (move != moves_.end()) move->second.isRead = isRead;
    if (!isRead) unmade_.insert(&op);
  }

  void compose(Move &move) {
    std::vector<ChannelPlace> places;
    for (const ChannelPlace &p : move.places) {
      const auto before = moves_.find(p.tensor);
      const bool joins = before != moves_.end() && !before->second.isRead;
      move.joinsMoves |= joins;
      places.push_back(joins ? before->second.places[static_cast<size_t>(p.channel)] : p);
    }
    move.places = std::move(places);
    if (move.isRead && move.joinsMoves && isNextToSpatial(move)) replace(move);
  }

  TensorIndex now(TensorIndex t) const {
    const auto it = replaced_.find(t);
    return it == replaced_.end() ? t : it->second;
  }

  bool isNextToSpatial(const Move &move) const {
    if (std::ranges::any_of(move.op->outTensor(0)->consumerOps(), [](const Op *op) { return isSpatial(*op); }))
      return true;
    return std::ranges::any_of(move.places, [&](const ChannelPlace &p) {
      const Op *producer = graph_.tensor(now(p.tensor)).getProducerUnsafe();
      return producer && isSpatial(*producer);
    });
  }

  // Whether the result is all channels of one tensor in order.
  bool isWhole(const Move &move) const {
    const TensorIndex source = move.places.front().tensor;
    int64_t next = 0;
    for (const ChannelPlace &p : move.places)
      if (p.tensor != source || p.channel != next++) return false;
    return next == graph_.info(now(source)).shape()[1];
  }

  void replace(Move &move) {
    const TensorIndex result = move.op->outputs()[0];
    if (isWhole(move) && !graph_.tensor(result).isGraphOutput()) {
      replaced_[result] = now(move.places.front().tensor);
      return graph_.replaceUses(result, replaced_[result]);
    }
    const std::vector<Op *> readers = readersThatFollow(result);
    std::vector<TensorIndex> sources;
    std::unordered_map<TensorIndex, int64_t> numbers;
    for (const ChannelPlace &p : move.places)
      if (numbers.emplace(p.tensor, static_cast<int64_t>(sources.size())).second) sources.push_back(now(p.tensor));
    std::vector<std::tuple<int64_t, int64_t, int64_t>> picked;  // input, channel, position in the result
    for (const ChannelPlace &p : move.places)
      picked.emplace_back(numbers.at(p.tensor), p.channel, static_cast<int64_t>(picked.size()));
    if (!readers.empty()) std::ranges::sort(picked);
    std::vector<int64_t> inputs, channels, order;
    for (const auto &[input, channel, place] : picked) {
      inputs.push_back(input);
      channels.push_back(channel);
      order.push_back(place);
    }
    const Op *made = tryReplace(graph_,
                                {opDef("PickChannels"),
                                 sources,
                                 {{"inputs", inputs}, {"channels", channels}},
                                 inheritSettings(*move.op, graph_),
                                 {result}},
                                [&](const Op &op) { return hasKernel(op, backend_); });
    if (!made) return;
    graph_.moveConstraints(move.op->index(), made->index());
    replaced_[result] = made->outputs()[0];
    if (std::ranges::is_sorted(order)) return;
    for (Op *reader : readers) permuteWeights(*reader, order);
  }

  // All ops that depend on the order of the tensor's channels, up to sums over them: convolutions with known weights.
  // Empty if other ops do.
  std::vector<Op *> readersThatFollow(TensorIndex channels) const {
    std::vector<Op *> readers;
    std::vector<TensorIndex> open{channels};
    while (!open.empty()) {
      const Tensor &t = graph_.tensor(open.back());
      open.pop_back();
      if (t.isGraphOutput()) return {};
      for (const Use &u : t.uses()) {
        Op &op = graph_.op(u.op);
        if (u.input != 0 || op.isUserOp() || (!sumsChannels(op) && !keepsChannels(op))) return {};
        if (!sumsChannels(op)) open.push_back(op.outputs()[0]);
        if (op.is(Role::Conv)) readers.push_back(&op);
      }
    }
    return readers;
  }

  void permuteWeights(Op &convolution, const std::vector<int64_t> &order) {
    const bool sums = sumsChannels(convolution);
    for (const int input : {1, 2}) {
      if (!convolution.hasInput(input) || (input == 2 && sums)) continue;
      const Tensor &weights = *convolution.inTensor(input);
      graph_.connectInput(convolution.index(), input,
                          graph_.addConstant(graph_.freeId(weights.id + "/picked"),
                                             permuted(weights.tensorData(), sums ? 1 : 0, order)));
    }
  }

  void eraseUnread(OpIndex o) {
    const Op &op = graph_.op(o);
    const bool isMove = op.outputCount() == 1 && moves_.count(op.outputs()[0]);
    if ((isMove || parts_.count(&op)) && op.outTensor(0)->uses().empty() && !op.outTensor(0)->isGraphOutput())
      graph_.eraseOpAndOutputs(o);
  }

  Graph &graph_;
  const executable::Backend &backend_;
  std::unordered_map<TensorIndex, Move> moves_;  // by result
  std::set<const Op *> parts_;                   // the transposes and views of shuffles
  std::set<const Op *> unmade_;                  // only moves read their results
  std::unordered_map<TensorIndex, TensorIndex> replaced_;
};

}  // namespace

void pickChannels(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : schedule::programGraphs(flat)) Picker(*graph, backend).run();
}

}  // namespace popart::lower
