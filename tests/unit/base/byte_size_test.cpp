// Sizes as text, and that the machine's are plausible.
#include "base/byte_size.hpp"

#include <gtest/gtest.h>

#include <popart/error.hpp>

namespace popart {
namespace {

TEST(ByteSize, units_are_powers_of_1024) {
  EXPECT_EQ(byteSizeFromText("0", "x"), 0);
  EXPECT_EQ(byteSizeFromText("1000", "x"), 1000);
  EXPECT_EQ(byteSizeFromText("3K", "x"), 3 << 10);
  EXPECT_EQ(byteSizeFromText("64M", "x"), 64 << 20);
  EXPECT_EQ(byteSizeFromText("2G", "x"), int64_t{2} << 30);
}

TEST(ByteSize, other_text_is_refused) {
  for (const char *text : {"", "much", "-1", "5T", "99999999999G", "1 M", "M"}) {
    try {
      byteSizeFromText(text, "the limit");
      ADD_FAILURE() << text;
    } catch (const error &e) {
      EXPECT_EQ(std::string(e.what()).find("the limit: got '"), 0u);
    }
  }
}

TEST(ByteSize, the_machine_has_memory_and_some_is_free) {
  EXPECT_GT(machineMemoryBytes(), int64_t{64} << 20);
  EXPECT_GT(freeMemoryBytes(), 0);
  EXPECT_LE(freeMemoryBytes(), machineMemoryBytes());
}

}  // namespace
}  // namespace popart
