// HostGroup: processes of a job that exchange bytes of their hosts, for collective operations of programs. They are
// separate from collectives of replicas and use a separate transport, which groups of some processes share.
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
  // Time that an operation waits for others before it warns, and before it fails.
  std::chrono::milliseconds warnAfter{60'000}, timeout{1'800'000};
  // A waiting thread calls it about twenty times a second. An exception from it ends the wait, and communication with
  // it.
  std::function<void()> look = {};
};

class HostGroup {
 public:
  // All processes of a transport. All of them must call it. Throws as gatherLayout.
  HostGroup(std::unique_ptr<Transport> transport, const OwnReplicas &own, const HostGroupSettings &settings);
  ~HostGroup();
  HostGroup(const HostGroup &) = delete;
  HostGroup &operator=(const HostGroup &) = delete;

  int member() const { return member_; }  // number of this process in the group
  int members() const { return static_cast<int>(processes_.size()); }
  // "process 3 on host 'node1' (replicas 6 to 7)"
  std::string describe(int member) const;

  // Each member passes a text for each member, by member, and gets the texts that the members passed for it. `what` is
  // the operation, for messages. All members must call it; two processes must call the operations that they have in
  // common in the same order. Throws popart::error if the number of texts is not the number of members. Throws
  // runtime_error, and ends communication of all groups in all processes, if members do not call it within the timeout
  // (names them), if a member is in an operation of another group, and if communication has ended (with the process and
  // reason).
  std::vector<std::string> exchange(std::span<const std::string_view> texts, std::string_view what);

  // A group of some members, in ascending order; null if this process is not one of them. Sends no messages. Throws
  // popart::error for numbers that are not ascending or not members.
  std::unique_ptr<HostGroup> subset(std::span<const int> members) const;

 private:
  class Links;
  HostGroup(std::shared_ptr<Links> links, std::vector<int> processes);

  std::shared_ptr<Links> links_;
  const std::vector<int> processes_;  // by member
  const int member_;
};

// All processes of the job on MPI; joins it if that has not happened. All of them must call it. Throws as joinMpi and
// HostGroup.
std::unique_ptr<HostGroup> joinHostGroup(const MpiSettings &mpi, const OwnReplicas &own,
                                         const HostGroupSettings &settings);

}  // namespace popart::exchange
