// Virtual graphs: on which IPU of its replica each op is (Op::Settings::vgraphId). A fact of the program that no result
// depends on.
#pragma once
#include <cstdint>
#include <vector>

#include <popart/ir.hpp>

namespace popart::transforms {

enum class VirtualGraphRule : uint8_t {
  Keep,    // as the program has them
  Drop,    // what the program says is ignored
  Manual,  // every op of the main graph must have one
  Auto,    // the main graph is cut by cost, whatever the program says
};

struct VirtualGraphs {
  VirtualGraphRule rule = VirtualGraphRule::Keep;
  int64_t ipus = 1;           // of one replica, for Auto
  std::vector<float> ratios;  // for Auto: share of the cost on each IPU; empty: equal shares on all of them
};

// Whether a pipeline needs all readers of a tensor on one virtual graph: of variables, apart from the seed of random
// numbers. A stream is loaded for its first reader and passed on to the others.
bool isOfOneVirtualGraph(const Tensor &t);

// For a forward graph. Auto cuts the schedule where no variable is read on both sides, as near to
// the wanted shares of cost as that leaves; graphs that are called are where their callers are. Throws popart::error:
// Manual when some ops or all have no virtual graph, with the counts; Auto when there are not enough places to cut.
void placeOnVirtualGraphs(Ir &ir, const VirtualGraphs &wanted);

// Once the program is whole: a tensor that is made on one virtual graph and read on another one goes through an
// IpuCopy, one for each destination, called "<id>_c<destination>". It stands with the op that makes the tensor and
// computes nothing. Readers that change the tensor keep it. Returns the number of copies.
int addIpuCopies(Graph &main);

}  // namespace popart::transforms
