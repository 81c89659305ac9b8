// See shared_groups.hpp. A place begins with two counters of its owner: how often it has published, with the number of
// the collective, and how often its members have taken what all have published. A use is complete when all processes
// have published it, and an area is free when all have left it. So a process is at most one use ahead of another one.
//
// A process that sleeps does so on `rings` of the one that it waits for, which changes after each counter that others
// wait for. Why no wake-up is lost: the sleeper (1) reads `rings`, (2) reads the counter, (3) adds itself to
// `sleepers`, (4) sleeps if `rings` is as in (1). The other one (a) sets the counter, (b) changes `rings`, (c) reads
// `sleepers`, and wakes if there are any. If (b) comes before (1), the sleeper sees the counter. Otherwise, if (b)
// comes before (4), it does not sleep. Otherwise (3) comes before (4), (4) before (b), (b) before (c), all sequentially
// consistent: (c) sees the sleeper, and the kernel orders sleeping and waking. A process that is killed between (a) and
// (c) wakes nobody: therefore sleeps are short.
#include "runtime/shared_groups.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "base/threads/shared_sleep.hpp"
#include "exchange/schedule.hpp"

namespace popart::runtime {
namespace {

using exchange::MemberRange;
using executable::CollectiveKind;
using executable::CollectiveSpec;

constexpr int kMostMembers = 8;
constexpr int64_t kLine = 64;
constexpr int kNumberBits = 20;  // of a collective

int64_t widthOf(const CollectiveSpec &spec) { return getDataTypeInfo(spec.type).nbytes; }

int64_t lines(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

size_t areasOf(const CollectiveSpec &spec) { return spec.channel < 0 ? 2 : 1; }

// f(member, operand, offset) for the operands of `members` members in an area. Bytes of the area.
template <class F>
int64_t forOperands(const CollectiveSpec &spec, int members, const F &f) {
  int64_t bytes = 0;
  for (int m = 0; m < members; ++m)
    for (size_t o = 0; o < spec.elements.size(); ++o) {
      f(m, o, bytes);
      bytes += lines(spec.elements[o] * widthOf(spec));
    }
  return bytes;
}

// Copies to memory that begins with a cache line, and that other processes have read: their processors have its lines.
// A store to such a line fetches it first, so that a long copy takes four times as long as one by stores that go past
// the caches (0104). Short operands stay in the caches.
void copyForOthers(std::byte *to, const void *operand, int64_t bytes) noexcept {
  const auto *from = static_cast<const std::byte *>(operand);
#if defined(__x86_64__)
  constexpr int64_t kShort = 64 << 10, kVector = sizeof(__m128i);
  if (bytes >= kShort) {
    for (; bytes >= kVector; bytes -= kVector, to += kVector, from += kVector)
      _mm_stream_si128(reinterpret_cast<__m128i *>(to), _mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
    _mm_sfence();  // they are not ordered before the counter otherwise
  }
#endif
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// What the members of one process get. A chunk of each is left of the operands of a scatter.
CollectiveSpec workOf(CollectiveSpec spec, const MemberRange &members) {
  for (size_t o = 0; o < spec.elements.size() && spec.kind == CollectiveKind::Scatter; ++o) {
    const int64_t chunk = spec.resultElements[o];
    spec.elements[o] = std::clamp<int64_t>(spec.elements[o] - chunk * members.first, 0, chunk * members.count);
  }
  return spec;
}

}  // namespace

struct alignas(kLine) SharedGroup::Counters {
  std::atomic<uint64_t> published;  // uses << kNumberBits | collective
  std::atomic<uint64_t> left;       // uses, of a place with one area
  std::atomic<uint32_t> rings;      // changes after the counters above
  std::atomic<uint32_t> sleepers;   // threads of the owner that sleep on `rings` of others
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

bool canShare(const CollectiveSpec &spec, const exchange::ReplicaLayout &layout, int group) {
  if (spec.groupSize > kMostMembers || (spec.kind == CollectiveKind::Scatter && spec.join == executable::Join::Keep))
    return false;
  const auto members = exchange::membersOf(layout, exchange::groupingOf(exchange::exchangeSpec(spec), layout), group);
  const int host = layout.hostOf(members[0].process);
  return members.size() > 1 &&
         std::ranges::all_of(members, [&](const MemberRange &m) { return layout.hostOf(m.process) == host; });
}

SharedPlaces::SharedPlaces(std::span<const CollectiveSpec *const> collectives, const exchange::ReplicaLayout &layout,
                           int process) {
  std::map<Key, size_t> areas;
  for (size_t c = 0; c < collectives.size(); ++c) {
    const CollectiveSpec &spec = *collectives[c];
    const ReplicaGrouping grouping = exchange::groupingOf(exchange::exchangeSpec(spec), layout);
    for (const int group : exchange::groupsOf(layout, grouping, process)) {
      if (!canShare(spec, layout, group)) continue;
      const auto members = exchange::membersOf(layout, grouping, group);
      const int count = std::ranges::find(members, process, &MemberRange::process)->count;
      const Key key = spec.channel < 0 ? Key{spec.groupSize, spec.stride, group, -1}
                                       : Key{spec.groupSize, spec.stride, group, static_cast<int64_t>(c)};
      uses_[{static_cast<int>(c), group}] = key;
      areas[key] = areasOf(spec);
      int64_t &bytes = places_[key].areaBytes;
      bytes = std::max(bytes, forOperands(spec, count, [](int, size_t, int64_t) {}));
    }
  }
  for (auto &[key, place] : places_) {
    place.offset = bytes_;
    bytes_ += kLine + static_cast<int64_t>(areas[key]) * place.areaBytes;
  }
}

SharedGroup::SharedGroup(const CollectiveSpec &spec, int collective, std::span<const Published> all, std::byte *own,
                         uint64_t &uses)
    : spec_(spec),
      collective_(static_cast<uint64_t>(collective)),
      here_(*std::ranges::find(all, own, &Published::place)),
      own_(own),
      uses_(uses),
      sources_(areasOf(spec), std::vector<PublishedOperands>(static_cast<size_t>(spec.groupSize))),
      work_(workOf(spec, here_.members), here_.members.first) {
  for (size_t o = 0; o < spec.elements.size(); ++o)
    begins_.push_back(spec.kind == CollectiveKind::Scatter ? spec.resultElements[o] * here_.members.first : 0);
  for (const Published &one : all) {
    if (one.place != own) others_.push_back(one);
    const std::byte *area = one.place + kLine;
    for (std::vector<PublishedOperands> &sources : sources_) {
      forOperands(spec, one.members.count, [&](int m, size_t o, int64_t offset) {
        PublishedOperands &source = sources[static_cast<size_t>(one.members.first + m)];
        source.in.resize(spec.elements.size());
        source.in[o] = area + offset + begins_[o] * widthOf(spec);
      });
      area += one.areaBytes;
    }
  }
}

const SharedGroup::Counters &SharedGroup::countersOf(const Published &one) {
  return *reinterpret_cast<const Counters *>(one.place);
}
SharedGroup::Counters &SharedGroup::own() const { return *reinterpret_cast<Counters *>(own_); }

const SharedGroup::Published *SharedGroup::lateOne(Wait what) const noexcept {
  if (what == Wait::Place && sources_.size() > 1) return nullptr;
  for (const Published &other : others_) {
    const Counters &its = countersOf(other);
    const uint64_t uses = what == Wait::Place ? its.left.load(std::memory_order_acquire)
                                              : its.published.load(std::memory_order_acquire) >> kNumberBits;
    if (uses < uses_) return &other;
  }
  return nullptr;
}

int SharedGroup::late(Wait what) const noexcept {
  const Published *const other = lateOne(what);
  return other ? other->members.process : -1;
}

int SharedGroup::astray() const noexcept {
  for (const Published &other : others_) {
    const uint64_t published = countersOf(other).published.load(std::memory_order_acquire);
    if (published >> kNumberBits == uses_ && (published & ((1u << kNumberBits) - 1)) != collective_)
      return other.members.process;
  }
  return -1;
}

bool SharedGroup::sleep(Wait what, std::chrono::nanoseconds most) const noexcept {
  const Published *const other = lateOne(what);
  if (!other) return true;
  const std::atomic<uint32_t> &rings = countersOf(*other).rings;
  const uint32_t heard = rings.load(std::memory_order_acquire);
  if (lateOne(what) != other) return true;
  own().sleepers.fetch_add(1);
  const bool canSleep = rings.load() != heard || sleepOnShared(rings, heard, most);
  own().sleepers.fetch_sub(1);
  return canSleep;
}

void SharedGroup::wakeAll() const noexcept {
  wakeShared(own().rings);
  for (const Published &other : others_) wakeShared(countersOf(other).rings);
}

void SharedGroup::ring() noexcept {
  own().rings.fetch_add(1);
  if (std::ranges::any_of(others_, [](const Published &other) { return countersOf(other).sleepers.load() > 0; }))
    wakeShared(own().rings);
}

// What the members here read of their own operands is where these are: it is in a cache already.
void SharedGroup::begin(std::span<const PublishedOperands> members) noexcept {
  ++uses_;
  std::byte *const to = own_ + kLine + static_cast<int64_t>(area()) * here_.areaBytes;
  forOperands(spec_, here_.members.count, [&](int m, size_t o, int64_t offset) {
    const void *operand = members[static_cast<size_t>(m)].in[o];
    copyForOthers(to + offset, operand, spec_.elements[o] * widthOf(spec_));
    sources_[area()][static_cast<size_t>(here_.members.first + m)].in[o] =
        static_cast<const std::byte *>(operand) + begins_[o] * widthOf(spec_);
  });
  own().published.store(uses_ << kNumberBits | collective_, std::memory_order_release);
  ring();
}

void SharedGroup::leave() noexcept {
  if (sources_.size() > 1) return;
  own().left.store(uses_, std::memory_order_release);
  ring();
}

}  // namespace popart::runtime
