// How the index tensor of ScatterReduce is aligned with its source.
#pragma once
#include <popart/attributes.hpp>
#include <popart/names.hpp>

namespace popart::ops {

struct ScatterLayout {
  Shape window;   // the leading part of the source that is used: all of it if indices are broadcast
  Shape indices;  // the index tensor's shape with the source's rank; 1 where it is broadcast to the window
};

// Broadcast indices have the source's shape, or are a vector along the axis (one for each group when group_size > 1).
// Without enable_index_broadcast they may be smaller than the source. Throws popart::error for other shapes.
ScatterLayout scatterLayout(const Attributes &attributes, const Shape &source, const Shape &indices);

}  // namespace popart::ops
