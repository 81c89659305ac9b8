// Values of variables in parts: cutting and joining, with padding, groups and several values.
#include "transforms/shards.hpp"

#include <gtest/gtest.h>
#include <numeric>

#include <popart/error.hpp>

namespace popart::transforms {
namespace {

TensorData numbers(const Shape &shape) {
  std::vector<float> values(static_cast<size_t>(elementCount(shape)));
  std::iota(values.begin(), values.end(), 1.0f);
  return TensorData::of<float>(shape, values);
}

TEST(Shards, parts_are_chunks_padded_with_zeros) {
  const Sharding sharding{TensorInfo(DataType::FLOAT, {5}), VariableSettings(), ReplicaGrouping(4)};
  EXPECT_EQ(sharding.partInfo(), TensorInfo(DataType::FLOAT, {2}));
  EXPECT_EQ(sharding.cut(numbers({5})).asDoubles(), (std::vector<double>{1, 2, 3, 4, 5, 0, 0, 0}));
  EXPECT_EQ(sharding.join(sharding.cut(numbers({5}))), numbers({5}));
}

TEST(Shards, more_members_than_elements_leave_empty_parts) {
  const Sharding sharding{TensorInfo(DataType::FLOAT, {3}), VariableSettings(), ReplicaGrouping(8)};
  EXPECT_EQ(sharding.cut(numbers({3})).asDoubles(), (std::vector<double>{1, 2, 3, 0, 0, 0, 0, 0}));
  EXPECT_EQ(sharding.join(sharding.cut(numbers({3}))), numbers({3}));
}

TEST(Shards, groups_of_replicas_have_the_same_parts) {
  const Sharding sharding{TensorInfo(DataType::FLOAT, {2, 2}), VariableSettings(), ReplicaGrouping(4, 2, 2)};
  EXPECT_EQ(sharding.cut(numbers({2, 2})).asDoubles(), (std::vector<double>{1, 2, 1, 2, 3, 4, 3, 4}));
  EXPECT_EQ(sharding.join(sharding.cut(numbers({2, 2}))), numbers({2, 2}));
}

TEST(Shards, each_group_shares_out_its_own_value) {
  const VariableSettings pairs(2, 2, VariableRetrievalMode::AllReplicas);
  const Sharding sharding{TensorInfo(DataType::FLOAT, {3}), pairs, ReplicaGrouping(4, 2, 2)};
  EXPECT_EQ(sharding.hostInfo().shape(), (Shape{2, 3}));
  const TensorData parts = sharding.cut(numbers({2, 3}));
  EXPECT_EQ(parts.asDoubles(), (std::vector<double>{1, 2, 4, 5, 3, 0, 6, 0}));
  EXPECT_EQ(sharding.join(parts), numbers({2, 3}));
  EXPECT_EQ(sharding.joinForEach(parts).asDoubles(), (std::vector<double>{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}));
}

TEST(Shards, values_of_another_shape_are_refused) {
  const Sharding sharding{TensorInfo(DataType::FLOAT, {5}), VariableSettings(), ReplicaGrouping(2)};
  EXPECT_THROW(sharding.cut(numbers({6})), error);
}

}  // namespace
}  // namespace popart::transforms
