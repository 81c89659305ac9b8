// Where the replicas of a job are: which process drives a replica, and on which host the process runs. Process p drives
// the consecutive replicas [first(p), first(p) + count(p)). All numbers count from 0 over the whole job. Only this
// layout grows with the number of all replicas; other tables of a process do not.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <popart/commgroup.hpp>

namespace popart::exchange {

class ReplicaLayout {
 public:
  // By process: the number of its replicas, and the name of its host. Throws popart::error if there is no process, the
  // two differ in size, or a process has no replica.
  ReplicaLayout(std::span<const int> counts, std::span<const std::string> hosts);

  int processes() const { return static_cast<int>(hosts_.size()); }
  int replicas() const { return replicas_; }
  int first(int process) const;
  int count(int process) const { return first(process + 1) - first(process); }
  bool isUniform() const { return firsts_.empty(); }  // whether all processes have the same number of replicas
  int processOf(int replica) const;
  int localNumber(int replica) const { return replica - first(processOf(replica)); }  // within its process

  int hosts() const { return static_cast<int>(nameEnds_.size()); }  // numbered in the order of their first process
  int hostOf(int process) const { return hosts_[static_cast<size_t>(process)]; }
  std::string_view hostName(int process) const;
  int processesOn(int host) const;
  int numberOnHost(int process) const;  // among the processes of its host

  // "process 3 on host 'node1' (replicas 6 to 7)"
  std::string describe(int process) const;
  // Each of them once; of more than 8, the number of the others: "…, … and 3 more".
  std::string describe(std::vector<int> processes) const;
  int64_t bytes() const;  // memory of the layout

 private:
  int replicas_ = 0;
  int each_ = 0;               // replicas per process, if all have the same number
  std::vector<int> firsts_;    // by process, with the end; empty if all have the same number
  std::vector<int> hosts_;     // by process
  std::string names_;          // of hosts, concatenated
  std::vector<int> nameEnds_;  // by host: end in names_
};

// The members of one group in one process: those with the numbers [first, first + count) in the group. They are
// consecutive, because the replicas of a process are, and the members of a group have a constant stride.
struct MemberRange {
  int process;
  int first, count;
  bool operator==(const MemberRange &) const = default;
};

// For all processes with members, in the order of members. Throws popart::error if the grouping has another number of
// replicas than the layout.
std::vector<MemberRange> membersOf(const ReplicaLayout &layout, const ReplicaGrouping &grouping, int group);

// The groups with members in the process, in ascending order. Throws as membersOf.
std::vector<int> groupsOf(const ReplicaLayout &layout, const ReplicaGrouping &grouping, int process);

}  // namespace popart::exchange
