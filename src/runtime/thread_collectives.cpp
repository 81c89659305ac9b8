// Barriers between replicas, and the arithmetic of a replica's share.
//
// A member waits until the last one of its group has come. The last one takes those that wait off the count of idle
// replicas before it wakes them, so that the count is exact: when all replicas are idle and some of them wait, nobody
// will ever come.
#include "runtime/thread_collectives.hpp"

#include <algorithm>
#include <exception>
#include <type_traits>

#include "base/element_types.hpp"
#include "base/threads/wait_while.hpp"

namespace popart::runtime {
namespace {

using executable::CollectiveSpec;
using executable::Join;
using executable::Meeting;

constexpr int64_t kBlock = 512;        // elements joined at a time: their sums stay in the first level cache
constexpr int64_t kLineElements = 64;  // ranges begin at multiples, so that no two threads write one cache line

struct Range {
  int64_t begin, end;
};

// Piece `i` of `n` of [0, size), cut at cache lines.
Range piece(int64_t size, int64_t i, int64_t n) {
  const int64_t lines = (size + kLineElements - 1) / kLineElements;
  return {std::min(size, lines * i / n * kLineElements), std::min(size, lines * (i + 1) / n * kLineElements)};
}

// Calls f with the operator of `how`: one call for a whole loop, so that the loop vectorises.
template <class A, class F>
void withOperator(Join how, F &&f) {
  using Wrapping = std::conditional_t<std::is_integral_v<A>, uint64_t, A>;
  switch (how) {
    case Join::Add:
      return f([](A a, A b) { return static_cast<A>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b)); });
    case Join::Mul:
      return f([](A a, A b) { return static_cast<A>(static_cast<Wrapping>(a) * static_cast<Wrapping>(b)); });
    case Join::Min:
      return f([](A a, A b) { return b < a || b != b ? b : a; });
    case Join::Max:
      return f([](A a, A b) { return a < b || b != b ? b : a; });
    case Join::And:
      return f([](A a, A b) { return static_cast<A>(a != A(0) && b != A(0)); });
    case Join::Or:
      return f([](A a, A b) { return static_cast<A>(a != A(0) || b != A(0)); });
    case Join::Keep:
      return f([](A a, A) { return a; });
  }
}

template <class T>
using TermOf = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

// result = term(0) op term(1) op … for `count` elements, at most kBlock.
template <class T, class Terms>
void joinBlock(Join how, int terms, int64_t count, const Terms &term, T *result) {
  using A = TermOf<T>;
  A joined[kBlock];
  const T *first = term(0);
  for (int64_t i = 0; i < count; ++i) joined[i] = static_cast<A>(first[i]);
  withOperator<A>(how, [&](auto op) {
    for (int m = 1; m < terms; ++m) {
      const T *next = term(m);
      for (int64_t i = 0; i < count; ++i) joined[i] = op(joined[i], static_cast<A>(next[i]));
    }
  });
  for (int64_t i = 0; i < count; ++i) result[i] = asElement<T>(joined[i]);
}

}  // namespace

ThreadCollectives::ThreadCollectives(int replicas, bool spin) : replicas_(replicas), spin_(spin) {
  const auto count = static_cast<unsigned>(replicas);
  for (unsigned size = 2; size <= count; ++size)
    for (unsigned stride = 1; stride * size <= count; ++stride) {
      if (count % (stride * size) != 0) continue;
      Grouping &g = groupings_.emplace_back(
          Grouping{ReplicaGrouping(count, stride, size), std::make_unique<Group[]>(count / size)});
      for (unsigned i = 0; i < count / size; ++i) g.groups[i].slots.resize(size);
    }
}

const ThreadCollectives::Grouping &ThreadCollectives::groupingOf(const CollectiveSpec &spec) const noexcept {
  for (const Grouping &g : groupings_)
    if (g.replicas.getStride() == static_cast<unsigned>(spec.stride) && g.size() == spec.groupSize) return g;
  std::terminate();  // programs are only compiled for groups that divide the replicas
}

bool ThreadCollectives::meet(Group &group, int size) noexcept {
  const uint32_t meeting = group.meetings.load(std::memory_order_acquire);
  if (problem_.load(std::memory_order_acquire) != Problem::None) return false;
  if (group.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
    group.arrived.store(0, std::memory_order_relaxed);
    idle_.fetch_sub(size - 1, std::memory_order_acq_rel);
    group.meetings.fetch_add(1, std::memory_order_acq_rel);
    group.meetings.notify_all();
    return problem_.load(std::memory_order_acquire) == Problem::None;
  }
  if (idle_.fetch_add(1, std::memory_order_acq_rel) + 1 == replicas_) stop(Problem::NobodyComes);
  waitWhile(group.meetings, meeting, spin_);
  return problem_.load(std::memory_order_acquire) == Problem::None;
}

void ThreadCollectives::stop(Problem problem) noexcept {
  Problem none = Problem::None;
  problem_.compare_exchange_strong(none, problem, std::memory_order_acq_rel);
  for (const Grouping &g : groupings_)
    for (unsigned i = 0; i < g.replicas.getNumGroups(); ++i) {
      g.groups[i].meetings.fetch_add(1, std::memory_order_acq_rel);
      g.groups[i].meetings.notify_all();
    }
}

