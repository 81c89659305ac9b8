// See attention_masks.hpp.
#include "backends/cpu/attention_masks.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_map>

#include <popart/graph.hpp>

namespace popart::cpu {
namespace {

using executable::KernelRequest;
using executable::OperandDesc;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// A score this low has probability zero if some key of the row is not masked. Other operands could make the other
// scores as low, so the constant is used only if there are none.
constexpr float kVeryLow = -1e30f;

// A constant operand that masks keys: those whose addend is low, or whose condition selects a low number.
struct Mask {
  const TensorData *data;
  ScoreRows rows;
  float low = -kInfinity;  // for an addend: keys with a value up to this one are masked
  bool masksWhere = true;  // for a condition: the value that masks a key

  bool isMasked(int64_t at) const {
    if (data->info().dataType() == DataType::FLOAT) return static_cast<const float *>(data->data())[at] <= low;
    return (static_cast<const uint8_t *>(data->data())[at] != 0) == masksWhere;
  }
};

// Follows the scores from the result of `body` back to its first input, as long as low values remain low.
class MaskSearch {
 public:
  MaskSearch(const KernelRequest &request, size_t firstExtra, const Graph &body)
      : request_(request), firstExtra_(firstExtra), body_(body), fromScores_(body.tensorSlots(), false) {
    fromScores_[body.inputs()[0].value] = true;
    for (const Op *op : body.getOpSchedule())
      if (std::ranges::any_of(op->inputs(), [&](TensorIndex t) { return comesFromScores(t); }))
        for (TensorIndex t : op->outputs())
          if (t.valid()) fromScores_[t.value] = true;
  }

  std::vector<Mask> run() {
    TensorIndex t = body_.outputs()[0];
    while (const Op *op = body_.tensor(t).getProducerUnsafe()) {
      const int next = scoresOf(*op);
      if (next < 0 || !addMask(*op, next)) break;
      t = op->inputs()[static_cast<size_t>(next)];
    }
    return std::move(masks_);
  }

 private:
  bool comesFromScores(TensorIndex t) const { return t.valid() && fromScores_[t.value]; }
  // The only input that depends on the scores; -1 if there are several.
  int scoresOf(const Op &op) const {
    int found = -1;
    for (int i = 0; i < op.inputCount(); ++i) {
      if (!comesFromScores(op.inputs()[static_cast<size_t>(i)])) continue;
      if (found >= 0) return -1;
      found = i;
    }
    return found;
  }
  const OperandDesc *operandOf(TensorIndex t) const {
    const auto it = std::find(body_.inputs().begin() + 1, body_.inputs().end(), t);
    if (it == body_.inputs().end()) return nullptr;
    return &request_.inputs[firstExtra_ + static_cast<size_t>(it - body_.inputs().begin()) - 1];
  }
  bool isAlone() const { return request_.inputs.size() == firstExtra_ + 1; }
  float lowest() const { return isAlone() ? kVeryLow : -kInfinity; }

  // Adds the op's mask, if it has one. Returns whether the search may continue at the op's input.
  bool addMask(const Op &op, int scores) {
    if (op.is(Role::Add) || op.is(Role::Sum)) {
      for (int i = 0; i < op.inputCount(); ++i)
        if (i != scores && op.hasInput(i)) add(op.inputs()[static_cast<size_t>(i)], DataType::FLOAT, true);
      return true;
    }
    if (&op.def().base() == &opDef("Where") && scores > 0) {
      const Tensor &other = body_.tensor(op.inputs()[static_cast<size_t>(3 - scores)]);
      if (other.tensorType() == TensorType::Const && other.info.nelms() == 1 &&
          other.tensorData().asDoubles()[0] <= static_cast<double>(lowest()))
        add(op.inputs()[0], DataType::BOOL, scores == 2);
      return true;
    }
    return &op.def().base() == &opDef("Cast");
  }
  void add(TensorIndex t, DataType type, bool masksWhere) {
    const OperandDesc *operand = operandOf(t);
    if (!operand || !operand->constant || operand->info.dataType() != type) return;
    masks_.push_back({operand->constant, rowsOf(operand->info.shape(), body_.info(body_.inputs()[0]).shape()), lowest(),
                      masksWhere});
  }

