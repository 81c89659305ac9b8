// Environment variables. Only this file reads them. docs/environment.md is generated from the table. An empty variable
// counts as not set. Values are read at each call, so a program may set variables while it runs.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>

namespace popart::environment {

// A variable that this library or its Python packages read.
struct Variable {
  const char *name;
  const char *fallback;  // the value if it is not set
  const char *meaning;   // with its unit
};

// All variables, grouped by purpose.
std::span<const Variable> variables();

// ---- values; nullopt when not set
std::optional<std::string> text(const char *name);  // of a variable of a job, which popdist reads
std::optional<std::string> logLevel();              // POPART_LOG_LEVEL
std::optional<std::string> logDestination();        // POPART_LOG_DEST
std::optional<std::string> logFormat();             // POPART_LOG_FORMAT
std::optional<std::string> logConfig();             // POPART_LOG_CONFIG: path of a JSON file
std::optional<std::string> dotChecks();             // POPART_DOT_CHECKS: names with ":" between them
std::optional<std::string> irDump();                // POPART_IR_DUMP: path
std::optional<std::string> passDump();              // POPART_PASS_DUMP: folder
std::optional<std::string> disablePasses();         // POPART_DISABLE_PASSES: names with "," between them
std::optional<std::string> stepTimes();             // POPART_STEP_TIMES: path
std::optional<std::string> profileFolder();         // POPART_PROFILE: path
std::optional<std::string> maxMemory();             // POPART_MAX_MEMORY: bytes with K, M or G
std::optional<std::string> remoteMemory();          // POPART_REMOTE_MEMORY: folder
std::optional<std::string> maxFoldedBytes();        // POPART_MAX_FOLDED_BYTES: bytes with K, M or G
std::optional<std::string> cacheFolder();           // POPART_CACHE_DIR
std::optional<std::string> popxlCacheFolder();      // POPXL_CACHE_DIR
std::optional<std::string> cacheMaxBytes();         // POPART_CACHE_MAX_BYTES: bytes with K, M or G
std::optional<int> cacheMaxFiles();                 // POPART_CACHE_MAX_FILES. Throws as numThreads
std::optional<std::string> preloadPopef();          // POPART_PRELOAD_POPEF
std::optional<std::string> mpiLibrary();            // POPART_MPI_LIBRARY: path
// POPART_NUM_THREADS. Throws popart::error: not an integer of 1 or more.
std::optional<int> numThreads();
// POPART_VIRTUAL_IPUS, 16 when not set. Throws as numThreads.
int virtualIpus();
// Number of processes of a job that mpirun or srun started, and of those on this host: from OMPI_COMM_WORLD_*, else
// from SLURM_*, which assumes equally many on each host. nullopt: the variables are not set, or not numbers above 0.
struct LaunchedProcesses {
  int all = 1, onHost = 1;
};
std::optional<LaunchedProcesses> launchedProcesses();
// POPLAR_ENGINE_OPTIONS: a JSON object, with booleans as "true" and "false". Throws popart::error for anything else.
std::map<std::string, std::string> engineOptions();

// Reads an integer of 1 or more. Throws popart::error naming `what`.
int parsePositive(const std::string &text, const std::string &what);

}  // namespace popart::environment
