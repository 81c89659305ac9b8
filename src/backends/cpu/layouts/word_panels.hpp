// How the CPU backend stores rows of packed numbers that products read as columns: panels of `panel` rows, each
//
//   [ceil(bytes / 4)][panel][4 bytes of a row]
//
// zeros up to whole words and panels. A vector of words holds the same numbers of as many columns.
#pragma once
#include <algorithm>
#include <string>

#include "executable/permuted_layout.hpp"

namespace popart::cpu {

// "words32": matrices (rows, bytes) of UINT8.
class WordPanels final : public executable::PermutedLayout<WordPanels> {
 public:
  explicit WordPanels(int32_t panel) : PermutedLayout("words" + std::to_string(panel)), panel_(panel) {}

  bool describes(const TensorInfo &info) const { return info.rank() == 2 && info.dataType() == DataType::UINT8; }
  int64_t places(const TensorInfo &info) const {
    return (info.shape()[0] + panel_ - 1) / panel_ * panelBytes(info.shape()[1]);
  }

  template <class Move>
  void forEach(const TensorInfo &info, Move &&move) const {
    const int64_t rows = info.shape()[0], bytes = info.shape()[1];
    for (int64_t first = 0; first < rows; first += panel_) {
      const int64_t width = std::min<int64_t>(panel_, rows - first), stored = first / panel_ * panelBytes(bytes);
      for (int64_t b = 0; b < bytes; b += kWord)
        for (int64_t r = 0; r < width; ++r)
          for (int64_t i = b; i < std::min(bytes, b + kWord); ++i)
            move((first + r) * bytes + i, stored + (b / kWord * panel_ + r) * kWord + i % kWord);
    }
  }

 private:
  static constexpr int64_t kWord = 4;  // bytes
  int64_t panelBytes(int64_t bytes) const { return (bytes + kWord - 1) / kWord * kWord * panel_; }
  int32_t panel_;
};

// The layout that this machine's kernels read.
const executable::Layout *wordPanels();

}  // namespace popart::cpu
