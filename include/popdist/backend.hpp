// The backend: communication between the hosts of a job. One per process; initializeBackend begins it.
//
//   popdist::init();
//   const std::vector<float> sum = popdist::allReduce(std::vector<float>{1, 2, 3});
//
// A job of one instance needs no library. A job of several instances loads Open MPI 4 or 5, which is not linked.
#pragma once
#include <string>

namespace popdist {

// Registers the default backend if none is registered, and initialises it. Further calls have no effect. All instances
// of a job must call it; otherwise, the first collective does. Throws as the functions that it calls.
void init();

// Chooses the backend that initializeBackend begins. In a job of several instances this loads Open MPI, without
// initialising it. Throws std::invalid_argument for a variable of the job that is not a number or contradicts another;
// popart::error, which says what to install, if Open MPI is missing.
void registerDefaultBackend();
// Always throws, because the functions of such a file are not public: std::runtime_error, which says so, or that there
// is no such file.
void registerBackend(const std::string &file);

// Begins communication by the registered backend; no effect if it has begun. It ends with the process. Throws
// std::runtime_error without a registered backend; std::invalid_argument as registerDefaultBackend; popart::error if
// the instances disagree about the replicas of the job; popart::runtime_error, naming them, if instances do not arrive
// within POPDIST_TIMEOUT seconds.
void initializeBackend();
// Whether communication has begun, and has not ended.
bool isBackendInitialized();
// Ends communication; no effect if it has not begun.
void finalizeBackend();

}  // namespace popdist
