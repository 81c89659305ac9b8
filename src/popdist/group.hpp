// Instances that communicate, numbered from 0 as members: collectives on bytes, by one operation in which each member
// gives bytes to each other.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/host_group.hpp"
#include "executable/collectives.hpp"

namespace popdist {

// The type by which elements are added or compared: a sum of complex numbers is one of twice as many real ones.
// nullopt: they cannot be joined so.
std::optional<popart::DataType> joinedType(popart::DataType type, popart::executable::Join how);

// All members call each function, in the same order. `call` is what the program called, for messages. Throw as
// exchange::HostGroup::exchange.
class Group {
 public:
  // The only instance of a job.
  Group();
  // All instances of a job.
  explicit Group(std::shared_ptr<popart::exchange::HostGroup> hosts);

  int member() const { return hosts_ ? hosts_->member() : 0; }
  int members() const { return static_cast<int>(instances_.size()); }
  // By member, ascending: their numbers in the job.
  const std::vector<int64_t> &instances() const { return instances_; }

  // A group of some instances of this one, in any order; null where this process is none of them. No messages are sent.
  // Throws std::invalid_argument, naming `what`, when there are none, or others.
  std::shared_ptr<Group> subset(std::span<const int64_t> instances, std::string_view what) const;

  // Compares what the members call. Throws std::invalid_argument, the same on all, when one differs.
  void agree(const std::string &call);
  // What each member gave, by member; lengths may differ.
  std::vector<std::string> gather(std::string_view given, std::string_view call);
  // What member `root` gave. The root sends a part to each, and each sends its part to all.
  std::string broadcast(std::string_view given, int root, std::string_view call);
  // The members' elements joined by a balanced binary tree over the members. Each member joins a part and sends it to
  // all. 16-bit elements are joined in float and rounded once. `type` is one that joinedType gives.
  std::string reduce(std::string_view given, popart::DataType type, popart::executable::Join how,
                     std::string_view call);

 private:
  Group(std::shared_ptr<popart::exchange::HostGroup> hosts, std::vector<int64_t> instances);
  std::vector<std::string> exchange(std::span<const std::string_view> parts, std::string_view call);

  const std::shared_ptr<popart::exchange::HostGroup> hosts_;  // null: one process alone
  const std::vector<int64_t> instances_;
};

}  // namespace popdist
