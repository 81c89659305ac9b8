#include <popdist/collectives.hpp>

#include <popart/error.hpp>

#include "popdist/errors.hpp"
#include "popdist/hosts.hpp"

namespace popdist {
namespace {

using popart::formatText;
using popart::toText;
using popart::executable::Join;

const char *nameOf(Reduction how) {
  switch (how) {
    case Reduction::Sum:
      return "sum";
    case Reduction::Mean:
      return "mean";
    case Reduction::Min:
      return "min";
    case Reduction::Max:
      break;
  }
  return "max";
}

Join joinOf(Reduction how) { return how == Reduction::Min ? Join::Min : how == Reduction::Max ? Join::Max : Join::Add; }

std::string_view textOf(const bytes::Memory &memory) { return {static_cast<const char *>(memory.data), memory.size}; }

// The members, when all of them make the same call.
std::shared_ptr<Group> agreed(int64_t communicator, const std::string &call, const bytes::Memory &values,
                              const std::string &name) {
  const std::shared_ptr<Group> group = Hosts::current().group(communicator);
  group->agree(call + (name.empty() ? "" : " named '" + name + "'") + " of " + values.what);
  return group;
}

std::shared_ptr<Group> entered(const std::vector<int64_t> &instances) {
  return Hosts::current().group(defaultCommunicatorId())->subset(instances, "execute_on_instances: instances");
}

}  // namespace

namespace bytes {

int members(int64_t communicator) { return Hosts::current().group(communicator)->members(); }

std::string allReduce(const Memory &values, popart::DataType type, Reduction how, const std::string &name,
                      int64_t communicator) {
  const std::string call = formatText("allReduce '{}'", {nameOf(how)});
  const std::shared_ptr<Group> group = agreed(communicator, call, values, name);
  const std::optional<popart::DataType> joined = joinedType(type, joinOf(how));
  if (!joined)
    throw type_error(
        formatText("allReduce: got {} for '{}', expected numbers that can be joined so. {}",
                   {type == popart::DataType::BOOL ? "booleans" : values.what, nameOf(how),
                    type == popart::DataType::BOOL ? "Use 'min' or 'max', or convert them." : "Convert them."}));
  return group->reduce(textOf(values), *joined, joinOf(how), call);
}

std::vector<std::string> allGather(const Memory &values, const std::string &name, int64_t communicator) {
  return agreed(communicator, "allGather", values, name)->gather(textOf(values), "allGather");
}

std::string broadcast(const Memory &values, int64_t root, const std::string &name, int64_t communicator) {
  const std::string call = formatText("broadcast from {}", {toText(root)});
  const std::shared_ptr<Group> group = agreed(communicator, call, values, name);
  if (root < 0 || root >= group->members())
    throw std::invalid_argument(formatText("broadcast: root: got {}, expected a member of 0 to {}.",
                                           {toText(root), toText(group->members() - 1)}));
  return group->broadcast(textOf(values), static_cast<int>(root), call);
}

}  // namespace bytes

void synchronize(uint32_t communicator) { Hosts::current().group(communicator)->agree("synchronize"); }

void registerCommunicator(const std::set<uint32_t> &participants, uint32_t communicatorId) {
  registerParticipants(std::vector<int64_t>(participants.begin(), participants.end()), communicatorId);
}

void registerParticipants(const std::vector<int64_t> &participants, int64_t communicatorId) {
  Hosts &hosts = Hosts::current();
  hosts.name(communicatorId, hosts.world()->subset(participants, "registerCommunicator: participants"));
}

InstanceScope::InstanceScope(const std::vector<int64_t> &instances)
    : outer_(scopeOfThread()), group_(entered(instances)) {
  if (group_) scopeOfThread() = group_;
}

InstanceScope::~InstanceScope() {
  if (group_) scopeOfThread() = outer_;
}

}  // namespace popdist
