// See environment.hpp.
#include "base/environment.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include <popart/error.hpp>

namespace popart::environment {
namespace {

constexpr int kVirtualIpus = 16;

constexpr Variable kVariables[] = {
    {"POPART_NUM_THREADS", "one per physical core that the process may use, at most the container's CPU quota",
     "Number of threads that compute, from 1 to 1024."},
    {"POPART_VIRTUAL_IPUS", "16", "Number of virtual IPUs on a machine without accelerator, 1 or more."},
    {"POPART_MAX_MEMORY", "the memory of the machine",
     "Memory in bytes that a program may use, with `K`, `M` or `G` for powers of 1024. If a program needs more, "
     "`prepareDevice` changes it until it fits, or raises `OutOfMemoryException`. A PopXL program is not changed, "
     "because it says itself where tensors are; it raises the exception at once. "
     "`SessionOptions.engineOptions[\"max_memory\"]` has precedence."},
    {"POPART_REMOTE_MEMORY", "none",
     "Folder for remote variables. Each variable is an unnamed temporary file, which the system reads and writes in "
     "the background; it disappears with the process. Without a folder, remote variables are memory that the system "
     "may page out."},
    {"POPART_MAX_FOLDED_BYTES", "64M",
     "Limit in bytes for constants that are computed while a model is read and compiled (constant folding), in "
     "addition to twice the size of the model file, with `K`, `M` or `G` for powers of 1024. The default is at most an "
     "eighth of the memory limit of the program (`POPART_MAX_MEMORY`), and at least 1M. Larger constant expressions "
     "are computed in every run, in memory that the limit counts. Larger constants that must be known before a "
     "run (sparse tensors, windows of Fourier transforms) are refused."},
    {"POPLAR_ENGINE_OPTIONS", "none",
     "Engine options as a JSON object, for example `{\"max_memory\": \"2G\"}`. Options that a program sets have "
     "precedence."},
    {"POPART_CACHE_DIR", "none",
     "Folder for compiled programs. Sets `SessionOptions.enableEngineCaching` and `cachePath`."},
    {"POPXL_CACHE_DIR", "none",
     "The same. It has precedence over `POPART_CACHE_DIR`, with a warning if the two differ."},
    {"POPXL_OFFLINE_DEVICE", "none",
     "Device that every `popxl.Session` uses instead of the one it asks for: `ipu_hw`, `ipu_model` or `cpu`."},
    {"POPART_CACHE_MAX_BYTES", "16G",
     "Largest size in bytes of a folder of compiled programs, with `K`, `M` or `G`. The least recently used programs "
     "are removed first."},
    {"POPART_CACHE_MAX_FILES", "1000", "Largest number of compiled programs in such a folder, 1 or more."},
    {"POPART_PRELOAD_POPEF", "none",
     "`full-preload`: the whole file of a compiled program is read when it is opened. Otherwise the file is mapped, "
     "and the system reads the parts that are used."},
    {"POPART_LOG_LEVEL", "`WARN`",
     "Lowest level of log lines that are shown: `TRACE`, `DEBUG`, `INFO`, `WARN`, `ERR`, `CRITICAL`, `OFF`."},
    {"POPART_LOG_CONFIG", "none",
     "Path of a file with a JSON object that maps log channels to levels, for example `{\"session\": \"INFO\"}`."},
    {"POPART_LOG_DEST", "`stderr`", "Destination of log lines: `stderr`, `stdout` or a file, which is overwritten."},
    {"POPART_LOG_FORMAT", "`%Y-%m-%dT%H:%M:%S.%fZ %n %P.%t %L: %v`", "Pattern of a log line, in the syntax of spdlog."},
    {"POPART_DOT_CHECKS", "none",
     "Checkpoints that write dot files, separated by `:` (`FWD0:FINAL`, `ALL`). They are added to "
     "`SessionOptions.dotChecks`."},
    {"POPART_IR_DUMP", "none",
     "File to which the program is written as JSON after its passes. After an error in a pass, it is the program up to "
     "that pass."},
    {"POPART_PASS_DUMP", "none",
     "Folder to which the program is written as IR text after every compiler pass, as `<number>-<pass>.ir`. If a pass "
     "fails, the program before it is written too, as `<number>-before-<pass>.ir`. `popart-opt` reads both."},
    {"POPART_DISABLE_PASSES", "none",
     "Names of compiler passes that do not run, separated by `,`, to find the pass that breaks a program. `popart-opt "
     "--list-passes` lists all passes. `SessionOptions.engineOptions[\"disable_passes\"]` has precedence."},
    {"POPART_STEP_TIMES", "none",
     "File to which a session appends a table when it ends: the time, number of calls and kernel of each step. In a "
     "job of several processes each process has its own file: `FILE.0`, `FILE.1`."},
    {"POPART_PROFILE", "none",
     "Folder in which every session of Python writes a profile of its first runs: a page, a trace and JSON (guide "
     "\"Profiling\"). `SessionOptions.engineOptions[\"profile\"]` has precedence; `none` there means no profile."},
    {"POPART_MPI_LIBRARY",
     "the library that the process has loaded, else `libmpi.so.40` of the system, else that of the Python environment",
     "File of Open MPI's library, for jobs of several processes."},
    {"POPDIST_TIMEOUT", "1800",
     "Seconds for which `popdist` waits for the other processes of a job: in `init` and collectives of hosts, and at "
     "the end of a process. For sessions, set the engine option `replicas.timeout`."},
    {"POPDIST_NUM_TOTAL_REPLICAS", "1", "Set by the launcher, read by `popdist`: replicas in all processes."},
    {"POPDIST_NUM_LOCAL_REPLICAS", "1", "Set by the launcher, read by `popdist`: replicas in this process."},
    {"POPDIST_REPLICA_INDEX_OFFSET", "0", "Set by the launcher, read by `popdist`: number of the first replica here."},
    {"POPDIST_NUM_IPUS_PER_REPLICA", "1", "Set by the launcher, read by `popdist`: IPUs of each replica."},
    {"POPDIST_UNIFORM_REPLICAS_PER_INSTANCE", "1",
     "Set by the launcher, read by `popdist`: 0 when instances have different numbers of replicas."},
    {"POPDIST_LOCAL_INSTANCE_INDEX", "0",
     "Set by the launcher, read by `popdist`: number of this process among those of its host."},
    {"POPDIST_NUM_INSTANCES", "none", "Read by `popdist` where it is set: number of processes."},
    {"POPDIST_INSTANCE_INDEX", "none", "Read by `popdist` where it is set: number of this process."},
    {"OMPI_COMM_WORLD_SIZE", "none", "Set by `mpirun`, read by `popdist`: number of processes."},
    {"OMPI_COMM_WORLD_RANK", "none", "Set by `mpirun`, read by `popdist`: number of this process."},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "none", "Set by `mpirun`, read by `popdist`: its number on its host."},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "none",
     "Set by `mpirun`, read when an offline device compiles: number of processes on this host."},
    {"SLURM_NTASKS", "none",
     "Set by `srun --mpi=pmix`, read by `popdist` where PMIX_RANK is set: number of processes."},
    {"SLURM_PROCID", "none", "Set by `srun`, read by `popdist`: number of this process."},
    {"SLURM_LOCALID", "none", "Set by `srun`, read by `popdist`: its number on its host."},
    {"SLURM_STEP_NUM_NODES", "none", "Set by `srun`, read when an offline device compiles: number of hosts."},
    {"WORLD_SIZE", "none", "Set by torchrun, which starts no MPI: `popdist` warns of it."},
};

}  // namespace

