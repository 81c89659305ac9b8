// Philox4x32-10 against the known answers of its authors' Random123 library, and the seed streams made from it.
#include "base/philox.hpp"

#include <set>

#include <gtest/gtest.h>

namespace popart {
namespace {

TEST(Philox, gives_the_published_known_answers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, block_index_uses_both_counter_words) {
  EXPECT_EQ(randomBlock({1, 2}, (uint64_t{3} << 32) | 5), philox4x32({5, 3, 0, 0}, {1, 2}));
}

TEST(Philox, uniform_is_in_the_half_open_unit_interval) {
  EXPECT_EQ(uniformFromWord(0), 0.0f);
  EXPECT_LT(uniformFromWord(0xffffffffu), 1.0f);
}

TEST(Philox, modified_seeds_keep_word_0_and_differ_in_word_1) {
  std::set<uint32_t> seen;
  for (uint32_t i = 0; i < 1000; ++i) {
    const PhiloxKey seed = modifySeed({7, 9}, i);
    EXPECT_EQ(seed[0], 7u);
    seen.insert(seed[1]);
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(modifySeed({7, 9}, 3), modifySeed({7, 11}, 1));
}

TEST(Philox, advanced_seeds_carry_between_words_and_do_not_repeat) {
  EXPECT_EQ(advanceSeed({0, 0}), (PhiloxKey{0x7F4A7C15u, 0x9E3779B9u}));
  EXPECT_EQ(advanceSeed({0xffffffffu, 0}), (PhiloxKey{0x7F4A7C14u, 0x9E3779BAu}));
  std::set<PhiloxKey> seen;
  PhiloxKey seed{42, 0};
  for (int i = 0; i < 1000; ++i) seen.insert(seed = advanceSeed(seed));
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace popart
