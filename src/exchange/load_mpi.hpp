// MPI in this process, loaded when a job needs it: neither this library nor libpopart_mpi.so, which has the transport,
// is linked to it. Open MPI 4 and 5 have the same binary interface, and both are supported.
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

// Time that a process waits for its messages in progress after an operation that failed.
constexpr std::chrono::milliseconds kMessageEndTime{2'000};

struct MpiSettings {
  int processes = 0;           // number that the launcher started; 0: unknown
  bool othersCallMpi = false;  // whether other libraries of this process call MPI, as mpi4py does
  // Time that a process waits for all others: in operations of all processes, and, with kMessageEndTime more, at its
  // end.
  std::chrono::milliseconds timeout{300'000};
  // Called when another library that initialised MPI finalises it.
  void (*beforeFinalize)() = nullptr;
  // Longer messages are sent in parts.
  int64_t messageBytes = int64_t{1} << 30;
};

// This process in the job that mpirun or srun started. Only one thread at a time may call it.
class MpiJob {
 public:
  virtual ~MpiJob() = default;
  virtual int process() const noexcept = 0;
  virtual int processes() const noexcept = 0;
  // Whether joinMpi initialised MPI. Otherwise another library did, and finalises it.
  virtual bool finalizes() const noexcept = 0;
  // A transport with a separate communicator, which gets no messages and no earlier failures of others. All processes
  // must call it, in the same order. It must be destroyed before the job ends. Throws runtime_error that names
  // processes which do not call it within the timeout of the settings.
  virtual std::unique_ptr<Transport> transport() = 0;
  // Waits for all processes, and finalises MPI if joinMpi initialised it. If they do not arrive within `timeout`, or a
  // message is still in progress, returns the problem and does not finalise MPI.
  virtual std::optional<std::string> end(std::chrono::milliseconds timeout) noexcept = 0;
};

// Loads and initialises MPI at the first call, whose settings apply. All processes must call it. The process leaves the
// job when it ends, with its exit code (leaveMpi). Throws popart::error, in one line that says what to install or to
// set: no Open MPI, another MPI, no libpopart_mpi.so, MPI without the required thread level, or of another job than the
// launcher's; and runtime_error as MpiJob::transport. Ends the process if the others do not take part in the
// initialisation in time, because MPI itself has no limit.
MpiJob &joinMpi(const MpiSettings &settings);

// Folder of Python, whose lib folder may have Open MPI from PyPI; must be set before the first joinMpi.
void setPythonPrefix(std::string prefix);
// Sets the exit code of the process. Must be called if another library finalises MPI, because that happens before
// exit() gets the code.
void noteExitCode(int code);
// joinMpi calls `isLate` before it returns if another library will finalise MPI: noteExitCode must then be called.
void setLateExitCode(void (*isLate)());
// How messages about the end of this process name it: "process 3 on host 'node1' (replicas 6 to 7)".
void nameForEnd(std::string name);

// Ends the process's part in MPI; no effect if joinMpi was not called. Finalising MPI without the others would make
// them wait for ever. So if they do not arrive within `timeout`, this logs the reason and ends the process at once,
// with `exitCode`, or 1 instead of 0; mpirun then ends the job. MPI must not be called afterwards.
void leaveMpi(int exitCode, std::chrono::milliseconds timeout);

// ---- parts of joinMpi, for tests

struct MpiPlaces {
  std::optional<std::string> file = {};  // the only file that is tried; POPART_MPI_LIBRARY
  std::string name = "libmpi.so.40";     // name among the libraries of this process and of the system
  std::string prefix = {};               // as in setPythonPrefix
};
// Loads Open MPI's library, with symbols visible to libraries loaded later: the file, else a library that is already
// loaded, the system's, or one below the prefix. Throws as joinMpi.
void *loadMpiLibrary(const MpiPlaces &places);
// Loads MPI from the places that are set for this process, and the transport: tests what may be missing, without
// joining a job.
void loadMpi();

// The function that libpopart_mpi.so exports by this name: initialises MPI and creates the job, which the caller owns.
// Throws as joinMpi.
using JoinMpi = MpiJob *(const MpiSettings &settings);
constexpr const char *kJoinMpi = "popartJoinMpi";
// Loads it from `folder`, or from the folder of this library. Throws as joinMpi.
JoinMpi *loadMpiTransport(const std::string &folder = {});

}  // namespace popart::exchange
