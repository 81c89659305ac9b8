// ReplicaStreams: one source of host data for several replicas, which run at the same time. For each micro-batch the
// source sees the replicas in order: whichever replica comes first asks for the values of all, and the last one to make
// a value hands over those of all. So the order of calls depends on no thread's speed, and no replica waits for
// another.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "runtime/engine.hpp"

namespace popart::session {

class ReplicaStreams {
 public:
  // `broadcast`: by input, whether all replicas get the same value. `outputs`: how many there are.
  ReplicaStreams(int replicas, std::vector<bool> broadcast, size_t outputs);
  ~ReplicaStreams();

  // The streams of each replica, over values of `source`. Drops what an earlier run has left. Calls of `source` come
  // from any replica's thread, one at a time.
  std::span<runtime::StreamSource *const> lanes(runtime::StreamSource &source);

 private:
  class Shared;
  class Lane;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<runtime::StreamSource *> pointers_;
};

}  // namespace popart::session
