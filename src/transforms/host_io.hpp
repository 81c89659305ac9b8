// Host streams as ops: stream tensors are read by HostLoad, anchors are written by HostStore.
#pragma once
#include <string>

#include <popart/graph.hpp>

namespace popart::transforms {

// Every Stream tensor of the main graph that an op or an anchor reads gets one HostLoad, whose output the readers use.
// Returns the loaded tensor of `stream`; the same one when asked again.
TensorIndex loadStream(Graph &main, TensorIndex stream);
void loadStreams(Graph &main);

// Adds HostStore{stream} of tensor `id`, in each micro-batch or after the update. Throws popart::error naming the
// nearest ids when there is no such tensor.
void storeAnchor(Graph &main, const TensorId &id, const std::string &stream,
                 ExecutionContext context = ExecutionContext::Normal);

}  // namespace popart::transforms
