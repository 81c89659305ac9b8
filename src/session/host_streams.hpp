// What a program exchanges with the host, read off its host loads and stores: known as soon as there is an Ir.
#pragma once
#include <map>

#include <popart/ir.hpp>

namespace popart::session {

// Streams by id. Of each one transfer: the micro-batch of one replica.
struct HostStreams {
  std::map<TensorId, TensorInfo> inputs;
  std::map<TensorId, TensorInfo> outputs;
};

// Streams of the main graph and of every graph that it calls, directly or through others.
HostStreams hostStreams(const Ir &ir);

}  // namespace popart::session
