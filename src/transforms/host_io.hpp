// Host streams as ops: HostLoad reads stream tensors, HostStore writes anchors.
#pragma once
#include <string>

#include <popart/graph.hpp>

namespace popart::transforms {

// Adds one HostLoad for a Stream tensor of the main graph and lets the readers use its output. Returns the loaded
// tensor of `stream`; later calls return the same one.
TensorIndex loadStream(Graph &main, TensorIndex stream);
void loadStreams(Graph &main);

// Adds HostStore{stream} of tensor `id`, in each micro-batch or after the update. Throws popart::error naming the
// nearest ids if there is no such tensor.
void storeAnchor(Graph &main, const TensorId &id, const std::string &stream,
                 ExecutionContext context = ExecutionContext::Normal);

}  // namespace popart::transforms
