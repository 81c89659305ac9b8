// Where the replicas of a job are, by what each process says of its own.
#pragma once
#include <chrono>

#include "exchange/layout.hpp"
#include "exchange/transport.hpp"

namespace popart::exchange {

// What a process knows of the replicas.
struct OwnReplicas {
  int all = 1;                     // in all processes
  int locals = 1, firstLocal = 0;  // in this one, which are consecutive
};

// All processes call it. Throws popart::error when the processes disagree, or the replicas of all are not those in all;
// and as Transport::gather.
ReplicaLayout gatherLayout(Transport &transport, const OwnReplicas &own, std::chrono::milliseconds timeout);

}  // namespace popart::exchange