std::optional<std::string> text(const char *name) {
  const char *value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

namespace {

std::optional<int> positive(const char *name) {
  const std::optional<std::string> value = text(name);
  if (!value) return std::nullopt;
  return parsePositive(*value, std::string("environment variable ") + name);
}

// A number that a launcher has set; 0 if there is none above 0.
int launcherNumber(const char *name) {
  const std::optional<std::string> value = text(name);
  int number = 0;
  if (value) std::from_chars(value->data(), value->data() + value->size(), number);
  return std::max(number, 0);
}

}  // namespace

std::span<const Variable> variables() { return kVariables; }

std::optional<std::string> logLevel() { return text("POPART_LOG_LEVEL"); }
std::optional<std::string> logDestination() { return text("POPART_LOG_DEST"); }
std::optional<std::string> logFormat() { return text("POPART_LOG_FORMAT"); }
std::optional<std::string> logConfig() { return text("POPART_LOG_CONFIG"); }
std::optional<std::string> dotChecks() { return text("POPART_DOT_CHECKS"); }
std::optional<std::string> irDump() { return text("POPART_IR_DUMP"); }
std::optional<std::string> passDump() { return text("POPART_PASS_DUMP"); }
std::optional<std::string> disablePasses() { return text("POPART_DISABLE_PASSES"); }
std::optional<std::string> stepTimes() { return text("POPART_STEP_TIMES"); }
std::optional<std::string> profileFolder() { return text("POPART_PROFILE"); }
std::optional<std::string> maxMemory() { return text("POPART_MAX_MEMORY"); }
std::optional<std::string> remoteMemory() { return text("POPART_REMOTE_MEMORY"); }
std::optional<std::string> maxFoldedBytes() { return text("POPART_MAX_FOLDED_BYTES"); }
std::optional<std::string> cacheFolder() { return text("POPART_CACHE_DIR"); }
std::optional<std::string> popxlCacheFolder() { return text("POPXL_CACHE_DIR"); }
std::optional<std::string> cacheMaxBytes() { return text("POPART_CACHE_MAX_BYTES"); }
std::optional<int> cacheMaxFiles() { return positive("POPART_CACHE_MAX_FILES"); }
std::optional<std::string> mpiLibrary() { return text("POPART_MPI_LIBRARY"); }
std::optional<std::string> preloadPopef() { return text("POPART_PRELOAD_POPEF"); }
std::optional<int> numThreads() { return positive("POPART_NUM_THREADS"); }
std::optional<LaunchedProcesses> launchedProcesses() {
  LaunchedProcesses found{launcherNumber("OMPI_COMM_WORLD_SIZE"), launcherNumber("OMPI_COMM_WORLD_LOCAL_SIZE")};
  if (found.all == 0) {
    const int hosts = launcherNumber("SLURM_STEP_NUM_NODES");
    found.all = launcherNumber("SLURM_NTASKS");
    found.onHost = hosts > 0 ? (found.all + hosts - 1) / hosts : 0;
  }
  return found.all == 0 || found.onHost == 0 ? std::nullopt : std::optional(found);
}
int virtualIpus() { return positive("POPART_VIRTUAL_IPUS").value_or(kVirtualIpus); }

std::map<std::string, std::string> engineOptions() {
  std::map<std::string, std::string> options;
  const std::optional<std::string> given = text("POPLAR_ENGINE_OPTIONS");
  if (!given) return options;
  const nlohmann::json json = nlohmann::json::parse(*given, nullptr, false);
  check(json.is_object(),
        "environment variable POPLAR_ENGINE_OPTIONS: got '{}', expected a JSON object of option names and values",
        *given);
  for (const auto &[key, value] : json.items())
    options[key] = value.is_string() ? value.get<std::string>() : value.dump();
  return options;
}

int parsePositive(const std::string &text, const std::string &what) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < 1)
    throw error("{}: got '{}', expected a whole number of 1 or more", what, text);
  return value;
}

}  // namespace popart::environment
