// Collectives of groups whose members are in several processes of one host, in memory that these processes share
// (exchange/segments.hpp). A process copies the operands of its members into its segment and counts that it has. When
// all processes of the group have, each of them joins what its own members get, straight out of the segments of all, by
// the arithmetic and in the order of replicas of one process (collective_work.hpp). No message is sent, and no other
// thread takes part.
//
// A place in a segment is used again and again. Its owner writes to it when all processes have taken what was there
// before. Collectives of one group that publish and wait in one step have one place together.
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
  // Of a collective, by its number, for a group that can share.
  int64_t at(int collective, int group) const { return offsets_.at(uses_.at({collective, group})); }

 private:
  using Key = std::array<int64_t, 4>;
  std::map<std::pair<int, int>, Key> uses_;  // by collective and group
  std::map<Key, int64_t> offsets_;           // of places
  int64_t bytes_ = 0;
};

// One collective of one group, for the members of one process.
class SharedGroup {
 public:
  // Where a process of the group publishes.
  struct Published {
    exchange::MemberRange members;
    const std::byte *place;
  };
  // `collective`: its number, below 2^20. `all`: in the order of members. `own`: the place of this process. `uses`: how
  // often it was used, which all collectives in one place have together.
  SharedGroup(const executable::CollectiveSpec &spec, int collective, std::span<const Published> all, std::byte *own,
              uint64_t &uses);

  // The process whose members have not taken what was published in this place before; -1: none.
  int occupant() const noexcept;
  // Publishes the operands of the members here, which stay as they are until `leave`. Without an occupant.
  void begin(std::span<const PublishedOperands> members) noexcept;
  // The process that has not published yet, and the one that published for another collective; -1: none.
  struct Missing {
    int late = -1, astray = -1;
  };
  Missing missing() const noexcept;
  // The members here have their results.
  void leave() noexcept;

  const CollectiveWork &work() const { return work_; }
  std::span<const PublishedOperands> sources() const { return sources_; }

 private:
  struct Counters;
  static const Counters &countersOf(const Published &one);
  Counters &own() const;

  const executable::CollectiveSpec spec_;
  const uint64_t collective_;
  std::vector<Published> others_;
  const exchange::MemberRange members_;  // of this process
  std::byte *const own_;
  uint64_t &uses_;
  std::vector<int64_t> begins_;             // by operand: of the results of this process, in elements
  std::vector<PublishedOperands> sources_;  // by member
  CollectiveWork work_;
};

}  // namespace popart::runtime
