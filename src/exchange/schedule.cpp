// See schedule.hpp. Processes of a group are numbered in the order of their members.
//
// Direct splits the operands of an all-reduce at cache lines: the lines of all operands are numbered consecutively, and
// process q joins part q. Halving halves them in bit-reversed order, so that a process keeps one range in each round:
// before round k it has block reverse(q mod 2^k) of 2^k. In a reduce-scatter, a process joins the chunks of its
// members; before round k it has those of all processes that equal it modulo 2^k.
#include "exchange/schedule.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include <popart/error.hpp>

#include "exchange/join.hpp"
#include "exchange/tree.hpp"

namespace popart::exchange {
namespace {

using executable::CollectiveKind;
using executable::Join;

constexpr int64_t kLineElements = 64;  // at least a cache line of any type
constexpr int64_t kLineBytes = 64;

class Planner {
 public:
  Planner(const ExchangeSpec &spec, const ReplicaLayout &layout, int process)
      : spec_(spec), members_(membersOf(layout, groupingOf(spec, layout), spec.group)), size_(spec.groupSize) {
    checkSpec();
    const auto own = std::ranges::find(members_, process, &MemberRange::process);
    check(own != members_.end(), "{} of group {}: {} holds none of its members", nameOf(spec_.operation), spec_.group,
          layout.describe(process));
    self_ = static_cast<int>(own - members_.begin());
    plan_.processes = count();
    width_ = getDataTypeInfo(spec_.type).nbytes;
    plan_.sumBytes = reduces() ? getDataTypeInfo(termType(spec_.type)).nbytes : width_;
    plan_.results = isSharedResult() ? 1 : self().count;
    plan_.inputs = self().count;
    if (reduces()) plan_.inputs = static_cast<int>(ownTerms().size());
    if (spec_.operation == Operation::Broadcast) plan_.inputs = holdsRoot(self()) ? 1 : 0;
    plan_.widths.assign(static_cast<size_t>(plan_.inputs + plan_.results), width_);
    for (int t = 0; reduces() && t < plan_.inputs; ++t)
      plan_.widths[static_cast<size_t>(t)] = widthOf(ownTerms()[static_cast<size_t>(t)]);
    lines_ = {0};
    for (const int64_t elements : spec_.elements)
      lines_.push_back(lines_.back() + (elements + kLineElements - 1) / kLineElements);
  }

  Schedule plan(const LinkCost &cost) {
    const bool halves = canHalve() && timeOf(Algorithm::Halving, cost) < timeOf(Algorithm::Direct, cost);
    plan_.algorithm = halves ? Algorithm::Halving : Algorithm::Direct;
    switch (spec_.operation) {
      case Operation::AllReduce:
      case Operation::ReduceScatter:
        planReduction();
        break;
      case Operation::AllGather:
        planGather();
        break;
      case Operation::Broadcast:
        planBroadcast();
        break;
      case Operation::AllToAll:
        planAllToAll();
        break;
    }
    return std::move(plan_);
  }

 private:
  // ---- checks of the request ---------------------------------------------------------------------
  void checkSpec() const {
    const char *name = nameOf(spec_.operation);
    check(spec_.elements.size() == spec_.resultElements.size(), "{}: got {} operands and {} results, expected as many",
          name, spec_.elements.size(), spec_.resultElements.size());
    check(spec_.root >= 0 && spec_.root < size_, "{}: root {} is not a member of a group of {}", name, spec_.root,
          size_);
    for (size_t o = 0; o < spec_.elements.size(); ++o) {
      const int64_t n = spec_.elements[o], result = spec_.resultElements[o];
      check(n >= 0 && result >= 0, "{}: operand {} has {} elements and its result {}, expected no negative number",
            name, o, n, result);
      int64_t expected = n;
      if (spec_.operation == Operation::ReduceScatter) expected = (n + size_ - 1) / size_;
      if (spec_.operation == Operation::AllGather) expected = std::min(result, n * size_);
      if (spec_.operation == Operation::AllToAll)
        check(n % size_ == 0, "{}: operand {} must divide into a chunk per member: got {} elements for {} members",
              name, o, n, size_);
      check(result == expected,
            "{}: result {} of an operand of {} elements over {} members has {} elements, expected {}", name, o, n,
            size_, result, expected);
    }
  }

