// Storages: joining adds up lifetimes, and the plan repeats a joined storage's place.
#include "memory/storages.hpp"

#include <gtest/gtest.h>

#include <popart/error.hpp>

#include "memory/plan.hpp"

namespace popart::memory {
namespace {

TEST(Storages, storages_of_different_times_share_the_arena) {
  Storages s;
  const int a = s.add(Place::Arena, 100, -1, "a"), b = s.add(Place::Arena, 100, -1, "b");
  s.define(a, 0), s.use(a, 1), s.define(b, 2), s.use(b, 3);
  const Storages::Placed plan = s.place();
  EXPECT_EQ(plan.storages[a].offset, plan.storages[b].offset);
  EXPECT_EQ(plan.arenaBytes, 128);
}

TEST(Storages, a_join_covers_both_lifetimes_and_the_larger_size) {
  Storages s;
  const int a = s.add(Place::Arena, 64, -1, "a"), b = s.add(Place::Arena, 256, -1, "b"),
            c = s.add(Place::Arena, 64, -1, "c");
  s.define(a, 0), s.use(a, 1), s.define(b, 4), s.use(b, 5), s.define(c, 2), s.use(c, 3);
  s.join(a, b);
  EXPECT_EQ(s.find(a), s.find(b));
  EXPECT_EQ(s.firstDefinition(a), 0);
  EXPECT_EQ(s.lastUse(a), 5);
  EXPECT_EQ(s.bytes(a), 256);
  const Storages::Placed plan = s.place();
  EXPECT_EQ(plan.storages[a].offset, plan.storages[b].offset);
  EXPECT_NE(plan.storages[c].offset, plan.storages[a].offset);
  EXPECT_EQ(plan.arenaBytes, 256 + 64);
}

TEST(Storages, variables_and_constants_stay_outside_the_arena) {
  Storages s;
  const int v = s.add(Place::Variable, 1000, 3, "v"), a = s.add(Place::Arena, 10, -1, "a");
  s.define(a, 0), s.use(a, 2), s.use(v, 1);
  s.join(a, v);
  const Storages::Placed plan = s.place();
  EXPECT_EQ(plan.arenaBytes, 0);
  EXPECT_EQ(plan.storages[a].place, Place::Variable);
  EXPECT_EQ(plan.storages[a].offset, 3);
}

TEST(Storages, kept_storages_live_over_the_whole_range) {
  Storages s;
  const int a = s.add(Place::Arena, 64, -1, "a"), b = s.add(Place::Arena, 64, -1, "b");
  s.keep(a, 0, 9);
  s.define(b, 5), s.use(b, 6);
  EXPECT_NE(s.place().storages[a].offset, s.place().storages[b].offset);
}

TEST(Storages, slices_have_the_memory_and_the_lifetime_of_the_whole) {
  Storages s;
  const int whole = s.add(Place::Arena, 512, -1, "whole"), inner = s.addSlice(384, whole, 128, "inner"),
            part = s.addSlice(128, inner, 64, "part"), other = s.add(Place::Arena, 64, -1, "other");
  s.define(part, 1), s.define(inner, 2), s.define(whole, 3), s.use(part, 6), s.define(other, 5), s.use(other, 5);
  EXPECT_EQ(s.wholeOf(part), whole);
  EXPECT_TRUE(s.hasSlices(whole) && s.hasSlices(inner) && !s.hasSlices(part));
  EXPECT_NE(s.place(part), Place::Arena) << "nothing is written in the place of a slice";
  EXPECT_EQ(s.firstDefinition(whole), 1);
  EXPECT_EQ(s.lastUse(whole), 6);
  const Storages::Placed plan = s.place();
  EXPECT_EQ(plan.arenaBytes, 512 + 64);
  EXPECT_EQ(plan.storages[inner].offset, plan.storages[whole].offset + 128);
  EXPECT_EQ(plan.storages[part].offset, plan.storages[whole].offset + 192);
  EXPECT_EQ(plan.storages[part].place, Place::Arena);
  EXPECT_EQ(plan.storages[part].whole, whole);
  EXPECT_EQ(plan.storages[whole].whole, -1);
}

TEST(Storages, a_plan_with_a_slice_outside_of_the_whole_is_refused) {
  MemoryPlan plan;
  plan.arenaBytes = 256;
  plan.storages.resize(2);
  plan.storages[0] = {.bytes = 128, .offset = 64, .first = 0, .last = 4, .name = "whole"};
  plan.storages[1] = {.bytes = 64, .offset = 128, .first = 1, .last = 3, .name = "slice", .whole = 0};
  EXPECT_NO_THROW(verify(plan));
  plan.storages[1].offset = 160;
  EXPECT_THROW(verify(plan), internal_error);
  plan.storages[1].offset = 128, plan.storages[1].last = 5;
  EXPECT_THROW(verify(plan), internal_error);
}

TEST(Storages, what_is_never_used_takes_no_memory) {
  Storages s;
  s.add(Place::Arena, 1 << 20, -1, "unused");
  EXPECT_EQ(s.place().arenaBytes, 0);
}

}  // namespace
}  // namespace popart::memory
