// The window of the dynamic operators (DynamicSlice, DynamicUpdate …).
#pragma once
#include <popart/names.hpp>

namespace popart::ops {

// Whether `slice` is the window without some of its dimensions of size 1: the elements are the same, in order.
bool fillsWindow(const Shape &slice, const Shape &window);

}  // namespace popart::ops