  bool keeps() const { return spec_.operation == Operation::ReduceScatter && spec_.join == Join::Keep; }
  bool reduces() const {
    return spec_.operation == Operation::AllReduce || (spec_.operation == Operation::ReduceScatter && !keeps());
  }
  bool isSharedResult() const {
    return spec_.operation != Operation::ReduceScatter && spec_.operation != Operation::AllToAll;
  }
  bool holdsRoot(const MemberRange &m) const { return m.first <= spec_.root && spec_.root < m.first + m.count; }
  int operands() const { return static_cast<int>(spec_.elements.size()); }
  int64_t elements(int o) const { return spec_.elements[static_cast<size_t>(o)]; }
  int64_t resultElements(int o) const { return spec_.resultElements[static_cast<size_t>(o)]; }

  int count() const { return static_cast<int>(members_.size()); }
  const MemberRange &at(int process) const { return members_[static_cast<size_t>(process)]; }
  const MemberRange &self() const { return at(self_); }
  std::vector<Node> ownTerms() const { return termsOf(self().first, self().count, size_); }
  int64_t widthOf(const Node &term) const { return membersIn(term, size_) == 1 ? width_ : plan_.sumBytes; }
  int bits() const { return std::countr_zero(static_cast<unsigned>(count())); }  // of a process number

  // ---- choice of the algorithm --------------------------------------------------------------------
  bool canHalve() const {
    if (count() == 1 || spec_.operation == Operation::AllToAll || keeps()) return false;
    if (spec_.operation == Operation::Broadcast) return true;
    if (!std::has_single_bit(static_cast<unsigned>(count()))) return false;
    if (!reduces()) return true;
    const int level = termsOf(at(0).first, at(0).count, size_).front().level;
    for (int q = 0; q < count(); ++q) {
      const std::vector<Node> terms = termsOf(at(q).first, at(q).count, size_);
      if (terms.size() != 1 || terms[0] != Node{level, q}) return false;
    }
    return true;
  }

  // The same number in all processes, so that all choose the same algorithm.
  double timeOf(Algorithm algorithm, const LinkCost &cost) const {
    const double others = count() - 1;
    const auto parts = static_cast<double>(std::min<int64_t>(count(), lines_.back()));
    const double rounds = std::bit_width(static_cast<unsigned>(count() - 1)), step = cost.latency + cost.perMessage;
    int64_t bytes = 0;
    for (const int64_t n : spec_.elements) bytes += n * getDataTypeInfo(spec_.type).nbytes;
    const bool halves = algorithm == Algorithm::Halving;
    switch (spec_.operation) {
      case Operation::AllReduce:
        return halves ? 2 * rounds * step : 2 * cost.latency + (parts - 1 + others) * cost.perMessage;
      case Operation::Broadcast:
        return halves ? rounds * (step + static_cast<double>(bytes) * cost.perByte)
                      : 2 * cost.latency + (parts - 1 + others) * cost.perMessage +
                            2 * static_cast<double>(bytes) * cost.perByte * others / count();
      default:
        return halves ? rounds * step : cost.latency + others * cost.perMessage;
    }
  }

  // ---- ranges -----------------------------------------------------------------------------------
  // Part i of n of the operands, split at cache lines.
  std::vector<Range> cut(int64_t i, int64_t n) const {
    const int64_t first = lines_.back() * i / n, last = lines_.back() * (i + 1) / n;
    std::vector<Range> ranges;
    for (int o = 0; o < operands(); ++o) {
      const int64_t line = lines_[static_cast<size_t>(o)];
      add(ranges, o, std::max<int64_t>(first - line, 0) * kLineElements,
          std::min((last - line) * kLineElements, elements(o)));
    }
    return ranges;
  }

  static void add(std::vector<Range> &ranges, int operand, int64_t begin, int64_t end) {
    if (begin >= end) return;
    if (!ranges.empty() && ranges.back().operand == operand && ranges.back().end == begin)
      ranges.back().end = end;
    else
      ranges.push_back({operand, begin, end});
  }

  // Chunk of one member of operands that are divided among members, as far as the operand has elements.
  Range chunk(int operand, int member, int64_t each, int64_t all) const {
    return {operand, std::min(all, each * member), std::min(all, each * (member + 1))};
  }

  // The ranges that process q joins in a reduction.
  std::vector<Range> joinedBy(int q) const {
    if (spec_.operation == Operation::AllReduce) return cut(q, count());
    std::vector<Range> ranges;
    for (int o = 0; o < operands(); ++o)
      for (int m = at(q).first; m < at(q).first + at(q).count; ++m) addChunk(ranges, o, m);
    return ranges;
  }
  void addChunk(std::vector<Range> &ranges, int o, int member) const {
    const Range c = chunk(o, member, resultElements(o), elements(o));
    add(ranges, o, c.begin, c.end);
  }

