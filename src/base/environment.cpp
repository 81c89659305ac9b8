// See environment.hpp.
#include "base/environment.hpp"

#include <charconv>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include <popart/error.hpp>

namespace popart::environment {
namespace {

constexpr int kVirtualIpus = 16;

constexpr Variable kVariables[] = {
    {"POPART_NUM_THREADS", "one per physical core that the process may run on, at most the container's CPU quota",
     "Threads that compute, 1 to 1024."},
    {"POPART_VIRTUAL_IPUS", "16", "IPUs that programs see on a machine without accelerator, 1 or more."},
    {"POPART_MAX_MEMORY", "what the machine has",
     "Memory in bytes that a program may need, with `K`, `M` or `G` for powers of 1024. Above it `prepareDevice` "
     "changes the program until it fits, or raises `OutOfMemoryException`; programs of PopXL, which say themselves "
     "what lies where, raise it at once. `SessionOptions.engineOptions[\"max_memory\"]` comes before it."},
    {"POPART_REMOTE_MEMORY", "none",
     "Folder for remote variables: each is a file without a name there, which the system reads ahead and writes back "
     "as programs run, and which is gone with the process. Without it they are memory that the system may page out."},
    {"POPART_MAX_FOLDED_BYTES", "64M",
     "Bytes of constants that are made while a model is read and compiled, in addition to twice the bytes of its file, "
     "with `K`, `M` or `G` for powers of 1024. The default is at most an eighth of the program's memory limit "
     "(`POPART_MAX_MEMORY`), and at least 1M. Beyond, constant expressions are computed by every run, in memory that "
     "the limit counts; what must be known before (sparse tensors, windows of Fourier transforms) is refused."},
    {"POPLAR_ENGINE_OPTIONS", "none",
     "Engine options as a JSON object, for example `{\"max_memory\": \"2G\"}`. Those of a program come before them."},
    {"POPART_CACHE_DIR", "none",
     "Folder for compiled programs: sets `SessionOptions.enableEngineCaching` and `cachePath`."},
    {"POPXL_CACHE_DIR", "none", "The same; comes before `POPART_CACHE_DIR`, with a warning when they differ."},
    {"POPXL_OFFLINE_DEVICE", "none",
     "Device of every `popxl.Session` in place of the one that it asks for: `ipu_hw`, `ipu_model` or `cpu`."},
    {"POPART_CACHE_MAX_BYTES", "16G",
     "Most bytes that a folder of compiled programs keeps, with `K`, `M` or `G`: the programs that were used longest "
     "ago are removed first."},
    {"POPART_CACHE_MAX_FILES", "1000", "Most compiled programs that such a folder keeps, 1 or more."},
    {"POPART_PRELOAD_POPEF", "none",
     "`full-preload`: a file of a compiled program is read wholly when it is opened. Otherwise it is mapped, and the "
     "system reads what is used."},
    {"POPART_LOG_LEVEL", "`WARN`",
     "Least level of log lines that show: `TRACE`, `DEBUG`, `INFO`, `WARN`, `ERR`, `CRITICAL`, `OFF`."},
    {"POPART_LOG_CONFIG", "none",
     "Path of a JSON object from log channel to level, for example `{\"session\": \"INFO\"}`."},
    {"POPART_LOG_DEST", "`stderr`", "Where log lines go: `stderr`, `stdout` or a file, which is written anew."},
    {"POPART_LOG_FORMAT", "`%Y-%m-%dT%H:%M:%S.%fZ %n %P.%t %L: %v`", "Pattern of a log line, in the terms of spdlog."},
    {"POPART_DOT_CHECKS", "none",
     "Checkpoints that write dot files, `:` between them (`FWD0:FINAL`, `ALL`); added to `SessionOptions.dotChecks`."},
    {"POPART_IR_DUMP", "none",
     "File that receives the program as JSON when its passes have run, or as far as they came before an error."},
    {"POPART_PASS_DUMP", "none",
     "Folder that receives the program as IR text after every compiler pass: `<number>-<pass>.ir`. When a pass fails, "
     "the program before it is written too: `<number>-before-<pass>.ir`, which `popart-opt` reads."},
    {"POPART_DISABLE_PASSES", "none",
     "Names of compiler passes that do not run, with `,` between them (`popart-opt --list-passes` names all), to find "
     "the one that breaks a program. `SessionOptions.engineOptions[\"disable_passes\"]` comes before it."},
    {"POPART_STEP_TIMES", "none",
     "File to which a session appends a table when it ends: time, calls and kernel of each step."},
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
    {"SLURM_NTASKS", "none",
     "Set by `srun --mpi=pmix`, read by `popdist` where PMIX_RANK is set: number of processes."},
    {"SLURM_PROCID", "none", "Set by `srun`, read by `popdist`: number of this process."},
    {"SLURM_LOCALID", "none", "Set by `srun`, read by `popdist`: its number on its host."},
    {"WORLD_SIZE", "none", "Set by torchrun, which starts no MPI: `popdist` warns of it."},
};

std::optional<std::string> text(const char *name) {
  const char *value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

std::optional<int> positive(const char *name) {
  const std::optional<std::string> value = text(name);
  if (!value) return std::nullopt;
  return parsePositive(*value, std::string("environment variable ") + name);
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
std::optional<std::string> maxMemory() { return text("POPART_MAX_MEMORY"); }
std::optional<std::string> remoteMemory() { return text("POPART_REMOTE_MEMORY"); }
std::optional<std::string> maxFoldedBytes() { return text("POPART_MAX_FOLDED_BYTES"); }
std::optional<std::string> cacheFolder() { return text("POPART_CACHE_DIR"); }
std::optional<std::string> popxlCacheFolder() { return text("POPXL_CACHE_DIR"); }
std::optional<std::string> cacheMaxBytes() { return text("POPART_CACHE_MAX_BYTES"); }
std::optional<int> cacheMaxFiles() { return positive("POPART_CACHE_MAX_FILES"); }
std::optional<std::string> preloadPopef() { return text("POPART_PRELOAD_POPEF"); }
std::optional<int> numThreads() { return positive("POPART_NUM_THREADS"); }
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
