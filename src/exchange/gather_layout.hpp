// Where the replicas of a job are, from the facts of each process about its own replicas.
#pragma once
#include <chrono>

#include "exchange/layout.hpp"
#include "exchange/transport.hpp"

namespace popart::exchange {

// Facts that a process has about the replicas.
struct OwnReplicas {
  int all = 1;                     // number in all processes
  int locals = 1, firstLocal = 0;  // of this process; its replicas are consecutive
};

// All processes must call it. Throws popart::error if the processes disagree, or if their replicas are not exactly
// `all`; and as Transport::gather.
ReplicaLayout gatherLayout(Transport &transport, const OwnReplicas &own, std::chrono::milliseconds timeout);

}  // namespace popart::exchange