  const KernelRequest &request_;
  const size_t firstExtra_;
  const Graph &body_;
  std::vector<bool> fromScores_;  // by tensor
  std::vector<Mask> masks_;
};

// The keys of a row that masks leave, from the first to the last one; computed once for equal rows.
class MaskRows {
 public:
  MaskRows(const Mask &mask, int64_t keys) : mask_(mask), keys_(keys) {}

  KeyRange range(int64_t row) {
    const auto [it, fresh] = known_.try_emplace(mask_.rows.offset(row));
    if (fresh) it->second = search(it->first);
    return it->second;
  }
  // Whether rows `period` apart have the same keys.
  bool repeats(int64_t period) const {
    return std::ranges::all_of(mask_.rows.dimensions,
                               [&](const ScoreRows::Dimension &d) { return period % (d.divisor * d.size) == 0; });
  }

 private:
  KeyRange search(int64_t offset) const {
    const auto masked = [&](int64_t key) { return mask_.isMasked(offset + key * mask_.rows.keyStride); };
    int64_t begin = 0, end = keys_;
    while (begin < end && masked(begin)) ++begin;
    while (begin < end && masked(end - 1)) --end;
    return {begin, end};
  }

  const Mask &mask_;
  int64_t keys_;
  std::unordered_map<int64_t, KeyRange> known_;
};

}  // namespace

ScoreRows rowsOf(const Shape &operand, const Shape &scores) {
  ScoreRows rows;
  int64_t stride = 1, divisor = 1;
  for (size_t back = 0; back < scores.size(); ++back) {
    const int64_t own = back < operand.size() ? operand[operand.size() - 1 - back] : 1,
                  size = scores[scores.size() - 1 - back];
    if (back == 0) {
      rows.keyStride = own == 1 ? 0 : 1;
    } else {
      if (own != 1) rows.dimensions.push_back({divisor, size, stride});
      divisor *= size;
    }
    stride *= own;
  }
  return rows;
}

const Graph &graphOf(const Op &op, const char *attribute) {
  return op.getIr().getGraph(op.attributes().getAttribute<GraphRef>(attribute).id);
}

std::vector<KeyRange> neededKeys(const KernelRequest &request, size_t firstExtra, const AttentionShape &shape) {
  if (!request.op->hasAttr("scores")) return {};
  const std::vector<Mask> masks = MaskSearch(request, firstExtra, graphOf(*request.op, "scores")).run();
  if (masks.empty()) return {};
  std::vector<MaskRows> rows;
  for (const Mask &mask : masks) rows.emplace_back(mask, shape.keys);
  const bool repeats = std::ranges::all_of(rows, [&](const MaskRows &r) { return r.repeats(shape.queries); });
  const int64_t batches =
      repeats ? 1 : std::accumulate(shape.batch.begin(), shape.batch.end(), int64_t{1}, std::multiplies<>());
  const int64_t all = shape.keys;
  std::vector<KeyRange> needed(static_cast<size_t>(shape.queries), KeyRange{all, 0});
  for (int64_t row = 0; row < batches * shape.queries; ++row) {
    KeyRange own{0, all};
    for (MaskRows &mask : rows) {
      const KeyRange r = mask.range(row);
      own = {std::max(own.begin, r.begin), std::min(own.end, r.end)};
    }
    if (own.begin >= own.end) own = {0, all};
    KeyRange &query = needed[static_cast<size_t>(row % shape.queries)];
    query = {std::min(query.begin, own.begin), std::max(query.end, own.end)};
  }
  const bool isAll = std::ranges::all_of(needed, [&](const KeyRange &r) { return r.begin == 0 && r.end == all; });
  return isAll ? std::vector<KeyRange>{} : needed;
}

}  // namespace popart::cpu
