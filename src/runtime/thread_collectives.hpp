// ThreadCollectives: replicas that are threads of this process. They meet in memory: each member publishes the
// addresses of its operands, and whoever comes first then works for all.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <popart/replicagrouping.hpp>

#include "runtime/collective_work.hpp"

namespace popart::runtime {

class ThreadCollectives final : public executable::Collectives {
 public:
  // `spin`: whether waiting replicas poll for a while before they sleep; false when there are more threads than cores.
  ThreadCollectives(int replicas, bool spin);

  int replicas() const noexcept override { return replicas_; }
  void add(const executable::CollectiveSpec &spec) override;
  bool publish(int replica, const executable::CollectiveSpec &spec, const void *const *in,
               void *const *out) noexcept override;
  bool meet(int replica, const executable::CollectiveSpec &spec) noexcept override;
  void work(int replica, const executable::CollectiveSpec &spec) noexcept override;
  void end(int replica, const executable::CollectiveSpec &spec) noexcept override;
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
  // The members of one group, in one collective.
  struct alignas(64) Site {
    std::vector<PublishedOperands> operands;  // by member
    std::vector<uint32_t> rounds;             // by member: how often it has met here
    int published = 0, waiting = 0;           // members, in the round that is not open yet; under lock_
    std::atomic<uint32_t> opened{0};          // rounds in which all members have published
    std::atomic<int> taken{0}, done{0};       // pieces, in the round that was opened last
  };
  // One collective of the program, wherever it runs.
  struct Meeting {
    Meeting(const executable::CollectiveSpec &spec, int replicas);
    Site &siteOf(int replica) const { return sites[grouping.getGroupAt(static_cast<unsigned>(replica))]; }
    size_t memberAt(int replica) const { return grouping.getIndexInGroupAt(static_cast<unsigned>(replica)); }

    ReplicaGrouping grouping;
    std::unique_ptr<CollectiveWork> work;  // of the spec that is met, not of the one that is only published
    std::unique_ptr<Site[]> sites;         // by group
  };

  Meeting &meetingOf(const executable::CollectiveSpec &spec) const noexcept;
  template <class Visit>
  void forEachSite(Visit visit);
  Problem whyNobodyComes();
  void stop(Problem problem) noexcept;

  const int replicas_;
  const bool spin_;
  std::vector<std::unique_ptr<Meeting>> meetings_;
  std::unordered_map<const executable::CollectiveSpec *, Meeting *> bySpec_;
  std::map<int64_t, Meeting *> byChannel_;
  std::mutex lock_;  // of who is where: published, waiting, idle_, stopping
  std::atomic<Problem> problem_{Problem::None};
  int idle_ = 0;  // replicas that wait in a meeting or have ended their run
};

}  // namespace popart::runtime