  // Halving: the ranges that the processes which equal q in the last `bits` bits join together.
  std::vector<Range> joinedByClass(int q, int bits) const {
    const int modulus = 1 << bits;
    if (spec_.operation == Operation::AllReduce) {
      int reversed = 0;
      for (int b = 0; b < bits; ++b) reversed |= (q >> b & 1) << (bits - 1 - b);
      return cut(reversed, modulus);
    }
    std::vector<Range> ranges;
    for (int o = 0; o < operands(); ++o)
      for (int p = q % modulus; p < count(); p += modulus)
        for (int m = at(p).first; m < at(p).first + at(p).count; ++m) addChunk(ranges, o, m);
    return ranges;
  }

  // The contribution of `processes` processes from q on to the result of an all-gather.
  std::vector<Range> gatheredFrom(int q, int processes = 1) const {
    const int first = at(q).first, last = at(q + processes - 1).first + at(q + processes - 1).count;
    std::vector<Range> ranges;
    for (int o = 0; o < operands(); ++o)
      add(ranges, o, std::min(resultElements(o), elements(o) * first), std::min(resultElements(o), elements(o) * last));
    return ranges;
  }

  // ---- pieces of the schedule -------------------------------------------------------------------
  int result(int number = 0) const { return plan_.inputs + number; }

  Round &addRound() { return plan_.rounds.emplace_back(); }

  void send(Round &round, int q, std::vector<Place> places) { put(round.sends, q, std::move(places)); }
  void receive(Round &round, int q, std::vector<Place> places) { put(round.receives, q, std::move(places)); }
  void put(std::vector<Message> &messages, int q, std::vector<Place> places) {
    int64_t bytes = 0;
    for (const Place &p : places) bytes += (p.range.end - p.range.begin) * plan_.widthOf(p.memory);
    if (bytes > 0) messages.push_back({at(q).process, bytes, std::move(places)});
  }

  static std::vector<Place> places(int memory, const std::vector<Range> &ranges) {
    std::vector<Place> all;
    for (const Range &r : ranges) all.push_back({memory, r});
    return all;
  }

  // Adds received memory for the ranges of a term, or of a sum.
  int addReceived(const std::vector<Range> &ranges, int64_t width) {
    plan_.received.push_back({plan_.receivedBytes, ranges});
    for (const Range &r : ranges) plan_.receivedBytes += (r.end - r.begin) * width;
    plan_.receivedBytes = (plan_.receivedBytes + kLineBytes - 1) / kLineBytes * kLineBytes;
    plan_.widths.push_back(width);
    return static_cast<int>(plan_.widths.size()) - 1;
  }
  // The memory of a sum whose left term is in `left`: the same one, if it is wide enough.
  int sumIn(int left, const std::vector<Range> &ranges) {
    return plan_.widthOf(left) == plan_.sumBytes ? left : addReceived(ranges, plan_.sumBytes);
  }

  static void copy(Round &round, int from, const Range &range, int to, int64_t begin) {
    const int64_t count = range.end - range.begin;
    if (count > 0) round.copies.push_back({{from, range}, {to, {range.operand, begin, begin + count}}});
  }

  // ---- reductions -------------------------------------------------------------------------------
  void planReduction() {
    if (keeps()) return keepOwnChunks();
    if (plan_.algorithm == Algorithm::Halving)
      halve();
    else
      exchangeTerms();
    if (spec_.operation == Operation::AllReduce) returnParts();
  }

  void keepOwnChunks() {
    Round &round = addRound();
    for (int m = 0; m < self().count; ++m)
      for (int o = 0; o < operands(); ++o)
        copy(round, m, chunk(o, self().first + m, resultElements(o), elements(o)), result(m), 0);
  }

  // Stores results from the memory in which the process has joined its part.
  void storeJoined(Round &round, int joined, const std::vector<Range> &ranges) {
    if (spec_.operation == Operation::AllReduce) {
      for (const Range &r : ranges) copy(round, joined, r, result(), r.begin);
      return;
    }
    for (int m = 0; m < self().count; ++m)
      for (int o = 0; o < operands(); ++o)
        copy(round, joined, chunk(o, self().first + m, resultElements(o), elements(o)), result(m), 0);
  }

