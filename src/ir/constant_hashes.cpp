#include "ir/constant_hashes.hpp"

#include "base/threads/for_each_sized.hpp"
#include "ir/text.hpp"

namespace popart {

std::vector<uint64_t> ConstantHashes::of(const std::vector<TensorData> &constants, int threads,
                                         const std::function<void()> &extraTask) {
  const auto keyOf = [](const TensorData &data) { return std::pair(data.data(), data.nbytes()); };
  std::vector<TensorData> unread;
  std::vector<int64_t> bytes;
  std::vector<uint64_t *> hashes;
  for (const TensorData &constant : constants) {
    const auto [entry, isNew] = known_.try_emplace(keyOf(constant));
    if (!isNew) continue;
    unread.push_back(constant), bytes.push_back(constant.nbytes()), hashes.push_back(&entry->second);
  }
  forEachSizedWith(extraTask, bytes, threads, [&](size_t i) { *hashes[i] = contentHash(unread[i]); });
  held_.insert(held_.end(), unread.begin(), unread.end());
  std::vector<uint64_t> all;
  for (const TensorData &constant : constants) all.push_back(known_.at(keyOf(constant)));
  return all;
}

void ConstantHashes::learn(const std::vector<std::pair<TensorData, uint64_t>> &hashes) {
  for (const auto &[data, hash] : hashes)
    if (known_.try_emplace({data.data(), data.nbytes()}, hash).second) held_.push_back(data);
}

}  // namespace popart
