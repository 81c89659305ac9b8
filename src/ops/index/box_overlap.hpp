// Boxes of NonMaxSuppression and how much they overlap, computed in float32.
#pragma once
#include <algorithm>

namespace popart::ops {

enum class BoxForm { Corners, Centre };

// Four numbers as two corners: (y1, x1, y2, x2) in any order of the corners, or with BoxForm::Centre (x, y, width,
// height) around a centre.
struct Box {
  float y1, x1, y2, x2;

  template <class T>
  static Box of(const T *b, BoxForm form) {
    const auto at = [&](int i) { return static_cast<float>(b[i]); };
    if (form == BoxForm::Centre) return {at(1) - at(3) / 2, at(0) - at(2) / 2, at(1) + at(3) / 2, at(0) + at(2) / 2};
    return {std::min(at(0), at(2)), std::min(at(1), at(3)), std::max(at(0), at(2)), std::max(at(1), at(3))};
  }

  float area() const { return (y2 - y1) * (x2 - x1); }

  // Whether the intersection is more than `share` of the union.
  bool overlaps(const Box &b, float share) const {
    const float height = std::min(y2, b.y2) - std::max(y1, b.y1), width = std::min(x2, b.x2) - std::max(x1, b.x1);
    if (!(height > 0 && width > 0)) return false;
    const float both = height * width, all = area() + b.area() - both;
    return area() > 0 && b.area() > 0 && all > 0 && both / all > share;
  }
};

}  // namespace popart::ops
