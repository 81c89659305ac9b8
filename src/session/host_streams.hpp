// The streams of a program, found from the host loads and stores of its Ir.
#pragma once
#include <map>

#include <popart/ir.hpp>

namespace popart::session {

// Streams by id, with type and shape of one transfer: the micro-batch of one replica.
struct HostStreams {
  std::map<TensorId, TensorInfo> inputs;
  std::map<TensorId, TensorInfo> outputs;
};

// Streams of the main graph and of every graph that it calls, directly or through others.
HostStreams hostStreams(const Ir &ir);

}  // namespace popart::session
