// popart/raremap.hpp: the functions of a map, and copies that share nothing.
#include <gtest/gtest.h>

#include <popart/raremap.hpp>

namespace popart {
namespace {

TEST(RareMap, an_empty_one_has_the_functions_of_an_empty_map) {
  RareMap<float> map;
  EXPECT_EQ(sizeof(map), sizeof(void *));
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.size(), 0u);
  EXPECT_EQ(map.begin(), map.end());
  EXPECT_EQ(map.find("a"), map.end());
  EXPECT_FALSE(map.contains("a"));
  EXPECT_EQ(map.count("a"), 0u);
  EXPECT_EQ(map.erase("a"), 0u);
  EXPECT_THROW(map.at("a"), std::out_of_range);
}

TEST(RareMap, entries_are_found_changed_and_removed) {
  RareMap<std::string> map = {{"b", "2"}, {"a", "1"}};
  map["c"] = "3";
  map.emplace("a", "not used: the name exists");
  map.insert({"d", "4"});
  EXPECT_EQ((std::map<std::string, std::string>(map)),
            (std::map<std::string, std::string>{{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}}));
  EXPECT_EQ(map.find("c")->second, "3");
  EXPECT_EQ(map.erase("c"), 1u);
  EXPECT_FALSE(map.contains("c"));
}

TEST(RareMap, copies_share_nothing_and_one_without_entries_equals_an_empty_one) {
  RareMap<std::string> map = {{"a", "1"}};
  RareMap<std::string> copy = map;
  copy["a"] = "2";
  EXPECT_EQ(map.at("a"), "1");
  EXPECT_FALSE(map == copy);
  map = copy;
  EXPECT_TRUE(map == copy);
  map.erase("a");
  EXPECT_TRUE(map.empty());
  EXPECT_TRUE(map == RareMap<std::string>());
  RareMap<std::string> self = {{"a", "1"}};
  const RareMap<std::string> &same = self;
  self = same;
  EXPECT_EQ(self.at("a"), "1");
}

}  // namespace
}  // namespace popart
