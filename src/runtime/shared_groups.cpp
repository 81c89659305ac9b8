// See shared_groups.hpp. A place begins with two counters of its owner: how often it has published, with the number of
// the collective, and how often its members have taken what all have published. A use is complete when all processes
// have published it, and the place is free when all have left it. So a process is at most one use ahead of another one.
#include "runtime/shared_groups.hpp"

#include <algorithm>
#include <cstring>

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

// f(member, operand, offset) for the operands of `members` members in a place. Bytes of the place.
template <class F>
int64_t forOperands(const CollectiveSpec &spec, int members, const F &f) {
  int64_t bytes = kLine;  // counters
  for (int m = 0; m < members; ++m)
    for (size_t o = 0; o < spec.elements.size(); ++o) {
      f(m, o, bytes);
      bytes += lines(spec.elements[o] * widthOf(spec));
    }
  return bytes;
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
  std::atomic<uint64_t> left;       // uses
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
      int64_t &bytes = offsets_[key];
      bytes = std::max(bytes, forOperands(spec, count, [](int, size_t, int64_t) {}));
    }
  }
  for (auto &[key, offset] : offsets_) bytes_ += std::exchange(offset, bytes_);
}

SharedGroup::SharedGroup(const CollectiveSpec &spec, int collective, std::span<const Published> all, std::byte *own,
                         uint64_t &uses)
    : spec_(spec),
      collective_(static_cast<uint64_t>(collective)),
      members_(std::ranges::find(all, own, &Published::place)->members),
      own_(own),
      uses_(uses),
      sources_(static_cast<size_t>(spec.groupSize)),
      work_(workOf(spec, members_), members_.first) {
  for (size_t o = 0; o < spec.elements.size(); ++o)
    begins_.push_back(spec.kind == CollectiveKind::Scatter ? spec.resultElements[o] * members_.first : 0);
  for (const Published &one : all) {
    if (one.place != own) others_.push_back(one);
    forOperands(spec, one.members.count, [&](int m, size_t o, int64_t offset) {
      PublishedOperands &source = sources_[static_cast<size_t>(one.members.first + m)];
      source.in.resize(spec.elements.size());
      source.in[o] = one.place + offset + begins_[o] * widthOf(spec);
    });
  }
}

const SharedGroup::Counters &SharedGroup::countersOf(const Published &one) {
  return *reinterpret_cast<const Counters *>(one.place);
}
SharedGroup::Counters &SharedGroup::own() const { return *reinterpret_cast<Counters *>(own_); }

int SharedGroup::occupant() const noexcept {
  for (const Published &other : others_)
    if (countersOf(other).left.load(std::memory_order_acquire) < uses_) return other.members.process;
  return -1;
}

// What the members here read of their own operands is where these are: it is in a cache already.
void SharedGroup::begin(std::span<const PublishedOperands> members) noexcept {
  forOperands(spec_, members_.count, [&](int m, size_t o, int64_t offset) {
    const void *operand = members[static_cast<size_t>(m)].in[o];
    if (const int64_t bytes = spec_.elements[o] * widthOf(spec_))
      std::memcpy(own_ + offset, operand, static_cast<size_t>(bytes));
    sources_[static_cast<size_t>(members_.first + m)].in[o] =
        static_cast<const std::byte *>(operand) + begins_[o] * widthOf(spec_);
  });
  own().published.store(++uses_ << kNumberBits | collective_, std::memory_order_release);
}

SharedGroup::Missing SharedGroup::missing() const noexcept {
  Missing missing;
  for (const Published &other : others_) {
    const uint64_t published = countersOf(other).published.load(std::memory_order_acquire);
    if (published >> kNumberBits < uses_)
      missing.late = other.members.process;
    else if (published >> kNumberBits == uses_ && (published & ((1u << kNumberBits) - 1)) != collective_)
      missing.astray = other.members.process;
  }
  return missing;
}

void SharedGroup::leave() noexcept { own().left.store(uses_, std::memory_order_release); }

}  // namespace popart::runtime
