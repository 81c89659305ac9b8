// ThreadCollectives: replicas that are threads of this process. They meet in memory: each member publishes the
// addresses of its operands, and then joins its share of the elements of all members.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include <popart/replicagrouping.hpp>

#include "executable/collectives.hpp"

namespace popart::runtime {

class ThreadCollectives final : public executable::Collectives {
 public:
  // `spin`: whether waiting replicas poll for a while before they sleep; false when there are more threads than cores.
  ThreadCollectives(int replicas, bool spin);

  int replicas() const noexcept override { return replicas_; }
  bool begin(int replica, const executable::CollectiveSpec &spec, const void *const *in,
             void *const *out) noexcept override;
  void work(int replica, const executable::CollectiveSpec &spec, int part, int parts) noexcept override;
  bool end(int replica, const executable::CollectiveSpec &spec) noexcept override;
  const char *problem() const noexcept override;

  // ---- around a run; not inside of a meeting
  // Before replicas start: all of them are to come.
  void start() noexcept;
  // A replica has ended its run. Others that wait for it, now or later, go on with `false`.
  void finish() noexcept;
  // A replica failed: all others go on with `false`.
  void fail() noexcept;

 private:
  enum class Problem : uint8_t { None, ReplicaFailed, DifferentSteps, NobodyComes };
  struct Slot {
    const executable::CollectiveSpec *spec = nullptr;
    const void *const *in = nullptr;
    void *const *out = nullptr;
  };
  // The members of one group, wherever they meet.
  struct alignas(64) Group {
    std::atomic<int> arrived{0};
    std::atomic<uint32_t> meetings{0};  // counts barriers
    std::vector<Slot> slots;            // by member
  };
  // All groups of one stride and size.
  struct Grouping {
    ReplicaGrouping replicas;
    std::unique_ptr<Group[]> groups;

    Group &groupOf(int replica) const { return groups[replicas.getGroupAt(static_cast<unsigned>(replica))]; }
    int size() const { return static_cast<int>(replicas.getGroupSize()); }
  };

  const Grouping &groupingOf(const executable::CollectiveSpec &spec) const noexcept;
  bool meet(Group &group, int size) noexcept;
  void stop(Problem problem) noexcept;

  const int replicas_;
  const bool spin_;
  std::vector<Grouping> groupings_;  // all that there can be
  std::atomic<Problem> problem_{Problem::None};
  std::atomic<int> idle_{0};  // replicas that wait in a meeting or have ended their run
};

}  // namespace popart::runtime
