// Layouts as values: one object per name, names that damaged programs may hold, and conversions there and back.
#include "executable/layout.hpp"

#include <gtest/gtest.h>

#include "../support/message_of.hpp"
#include "../support/random_floats.hpp"
#include "support/counting_device/reversed.hpp"

namespace popart::executable {
namespace {

using test::messageOf;

constexpr const char *kNames[] = {"channels_last",   "channels_last_of32", "packed16", "packed_t16",
                                  "packed_conv16g1", "packed_conv_t16g2",  "reversed"};

TEST(Layout, is_one_object_per_name) {
  for (const char *name : kNames) {
    ASSERT_NE(layoutNamed(name), nullptr);
    EXPECT_EQ(layoutNamed(name), layoutNamed(layoutNamed(name)->name()));
    EXPECT_EQ(layoutName(layoutNamed(name)), name);
  }
  EXPECT_EQ(layoutNamed("packed016"), layoutNamed("packed16"));
  EXPECT_EQ(layoutNamed("channels_last"), channelsLast());
  EXPECT_EQ(layoutNamed("reversed"), test::reversed());
  EXPECT_EQ(layoutNamed(""), nullptr);
  EXPECT_EQ(layoutNamed("plain"), nullptr);
}

TEST(Layout, refuses_other_names_and_lists_the_families) {
  for (const char *name : {"packed", "packed0", "packed-1", "packed16g2", "packed_conv16", "packed_conv16g0",
                           "packed_16", "channels_last2", "channels_last_of0", "packed99999999999"}) {
    const std::string message = messageOf([&] { layoutNamed(name); });
    EXPECT_NE(message.find("got '" + std::string(name) +
                           "', expected one of plain, channels_last, channels_last_of<channels>, packed<columns>"),
              std::string::npos)
        << message;
  }
}

TEST(Layout, refuses_shapes_it_does_not_describe) {
  const TensorInfo vector(DataType::FLOAT, Shape{5}), odd(DataType::FLOAT, Shape{5, 3, 2});
  for (const char *name : {"channels_last", "packed16", "packed_conv16g1"})
    EXPECT_NE(messageOf([&] { layoutNamed(name)->bytes(vector); }).find("does not describe"), std::string::npos)
        << name;
  EXPECT_NE(messageOf([&] { layoutNamed("packed_conv16g2")->bytes(odd); }).find("does not describe"),
            std::string::npos);
}

TEST(Layout, gives_back_the_bits_it_was_given) {
  for (const char *name : kNames)
    for (const Shape &shape : {Shape{6, 5, 3, 2}, Shape{16, 32, 1}, Shape{40, 17, 2}, Shape{4, 0, 3}}) {
      const Layout &layout = *layoutNamed(name);
      const TensorInfo info(DataType::FLOAT, shape);
      const std::vector<float> plain = test::randomFloats(info.nelms(), 1);
      std::vector<float> stored(static_cast<size_t>(layout.bytes(info)) / sizeof(float), 7), back(plain.size(), 8);
      ASSERT_GE(stored.size(), plain.size());
      layout.pack(info, plain.data(), stored.data());
      layout.unpack(info, stored.data(), back.data());
      EXPECT_EQ(back, plain) << name;
      // Padding is zero: the elements are all that is left.
      EXPECT_EQ(std::count_if(stored.begin(), stored.end(), [](float v) { return v != 0; }),
                std::count_if(plain.begin(), plain.end(), [](float v) { return v != 0; }))
          << name;
    }
}

TEST(Layout, knows_where_channels_last_is_plain) {
  const auto isPlain = [](Shape shape) {
    return channelsLast()->isPlain(TensorInfo(DataType::FLOAT, std::move(shape)));
  };
  EXPECT_TRUE(isPlain({2, 1, 4, 4}) && isPlain({2, 3, 1, 1}) && isPlain({2, 3}) && isPlain({2, 0, 3}));
  EXPECT_FALSE(isPlain({2, 3, 4}));
}

}  // namespace
}  // namespace popart::executable
