#include "exchange/gather_layout.hpp"

#include <unistd.h>

#include <climits>
#include <sstream>

#include <popart/error.hpp>

namespace popart::exchange {
namespace {

std::string hostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, HOST_NAME_MAX) == 0 ? name : "";
}

[[noreturn]] void throwOutOfStep(const std::string &found, const std::string &expected) {
  throw error(
      "replicas in several processes: got {}, expected {}. Start the program with poprun or mpirun, with as many "
      "processes as replicas in all / replicas in each; of a session these are globalReplicationFactor and "
      "replicatedGraphCount, and globalReplicaOffset is the number of the first replica in a process, as "
      "popdist.popart.configureSessionOptions sets it. If it was started so, the MPI library is another one than "
      "mpirun's: set POPART_MPI_LIBRARY",
      found, expected);
}

}  // namespace

ReplicaLayout gatherLayout(Transport &transport, const OwnReplicas &own, std::chrono::milliseconds timeout) {
  const std::string text =
      formatText("{} {} {} {}", {toText(own.all), toText(own.locals), toText(own.firstLocal), hostName()});
  std::vector<int> counts;
  std::vector<std::string> hosts;
  int first = 0;
  for (const std::string &other : transport.gather(text, timeout)) {
    const std::string process = toText(counts.size());
    OwnReplicas its;
    std::istringstream in(other);
    in >> its.all >> its.locals >> its.firstLocal >> hosts.emplace_back();
    if (its.all != own.all)
      throwOutOfStep(formatText("{} replicas in all for process {}", {toText(its.all), process}),
                     formatText("{} as for process {}", {toText(own.all), toText(transport.process())}));
    if (its.firstLocal != first)
      throwOutOfStep(formatText("replica {} as the first one of process {}", {toText(its.firstLocal), process}),
                     toText(first));
    first += its.locals;
    counts.push_back(its.locals);
  }
  if (first != own.all)
    throwOutOfStep(formatText("{} replicas in {} processes", {toText(first), toText(counts.size())}), toText(own.all));
  return {counts, hosts};
}

}  // namespace popart::exchange