  void exchangeTerms() {
    Round &round = addRound();
    const std::vector<Range> part = joinedBy(self_);
    std::vector<Node> terms;
    std::vector<int> memories;  // by term
    for (int q = 0; q < count(); ++q) {
      const std::vector<Node> its = termsOf(at(q).first, at(q).count, size_);
      std::vector<Place> arriving, leaving;
      for (size_t t = 0; t < its.size(); ++t) {
        const bool isOwn = q == self_;
        const int memory = isOwn || part.empty() ? static_cast<int>(t) : addReceived(part, widthOf(its[t]));
        terms.push_back(its[t]);
        memories.push_back(memory);
        if (!isOwn)
          for (const Range &r : part) arriving.push_back({memory, r});
      }
      if (q == self_) continue;
      const std::vector<Range> theirs = joinedBy(q);
      for (int t = 0; t < plan_.inputs; ++t)
        for (const Range &r : theirs) leaving.push_back({t, r});
      send(round, q, std::move(leaving));
      receive(round, q, std::move(arriving));
    }
    if (part.empty()) return;
    round.joined = part;
    const JoinTree tree = joinTree(terms, size_);
    if (!tree.steps.empty()) round.firstJoin.assign(plan_.widths.size(), -1);
    for (size_t t = 0; t < memories.size() && !tree.steps.empty(); ++t)
      round.firstJoin[static_cast<size_t>(memories[t])] = tree.firstStep[t];
    for (const JoinTree::Step &s : tree.steps) {
      int &left = memories[static_cast<size_t>(s.left)];
      const int sum = sumIn(left, part);
      round.joins.push_back({left, memories[static_cast<size_t>(s.right)], sum, s.next});
      left = sum;
    }
    storeJoined(round, memories[0], part);
  }

  void halve() {
    int own = 0;  // the term, and later the sum, of this process
    for (int k = 0; k < bits(); ++k) {
      Round &round = addRound();
      const int other = self_ ^ 1 << k;
      send(round, other, places(own, joinedByClass(other, k + 1)));
      const std::vector<Range> kept = joinedByClass(self_, k + 1);
      if (kept.empty()) continue;
      const Node theirs = termsOf(at(other).first, at(other).count, size_).front();
      const int memory = addReceived(kept, k == 0 ? widthOf(theirs) : plan_.sumBytes);
      receive(round, other, places(memory, kept));
      round.firstJoin.assign(plan_.widths.size(), -1);
      round.firstJoin[0] = round.firstJoin[static_cast<size_t>(memory)] = 0;
      const int sum = sumIn(own, kept);
      round.joined = kept;
      round.joins.push_back(self_ < other ? JoinStep{own, memory, sum, -1} : JoinStep{memory, own, sum, -1});
      own = sum;
      if (k + 1 == bits()) storeJoined(round, own, kept);
    }
  }

  // Plans the second half of an all-reduce.
  void returnParts() {
    if (plan_.algorithm == Algorithm::Halving) {
      for (int k = bits() - 1; k >= 0; --k) {
        Round &round = addRound();
        const int other = self_ ^ 1 << k;
        send(round, other, places(result(), joinedByClass(self_, k + 1)));
        receive(round, other, places(result(), joinedByClass(other, k + 1)));
      }
    } else if (count() > 1) {
      sendToAll([&](int q) { return joinedBy(q); });
    }
  }

  // A round in which every process sends its part of the result to all others, except those that already have it.
  template <class PartOf>
  void sendToAll(const PartOf &partOf, int complete = -1) {
    Round &round = addRound();
    const std::vector<Place> own = places(result(), partOf(self_));
    for (int q = 0; q < count(); ++q) {
      if (q == self_) continue;
      if (q != complete) send(round, q, own);
      if (self_ != complete) receive(round, q, places(result(), partOf(q)));
    }
  }

  // ---- moves ------------------------------------------------------------------------------------
  void planGather() {
    Round &own = addRound();
    for (int m = 0; m < self().count; ++m)
      for (int o = 0; o < operands(); ++o) {
        const Range whole = chunk(o, self().first + m, elements(o), resultElements(o));
        copy(own, m, {o, 0, whole.end - whole.begin}, result(), whole.begin);
      }
    if (plan_.algorithm == Algorithm::Halving) {
      for (int k = 0; k < bits(); ++k) {
        Round &round = addRound();
        const int other = self_ ^ 1 << k, block = 1 << k;
        send(round, other, places(result(), gatheredFrom(self_ / block * block, block)));
        receive(round, other, places(result(), gatheredFrom(other / block * block, block)));
      }
    } else if (count() > 1) {
      sendToAll([&](int q) { return gatheredFrom(q); });
    }
  }

