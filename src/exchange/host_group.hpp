// HostGroup: processes of a job that give each other bytes of their hosts, for collective operations of programs, apart
// from those of replicas. A transport of its own carries them. Groups of some processes share it.
//
//   const std::shared_ptr<HostGroup> all = joinHostGroup({.all = 4, .locals = 2, .firstLocal = 2}, settings);
//   const std::vector<std::string> texts = all->exchange(parts, "allGather");  // all members
//
// Operations of one network run one after the other, in the order in which threads call them.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/gather_layout.hpp"
#include "exchange/load_mpi.hpp"
#include "exchange/transport.hpp"

namespace popart::exchange {

struct HostGroupSettings {
  // For which an operation waits for others before it warns, and before it fails.
  std::chrono::milliseconds warnAfter{60'000}, timeout{1'800'000};
  // Called about twenty times a second by a thread that waits. What it throws ends the wait, and communication with it.
  std::function<void()> look = {};
};

class HostGroup {
 public:
  // All processes of a transport. All of them call it. Throws as gatherLayout.
  HostGroup(std::unique_ptr<Transport> transport, const OwnReplicas &own, const HostGroupSettings &settings);
  ~HostGroup();
  HostGroup(const HostGroup &) = delete;
  HostGroup &operator=(const HostGroup &) = delete;

  int member() const { return member_; }  // the caller's number in the group
  int members() const { return static_cast<int>(processes_.size()); }
  // "process 3 on host 'node1' (replicas 6 to 7)"
  std::string describe(int member) const;

  // Each member gives a text to each member, by member, and gets what each gave it. `what` is the operation, for
  // messages. All members call it, in the same order of all operations that a pair of processes has in common. Throws
  // popart::error for another number of texts than of members. Throws runtime_error, and ends communication of all
  // groups in all processes, when members do not come within the timeout, which it names; when another one is in an
  // operation of another group; and when communication has ended, with the process and reason.
  std::vector<std::string> exchange(std::span<const std::string_view> texts, std::string_view what);

  // A group of some members, ascending; null where the caller is none of them. No messages are sent. Throws
  // popart::error for numbers that are not ascending or no members.
  std::unique_ptr<HostGroup> subset(std::span<const int> members) const;

 private:
  class Links;
  HostGroup(std::shared_ptr<Links> links, std::vector<int> processes);

  std::shared_ptr<Links> links_;
  const std::vector<int> processes_;  // by member
  const int member_;
};

// All processes of the job on MPI, which is joined if nobody has. All of them call it. Throws as joinMpi and HostGroup.
std::unique_ptr<HostGroup> joinHostGroup(const MpiSettings &mpi, const OwnReplicas &own,
                                         const HostGroupSettings &settings);

}  // namespace popart::exchange
