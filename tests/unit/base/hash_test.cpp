// Hashes of content: copying on the way changes neither the bytes nor the hash.
#include "base/hash.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace popart {
namespace {

TEST(Hash, CopyingInBlocksGivesTheBytesAndTheirHash) {
  constexpr size_t kBlock = size_t{256} << 10;
  std::vector<unsigned char> from(3 * kBlock + 17);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 2654435761u >> 13);
  for (size_t size : {size_t{0}, size_t{1}, size_t{1000}, kBlock - 1, kBlock, kBlock + 1, from.size()}) {
    std::vector<unsigned char> to(from.size(), 0xee);
    EXPECT_EQ(copyAndHash(to.data(), from.data(), size), hashOfBytes(from.data(), size)) << size;
    EXPECT_TRUE(std::equal(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(size), to.begin())) << size;
    EXPECT_TRUE(size == to.size() || to[size] == 0xee) << size;
  }
}

}  // namespace
}  // namespace popart
