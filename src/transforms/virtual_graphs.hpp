// Virtual graphs: the IPU of its replica on which each op runs (Op::Settings::vgraphId). A fact of the program on which
// no result depends.
#pragma once
#include <cstdint>
#include <vector>

#include <popart/ir.hpp>

namespace popart::transforms {

enum class VirtualGraphRule : uint8_t {
  Keep,    // keep those of the program
  Drop,    // remove those of the program
  Manual,  // every op of the main graph must have one
  Auto,    // divide the main graph by cost, ignoring the program
};

struct VirtualGraphs {
  VirtualGraphRule rule = VirtualGraphRule::Keep;
  int64_t ipus = 1;           // of one replica, for Auto
  std::vector<float> ratios;  // for Auto: share of the cost on each IPU; empty: equal shares
};

// Whether a pipeline requires that all readers of a tensor are on one virtual graph: true for variables, except the
// seed of random numbers. A stream is loaded for its first reader and passed on to the others.
bool isOfOneVirtualGraph(const Tensor &t);

// For a forward graph. Auto divides the schedule where no variable is read on both sides, as near to the requested
// shares of cost as possible; graphs that are called are where their callers are. Throws popart::error: Manual, if ops
// have no virtual graph, with the counts; Auto, if there are not enough positions to divide.
void placeOnVirtualGraphs(Ir &ir, const VirtualGraphs &wanted);

// For the whole program: adds an IpuCopy for each tensor that is made on one virtual graph and read on another one, one
// for each destination, called "<id>_c<destination>". It is placed with the op that makes the tensor and computes
// nothing.
// Readers that change the tensor keep reading it directly. Returns the number of copies.
int addIpuCopies(Graph &main);

}  // namespace popart::transforms
