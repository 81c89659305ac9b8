// ReplicaStreams: one source of host data for several replicas that run at the same time. For each micro-batch the
// source gets calls for the replicas in order: the first replica that needs a value requests the values of all, and the
// last one that makes a value delivers those of all. So the order of calls does not depend on timing, and no replica
// waits for another.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "runtime/engine.hpp"

namespace popart::session {

class ReplicaStreams {
 public:
  // `broadcast`: for each input, whether all replicas get the same value. `outputs`: number of outputs.
  ReplicaStreams(int replicas, std::vector<bool> broadcast, size_t outputs);
  ~ReplicaStreams();

  // The streams of each replica, backed by `source`. Discards values of an earlier run. `source` is called from threads
  // of any replica, one call at a time.
  std::span<runtime::StreamSource *const> lanes(runtime::StreamSource &source);

 private:
  class Shared;
  class Lane;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<runtime::StreamSource *> pointers_;
};

}  // namespace popart::session
