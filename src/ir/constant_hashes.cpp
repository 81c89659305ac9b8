#include "ir/constant_hashes.hpp"

#include "base/threads/for_each_sized.hpp"

namespace popart {

const KnownHashes &ConstantHashes::of(const Ir &ir, int threads) {
  constexpr int64_t kLarge = int64_t{64} << 10;
  std::vector<const TensorData *> constants;
  std::vector<int64_t> bytes;
  for (const Graph *graph : ir.getAllGraphs())
    for (const Tensor *t : graph->tensorsOfType(TensorType::Const)) {
      const TensorData &data = t->tensorData();
      if (data.nbytes() < kLarge || known_.contains({data.data(), data.nbytes()})) continue;
      constants.push_back(&data), bytes.push_back(data.nbytes());
    }
  std::vector<uint64_t> hashes(constants.size());
  forEachSized(bytes, threads, [&](size_t i) { hashes[i] = contentHash(*constants[i]); });
  for (size_t i = 0; i < constants.size(); ++i) {
    known_[{constants[i]->data(), constants[i]->nbytes()}] = hashes[i];
    held_.push_back(*constants[i]);
  }
  return known_;
}

}  // namespace popart
