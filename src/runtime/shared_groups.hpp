// Collectives of groups whose members are in several processes of one host, in memory that these processes share
// (exchange/segments.hpp). A process copies the operands of its members into its segment and counts that it has. When
// all processes of the group have, each of them joins what its own members get, straight out of the segments of all, by
// the arithmetic and in the order of replicas of one process (collective_work.hpp). No message is sent, and no other
// thread takes part.
//
// A place in a segment is used again and again. Its owner writes to it when all processes have taken what was there
// before. Collectives of one group that publish and wait in one step have one place together, with two areas in turn:
// when all have published a use, all have left the one before, whose area is next. So they never wait for the place.
//
// Each process reads the operands of all members, so groups of many members go through messages: a sum of N bytes over
// m members reads m N bytes, and by messages between P processes about 6 N (docs/decisions/0104-memory-of-a-host.md).
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exchange/layout.hpp"
#include "executable/collectives.hpp"
#include "runtime/collective_work.hpp"
#include "runtime/thread_collectives.hpp"

namespace popart::runtime {

// Whether the group can exchange in shared memory: its members are in several processes of one host, and are few.
bool canShare(const executable::CollectiveSpec &spec, const exchange::ReplicaLayout &layout, int group);

// Where the members of one process publish in its segment. All processes compute the same of each.
class SharedPlaces {
 public:
  // Of all collectives of the program that wait, in its order. Throws as exchange::membersOf.
  SharedPlaces(std::span<const executable::CollectiveSpec *const> collectives, const exchange::ReplicaLayout &layout,
               int process);
  int64_t bytes() const { return bytes_; }
  struct Place {
    int64_t offset, areaBytes;
  };
  // Of a collective, by its number, for a group that can share.
  const Place &at(int collective, int group) const { return places_.at(uses_.at({collective, group})); }

 private:
  using Key = std::array<int64_t, 4>;
  std::map<std::pair<int, int>, Key> uses_;  // by collective and group
  std::map<Key, Place> places_;
  int64_t bytes_ = 0;
};

// One collective of one group, for the members of one process.
class SharedGroup {
 public:
  // Where a process of the group publishes: counters, and one or two areas.
  struct Published {
    exchange::MemberRange members;
    const std::byte *place;
    int64_t areaBytes;
  };
  using Wait = GroupAcross::Wait;
  // `collective`: its number, below 2^20. `all`: in the order of members. `own`: the place of this process. `uses`: how
  // often it was used, which all collectives in one place have together.
  SharedGroup(const executable::CollectiveSpec &spec, int collective, std::span<const Published> all, std::byte *own,
              uint64_t &uses);

  // A process that is waited for; -1: none.
  int late(Wait what) const noexcept;
  // One that published for another collective; -1: none.
  int astray() const noexcept;
  // Sleeps while the same process is late, at most for `most`; it may return earlier. Returns false, at once, if the
  // system cannot do this.
  bool sleep(Wait what, std::chrono::nanoseconds most) const noexcept;
  // Wakes those of all processes who sleep in this place. They may miss it while they fall asleep.
  void wakeAll() const noexcept;
  // Publishes the operands of the members here, which stay as they are until `leave`. Nobody is late for the place.
  void begin(std::span<const PublishedOperands> members) noexcept;
  // The members here have their results.
  void leave() noexcept;

  const CollectiveWork &work() const { return work_; }
  std::span<const PublishedOperands> sources() const { return sources_[area()]; }

 private:
  struct Counters;
  static const Counters &countersOf(const Published &one);
  Counters &own() const;
  size_t area() const { return static_cast<size_t>(uses_) % sources_.size(); }
  const Published *lateOne(Wait what) const noexcept;
  void ring() noexcept;

  const executable::CollectiveSpec spec_;
  const uint64_t collective_;
  std::vector<Published> others_;
  const Published here_;  // of this process
  std::byte *const own_;
  uint64_t &uses_;
  std::vector<int64_t> begins_;                          // by operand: of the results of this process, in elements
  std::vector<std::vector<PublishedOperands>> sources_;  // by area and member
  CollectiveWork work_;
};

}  // namespace popart::runtime