void ThreadCollectives::start() noexcept {
  problem_.store(Problem::None, std::memory_order_relaxed);
  idle_.store(0, std::memory_order_relaxed);
  for (const Grouping &g : groupings_)
    for (unsigned i = 0; i < g.replicas.getNumGroups(); ++i) g.groups[i].arrived.store(0, std::memory_order_relaxed);
}

void ThreadCollectives::finish() noexcept {
  if (idle_.fetch_add(1, std::memory_order_acq_rel) + 1 < replicas_) return;
  for (const Grouping &g : groupings_)
    for (unsigned i = 0; i < g.replicas.getNumGroups(); ++i)
      if (g.groups[i].arrived.load(std::memory_order_acquire) > 0) return stop(Problem::NobodyComes);
}

void ThreadCollectives::fail() noexcept { stop(Problem::ReplicaFailed); }

const char *ThreadCollectives::problem() const noexcept {
  switch (problem_.load(std::memory_order_acquire)) {
    case Problem::None:
      break;
    case Problem::ReplicaFailed:
      return "another replica failed";
    case Problem::DifferentSteps:
      return "the replicas of its group came to different collectives. Conditions and trip counts around collectives "
             "must be the same on all of them";
    case Problem::NobodyComes:
      return "the other replicas of its group do not come to it: they ended their run, or wait for others in another "
             "group. Conditions and trip counts around collectives must be the same on all of them";
  }
  return "";
}

bool ThreadCollectives::begin(int replica, const CollectiveSpec &spec, const void *const *in,
                              void *const *out) noexcept {
  const Grouping &grouping = groupingOf(spec);
  Group &group = grouping.groupOf(replica);
  group.slots[grouping.replicas.getIndexInGroupAt(static_cast<unsigned>(replica))] = {&spec, in, out};
  if (!meet(group, grouping.size())) return false;
  const bool same = std::all_of(group.slots.begin(), group.slots.end(), [&](const Slot &s) { return s.spec == &spec; });
  if (!same) stop(Problem::DifferentSteps);
  return same;
}

bool ThreadCollectives::end(int replica, const CollectiveSpec &spec) noexcept {
  const Grouping &grouping = groupingOf(spec);
  return meet(grouping.groupOf(replica), grouping.size());
}

void ThreadCollectives::work(int replica, const CollectiveSpec &spec, int part, int parts) noexcept {
  const Grouping &grouping = groupingOf(spec);
  const std::vector<Slot> &slots = grouping.groupOf(replica).slots;
  const int size = grouping.size();
  const auto member = static_cast<int>(grouping.replicas.getIndexInGroupAt(static_cast<unsigned>(replica)));
  void *const *own = slots[static_cast<size_t>(member)].out;
  for (size_t o = 0; o < spec.elements.size(); ++o) {
    const int64_t n = spec.elements[o], results = spec.resultElements[o];
    forElement(kRealElements, spec.type, [&]<class T>(T) {
      const auto source = [&](int m) { return static_cast<const T *>(slots[static_cast<size_t>(m)].in[o]); };
      const auto target = [&](int m) { return static_cast<T *>(slots[static_cast<size_t>(m)].out[o]); };
      T block[kBlock];
      switch (spec.meeting) {
        case Meeting::Reduce: {  // a share of the elements, for all members
          const Range share = piece(n, int64_t{member} * parts + part, int64_t{size} * parts);
          for (int64_t at = share.begin; at < share.end; at += kBlock) {
            const int64_t count = std::min(kBlock, share.end - at);
            joinBlock<T>(
                spec.join, size, count, [&](int m) { return source(m) + at; }, block);
            for (int m = 0; m < size; ++m) std::copy_n(block, count, target(m) + at);
          }
          break;
        }
        case Meeting::Scatter: {  // the own chunk
          const Range share = piece(results, part, parts);
          const int64_t first = member * results, last = std::clamp(n - first, share.begin, share.end);
          T *y = static_cast<T *>(own[o]);
          for (int64_t at = share.begin; at < last; at += kBlock) {
            const int64_t count = std::min(kBlock, last - at);
            if (spec.join == Join::Keep) {
              std::copy_n(source(member) + first + at, count, y + at);
            } else {
              joinBlock<T>(
                  spec.join, size, count, [&](int m) { return source(m) + first + at; }, block);
              std::copy_n(block, count, y + at);
            }
          }
          std::fill(y + last, y + share.end, T{});
          break;
        }
        case Meeting::Gather: {
          const Range share = piece(results, part, parts);
          T *y = static_cast<T *>(own[o]);
          for (int64_t at = share.begin; at < share.end;) {
            const int64_t m = at / n, offset = at % n, count = std::min(n - offset, share.end - at);
            std::copy_n(source(static_cast<int>(m)) + offset, count, y + at);
            at += count;
          }
          break;
        }
      }
    });
  }
}

}  // namespace popart::runtime
