#include "popdist/job.hpp"

#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>

#include <popart/error.hpp>
#include <popart/logging.hpp>
#include <popdist/context.hpp>

#include "base/environment.hpp"
#include "popdist/hosts.hpp"

namespace popdist {
namespace {

using popart::formatText;
using popart::toText;
using popart::environment::text;

// The whole number that `value` is, if it is one of an int.
std::optional<int> wholeNumber(const std::string &value) {
  int number = 0;
  const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
  return problem == std::errc() && end == value.data() + value.size() ? std::optional(number) : std::nullopt;
}

// The number that an environment variable has.
int numberOf(const char *name, int fallback, int least = 0) {
  const std::optional<std::string> value = text(name);
  if (!value) return fallback;
  const std::optional<int> number = wholeNumber(*value);
  if (!number || *number < least)
    throw std::invalid_argument(formatText("{}: got '{}', expected a whole number of {} or more, at most {}.",
                                           {name, *value, toText(least), toText(std::numeric_limits<int>::max())}));
  return *number;
}

std::optional<int> given(const char *name) { return text(name) ? std::optional(numberOf(name, 0)) : std::nullopt; }

enum class Launcher : uint8_t { None, Poprun, Mpirun, Srun };

std::atomic<bool> warnedOfTorchrun = false;

void warnOfTorchrun(const std::string &worldSize) {
  if (warnedOfTorchrun.exchange(true)) return;
  const std::string warning = formatText(
      "WORLD_SIZE is {}: this process seems to be started by torchrun, which starts no MPI, so for popdist it is a job "
      "of its own. Start the program with poprun or mpirun.",
      {worldSize});
  if (language().warn)
    language().warn(warning);
  else
    popart::logging::warn("{}", warning);
}

Launcher launcher() {
  if (text("POPDIST_NUM_TOTAL_REPLICAS")) return Launcher::Poprun;
  if (text("OMPI_COMM_WORLD_SIZE"))
    return numberOf("OMPI_COMM_WORLD_SIZE", 1, 1) > 1 ? Launcher::Mpirun : Launcher::None;
  // A batch script has the number of tasks, too; only a process that srun started with PMIx has a rank.
  if (text("PMIX_RANK") && text("SLURM_PROCID") && numberOf("SLURM_NTASKS", 1, 1) > 1) return Launcher::Srun;
  const std::optional<std::string> worldSize = text("WORLD_SIZE");
  if (worldSize && wholeNumber(*worldSize).value_or(0) > 1) warnOfTorchrun(*worldSize);
  return Launcher::None;
}

// The job of a launcher that knows processes and no replicas.
Job oneOf(const char *size, const char *rank, const char *localRank) {
  const int local = numberOf("POPDIST_NUM_LOCAL_REPLICAS", 1, 1), instances = numberOf(size, 1, 1);
  const int index = numberOf(rank, 0);
  if (index >= instances)
    throw std::invalid_argument(formatText("{}: got {}, expected a number below {}, which is {}.",
                                           {rank, toText(index), size, toText(instances)}));
  if (local > std::numeric_limits<int>::max() / instances)
    throw std::invalid_argument(
        formatText("POPDIST_NUM_LOCAL_REPLICAS: got {}, expected at most {} replicas in {} processes.",
                   {toText(local), toText(std::numeric_limits<int>::max()), toText(instances)}));
  return {.total = local * instances,
          .local = local,
          .offset = local * index,
          .localInstance = numberOf(localRank, 0),
          .index = index,
          .instances = instances};
}

Job ofPoprun() {
  const Job found{.total = numberOf("POPDIST_NUM_TOTAL_REPLICAS", 1, 1),
                  .local = numberOf("POPDIST_NUM_LOCAL_REPLICAS", 1, 1),
                  .offset = numberOf("POPDIST_REPLICA_INDEX_OFFSET", 0),
                  .isUniform = numberOf("POPDIST_UNIFORM_REPLICAS_PER_INSTANCE", 1) != 0,
                  .localInstance = numberOf("POPDIST_LOCAL_INSTANCE_INDEX", 0),
                  .index = given("POPDIST_INSTANCE_INDEX"),
                  .instances = given("POPDIST_NUM_INSTANCES")};
  const std::string total = toText(found.total), local = toText(found.local), offset = toText(found.offset);
  if (int64_t{found.offset} + found.local > found.total)
    throw std::invalid_argument(
        formatText("POPDIST_REPLICA_INDEX_OFFSET + POPDIST_NUM_LOCAL_REPLICAS: got {} + {}, expected at most "
                   "POPDIST_NUM_TOTAL_REPLICAS, which is {}.",
                   {offset, local, total}));
  if (found.isUniform && (found.total % found.local != 0 || found.offset % found.local != 0))
    throw std::invalid_argument(
        formatText("POPDIST_NUM_TOTAL_REPLICAS, POPDIST_REPLICA_INDEX_OFFSET: got {} and {}, expected multiples of "
                   "POPDIST_NUM_LOCAL_REPLICAS, which is {}. Set POPDIST_UNIFORM_REPLICAS_PER_INSTANCE=0 when "
                   "instances have different numbers of replicas.",
                   {total, offset, local}));
  return found;
}

// The job, if numbers of instances follow from it.
Job uniformJob() {
  const Job found = job();
  if (!found.isUniform)
    throw std::runtime_error(
        "The instances of this job have different numbers of replicas (POPDIST_UNIFORM_REPLICAS_PER_INSTANCE is 0), so "
        "that their number and index do not follow from them. Use getReplicaIndexOffset.");
  return found;
}

}  // namespace

Job job() {
  switch (launcher()) {
    case Launcher::Poprun:
      return ofPoprun();
    case Launcher::Mpirun:
      return oneOf("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK");
    case Launcher::Srun:
      return oneOf("SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID");
    case Launcher::None:
      break;
  }
  return {.index = 0, .instances = 1};
}

int knownInstances(const Job &job) {
  if (job.instances) return *job.instances;
  return job.isUniform ? job.total / job.local : 0;
}

std::chrono::milliseconds timeout() {
  constexpr double kFallback = 1800, kMost = 366.0 * 24 * 3600;
  const std::optional<std::string> value = text("POPDIST_TIMEOUT");
  char *end = nullptr;
  const double seconds = value ? std::strtod(value->c_str(), &end) : kFallback;
  if (value && (*end != '\0' || !(seconds > 0 && seconds <= kMost)))
    throw std::invalid_argument(
        formatText("POPDIST_TIMEOUT: got '{}', expected seconds: a number above 0, at most a year.", {*value}));
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}

void forgetWarnings() { warnedOfTorchrun = false; }

bool isPopdistEnvSet() { return launcher() != Launcher::None; }
int getNumTotalReplicas() { return job().total; }
int getNumLocalReplicas() { return job().local; }
int getReplicaIndexOffset() { return job().offset; }
int getNumIpusPerReplica() { return numberOf("POPDIST_NUM_IPUS_PER_REPLICA", 1, 1); }
bool checkNumIpusPerReplica(int numIpusPerReplica) {
  return numberOf("POPDIST_NUM_IPUS_PER_REPLICA", numIpusPerReplica, 1) == numIpusPerReplica;
}
int getLocalInstanceIndex() { return job().localInstance; }
int getNumInstances() { return knownInstances(uniformJob()); }
int getInstanceIndex() {
  const Job found = uniformJob();
  return found.index.value_or(found.offset / found.local);
}

}  // namespace popdist
