// MPI in this process, found when a job needs it: neither this library nor libpopart_mpi.so, which has the transport,
// is linked to it. Open MPI 4 and 5 have one binary interface, and both are served.
//
//   MpiJob &job = joinMpi({.processes = 4});  // all processes
//   const std::unique_ptr<Transport> transport = job.transport();
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "exchange/transport.hpp"

namespace popart::exchange {

// After an operation that failed a process waits so long for its messages that are under way.
constexpr std::chrono::milliseconds kMessageEndTime{2'000};

struct MpiSettings {
  int processes = 0;           // that the launcher started; 0: not known
  bool othersCallMpi = false;  // whether other libraries of this process call MPI, as mpi4py does
  // For which a process waits for all others: where they make something together, and, with kMessageEndTime more, at
  // its end.
  std::chrono::milliseconds timeout{300'000};
  // Called when another library, which initialised MPI, finalises it.
  void (*beforeFinalize)() = nullptr;
  // Longer messages are sent in parts.
  int64_t messageBytes = int64_t{1} << 30;
};

// This process in the job that mpirun or srun started. One thread at a time calls it.
class MpiJob {
 public:
  virtual ~MpiJob() = default;
  virtual int process() const noexcept = 0;
  virtual int processes() const noexcept = 0;
  // Whether joinMpi initialised MPI. Otherwise another library did, and finalises it.
  virtual bool finalizes() const noexcept = 0;
  // A transport with a communicator of its own, so that nothing of others reaches it, an earlier failure neither. All
  // processes call it, in the same order. Destroyed before the job ends. Throws runtime_error that names processes
  // which do not call it within the timeout of the settings.
  virtual std::unique_ptr<Transport> transport() = 0;
  // Waits for all processes, and finalises MPI if joinMpi initialised it. What is wrong when they do not come within
  // `timeout`, or a message is still under way; MPI is then left as it is.
  virtual std::optional<std::string> end(std::chrono::milliseconds timeout) noexcept = 0;
};

// Loads and initialises MPI at the first call, of which the settings count. All processes call it. The process leaves
// the job when it ends, with the code that it gives to exit() (leaveMpi). Throws popart::error, in one line that says
// what to install or to set: no Open MPI, another MPI, no libpopart_mpi.so, MPI without the needed thread level, or of
// another job than the launcher's; and runtime_error as MpiJob::transport. Ends the process when the others do not come
// to the initialisation in time, which MPI itself does not limit.
MpiJob &joinMpi(const MpiSettings &settings);

// Folder of Python, whose lib folder may have Open MPI from PyPI; set before the first joinMpi.
void setPythonPrefix(std::string prefix);
// The process ends with this code. To be told where another library finalises MPI, which is done before the exit code
// is given to exit().
void noteExitCode(int code);
// Called in joinMpi, before it returns, if another library is to finalise MPI: from now on noteExitCode has to be told.
void setLateExitCode(void (*isLate)());
// What a message about the end of this process calls it: "process 3 on host 'node1' (replicas 6 to 7)".
void nameForEnd(std::string name);

// The end of the process as far as MPI is concerned; nothing where joinMpi was not called. Finalising MPI without the
// others would leave them waiting for ever: when they do not come within `timeout` this logs why and ends the process
// at once, with `exitCode`, or 1 in place of 0. mpirun then ends the job. No call of MPI follows.
void leaveMpi(int exitCode, std::chrono::milliseconds timeout);

// ---- parts of joinMpi, for tests

struct MpiPlaces {
  std::optional<std::string> file = {};  // the only one that is looked at; POPART_MPI_LIBRARY
  std::string name = "libmpi.so.40";     // as libraries of this process and of the system are named
  std::string prefix = {};               // as setPythonPrefix
};
// Open MPI's library with its symbols for all that is loaded later: the file, else one that is loaded, of the system,
// or below the prefix. Throws as joinMpi.
void *loadMpiLibrary(const MpiPlaces &places);
// The same in the places that are set for this process, and the transport: what can be missing, without joining a job.
void loadMpi();

// What libpopart_mpi.so has, by this name: initialises MPI and makes the job, which is the caller's. Throws as joinMpi.
using JoinMpi = MpiJob *(const MpiSettings &settings);
constexpr const char *kJoinMpi = "popartJoinMpi";
// Loads it from `folder`; without one, from where this library is. Throws as joinMpi.
JoinMpi *loadMpiTransport(const std::string &folder = {});

}  // namespace popart::exchange
