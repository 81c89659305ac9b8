// How the index tensor of ScatterReduce lies over its source.
#pragma once
#include <popart/attributes.hpp>
#include <popart/names.hpp>

namespace popart::ops {

// Shape that broadcasts the index tensor to the source's shape: the index's own shape when equal, otherwise 1 everywhere but
// along the axis (and the group dimension when group_size > 1). Throws popart::error for other (partial) broadcasts.
Shape scatterIndexShape(const Attributes &attributes, const Shape &source, const Shape &indices);

}  // namespace popart::ops