  void planBroadcast() {
    const int root = static_cast<int>(
        std::ranges::find_if(members_, [&](const MemberRange &m) { return holdsRoot(m); }) - members_.begin());
    // Counted from the process after the root, so that the root has the last part: the whole value, if it is short.
    const auto afterRoot = [&](int q) { return (q - root - 1 + count()) % count(); };
    if (self_ == root) {
      Round &own = addRound();
      for (int o = 0; o < operands(); ++o) copy(own, 0, {o, 0, elements(o)}, result(), 0);
    } else {
      addRound();
    }
    if (count() == 1) return;
    if (plan_.algorithm == Algorithm::Halving) return broadcastAlongTree(root);
    const auto partOf = [&](int q) { return cut(afterRoot(q), count()); };
    Round &parts = addRound();
    if (self_ != root) receive(parts, root, places(result(), partOf(self_)));
    for (int q = 0; q < count() && self_ == root; ++q)
      if (q != root) send(parts, q, places(result(), partOf(q)));
    sendToAll(partOf, root);
  }

  // Counted from the root: in round k, the first 2^k processes have the value and send it to the next 2^k.
  void broadcastAlongTree(int root) {
    const int number = (self_ - root + count()) % count();
    const std::vector<Place> whole = places(result(), cut(0, 1));
    for (int block = 1; block < count(); block *= 2) {
      Round &round = addRound();
      if (number < block && number + block < count()) send(round, (self_ + block) % count(), whole);
      if (number >= block && number < 2 * block) receive(round, (self_ - block + count()) % count(), whole);
    }
  }

  void planAllToAll() {
    Round &round = addRound();
    for (int q = 0; q < count(); ++q) {
      std::vector<Place> leaving, arriving;
      for (int o = 0; o < operands(); ++o) {
        const int64_t each = elements(o) / size_;
        for (int own = 0; own < self().count; ++own)
          for (int m = at(q).first; m < at(q).first + at(q).count; ++m) {
            const Range to = chunk(o, m, each, elements(o));
            leaving.push_back({own, to});
            if (q == self_) copy(round, own, to, result(m - self().first), each * (self().first + own));
          }
        for (int m = at(q).first; m < at(q).first + at(q).count; ++m)
          for (int own = 0; own < self().count; ++own)
            arriving.push_back({result(own), chunk(o, m, each, elements(o))});
      }
      if (q == self_) continue;
      send(round, q, std::move(leaving));
      receive(round, q, std::move(arriving));
    }
  }

  const ExchangeSpec &spec_;
  std::vector<MemberRange> members_;  // by process of the group
  const int size_;                    // number of members of the group
  int self_ = 0;                      // this process's number in the group
  int64_t width_ = 0;                 // bytes per element
  // Number of the first cache line of each operand among those of all; last: their total number.
  std::vector<int64_t> lines_;
  Schedule plan_;
};

}  // namespace

const char *nameOf(Operation operation) {
  switch (operation) {
    case Operation::AllReduce:
      return "all-reduce";
    case Operation::ReduceScatter:
      return "reduce-scatter";
    case Operation::AllGather:
      return "all-gather";
    case Operation::Broadcast:
      return "broadcast";
    case Operation::AllToAll:
      return "all-to-all";
  }
  return "";
}

ReplicaGrouping groupingOf(const ExchangeSpec &spec, const ReplicaLayout &layout) {
  check(spec.stride > 0 && spec.groupSize > 0, "{}: got groups of {} members {} apart, expected positive numbers",
        nameOf(spec.operation), spec.groupSize, spec.stride);
  return ReplicaGrouping(static_cast<unsigned>(layout.replicas()), static_cast<unsigned>(spec.stride),
                         static_cast<unsigned>(spec.groupSize));
}

ExchangeSpec exchangeSpec(const executable::CollectiveSpec &spec) {
  ExchangeSpec result;
  switch (spec.kind) {
    case CollectiveKind::Reduce:
      result.operation = Operation::AllReduce;
      break;
    case CollectiveKind::Scatter:
      result.operation = Operation::ReduceScatter;
      break;
    case CollectiveKind::Gather:
      result.operation = Operation::AllGather;
      break;
  }
  result.join = spec.join;
  result.type = spec.type;
  result.groupSize = spec.groupSize;
  result.stride = spec.stride;
  result.elements = spec.elements;
  // Every process computes an update itself from the joined elements, so only those are exchanged.
  result.resultElements = spec.update ? spec.elements : spec.resultElements;
  return result;
}

int64_t Schedule::sentBytes() const {
  int64_t bytes = 0;
  for (const Round &r : rounds)
    for (const Message &m : r.sends) bytes += m.bytes;
  return bytes;
}

int Schedule::sentMessages() const {
  return std::accumulate(rounds.begin(), rounds.end(), 0,
                         [](int n, const Round &r) { return n + static_cast<int>(r.sends.size()); });
}

Schedule planExchange(const ExchangeSpec &spec, const ReplicaLayout &layout, int process, const LinkCost &cost) {
  return Planner(spec, layout, process).plan(cost);
}

}  // namespace popart::exchange
