// The position of this process in its job, as the variables of its launcher say, and groups of instances of the job.
//
// An instance is one process. Launchers are tried in this order, and the first one that has set its variables is used:
// poprun (POPDIST_*), Open MPI's mpirun (OMPI_COMM_WORLD_*, several processes), Slurm's srun --mpi=pmix (SLURM_*,
// several tasks). With the last two, each process has POPDIST_NUM_LOCAL_REPLICAS replicas. Each call reads the
// variables, and an empty one counts as unset. All functions that read them throw std::invalid_argument for a variable
// that is not a number or contradicts another.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <type_traits>
#include <vector>

namespace popdist {

class Group;

// Whether a launcher started this process as part of a job: poprun, or another one with several processes.
bool isPopdistEnvSet();

// Replicas of all instances, of this instance, and the global number of its first one; 1, 1 and 0 in a plain process.
int getNumTotalReplicas();
int getNumLocalReplicas();
int getReplicaIndexOffset();
// IPUs of each replica; 1 unless the job has another number.
int getNumIpusPerReplica();
// False if the launcher was given another number; true if it was given none.
bool checkNumIpusPerReplica(int numIpusPerReplica);
// Number of instances, and number of this instance. Throw std::runtime_error if instances have different numbers of
// replicas.
int getNumInstances();
int getInstanceIndex();
// Number of this instance among those of its host, from 0.
int getLocalInstanceIndex();
// Number of a device for the replicas of this instance (DeviceManager::acquireDeviceById): a free one, else one in use.
// ipusPerReplica 0: as in the environment. Throws std::invalid_argument for a negative number; popart::error if the
// number of IPUs of all local replicas is not a power of two; std::runtime_error if no device has that many.
int getDeviceId(int ipusPerReplica = 0);

// Number of the communicator that collectives use by default: all instances, unless it was registered.
constexpr uint32_t defaultCommunicatorId() { return 0; }
// Registers a communicator of some instances, with a number for collectives; replaces an existing one. All instances
// must call it, with the same arguments. Throws std::invalid_argument if there are no such instances; and as init.
void registerCommunicator(const std::set<uint32_t> &participants, uint32_t communicatorId = defaultCommunicatorId());

// While it exists, collectives of this thread are restricted to some of the instances. All instances must create it.
// Throws std::invalid_argument if there are no such instances, or, inside another scope, if they are not among its
// instances; and as init.
class InstanceScope {
 public:
  explicit InstanceScope(const std::vector<int64_t> &instances);  // their numbers
  ~InstanceScope();
  InstanceScope(const InstanceScope &) = delete;
  InstanceScope &operator=(const InstanceScope &) = delete;
  bool isMember() const { return group_ != nullptr; }  // whether this instance is one of them

 private:
  const std::shared_ptr<Group> outer_, group_;
};

// Calls a function on some instances; collectives inside are restricted to them. All instances must call it. Returns
// the function's result, and nothing on other instances. Throws as InstanceScope, and the exceptions of the function.
template <class F, class... Args>
auto execute_on_instances(const std::set<uint32_t> &instances, F &&function, Args &&...args) {
  using Result = std::invoke_result_t<F, Args...>;
  const InstanceScope scope(std::vector<int64_t>(instances.begin(), instances.end()));
  if constexpr (std::is_void_v<Result>) {
    if (scope.isMember()) std::invoke(std::forward<F>(function), std::forward<Args>(args)...);
  } else {
    std::optional<std::decay_t<Result>> result;
    if (scope.isMember()) result.emplace(std::invoke(std::forward<F>(function), std::forward<Args>(args)...));
    return result;
  }
}

}  // namespace popdist
