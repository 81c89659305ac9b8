// The backend: how the hosts of a job communicate. One per process; initializeBackend begins it.
//
//   popdist::init();
//   const std::vector<float> sum = popdist::allReduce(std::vector<float>{1, 2, 3});
//
// A job of one instance needs no library. A job of several loads Open MPI 4 or 5, which is not linked.
#pragma once
#include <string>

namespace popdist {

// Registers the default backend if none is registered, and initialises it. More calls do nothing. All instances of a
// job call it; without it, the first collective does. Throws as the functions that it calls.
void init();

// Chooses the backend that initializeBackend begins. In a job of several instances this loads Open MPI, which is not
// initialised yet. Throws std::invalid_argument for a variable of the job that is not a number or contradicts another;
// popart::error, which says what to install, without Open MPI.
void registerDefaultBackend();
// Always an error, since it is not public which functions such a file has. Throws std::runtime_error that says so, or
// that there is no such file.
void registerBackend(const std::string &file);

// Begins communication by the registered backend; does nothing when it has begun. It ends with the process. Throws
// std::runtime_error without a registered backend; std::invalid_argument as registerDefaultBackend; popart::error when
// the instances disagree about the replicas of the job; popart::runtime_error, naming them, when instances do not come
// within POPDIST_TIMEOUT seconds.
void initializeBackend();
// Whether communication has begun, and has not ended.
bool isBackendInitialized();
// Ends communication; does nothing when it has not begun.
void finalizeBackend();

}  // namespace popdist
