// The same operation on all processes of a job: layouts, and what its inputs are and its results have to be.
#pragma once
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <popart/half.hpp>

#include "exchange/schedule.hpp"
#include "exchange/tree.hpp"
#include "unit/exchange/flat_tree.hpp"

namespace popart::exchange {

inline ReplicaLayout layoutOf(const std::vector<int> &counts) {
  std::vector<std::string> hosts;
  for (size_t p = 0; p < counts.size(); ++p) hosts.push_back("host" + std::to_string(p / 2));
  return {counts, hosts};
}

// Elements of one memory, by operand; whatever their type, as floats.
using Values = std::vector<std::vector<float>>;

inline Values valuesOf(const std::vector<int64_t> &sizes, float value) {
  Values values;
  for (const int64_t n : sizes) values.emplace_back(static_cast<size_t>(n), value);
  return values;
}

// Marks elements that nothing has written.
constexpr float kUnwritten = 12345.0f;

// Operands of every member of a group, and from them what members contribute and get, from the definitions.
class GroupValues {
 public:
  GroupValues(const ExchangeSpec &spec, unsigned seed) : spec_(spec) {
    std::mt19937 random(seed);
    for (int m = 0; m < spec.groupSize; ++m) {
      Values value = valuesOf(spec.elements, 0);
      for (std::vector<float> &operand : value)
        for (float &x : operand) x = asElement(mixedFloat(random));
      operands_.push_back(value);
    }
  }

  const Values &operands(int member) const { return operands_[static_cast<size_t>(member)]; }

  // What a process with members [first, first + count) puts in.
  std::vector<Values> inputs(int first, int count) const {
    std::vector<Values> all;
    if (reduces()) {
      for (const Node &n : termsOf(first, count, spec_.groupSize)) all.push_back(joined(n));
    } else if (spec_.operation == Operation::Broadcast) {
      if (first <= spec_.root && spec_.root < first + count) all.push_back(operands(spec_.root));
    } else {
      for (int m = first; m < first + count; ++m) all.push_back(operands(m));
    }
    return all;
  }

  // What it gets, by result. Elements that nothing is to write: kUnwritten.
  std::vector<Values> results(int first, int count) const {
    Values shared = valuesOf(spec_.resultElements, kUnwritten);
    if (spec_.operation == Operation::AllReduce) return {sums()};
    if (spec_.operation == Operation::Broadcast) return {operands(spec_.root)};
    if (spec_.operation == Operation::AllGather) {
      for (size_t o = 0; o < shared.size(); ++o)
        for (size_t i = 0; i < shared[o].size(); ++i)
          shared[o][i] = operands_[i / operands_[0][o].size()][o][i % operands_[0][o].size()];
      return {shared};
    }
    std::vector<Values> all;
    const Values sum = reduces() ? sums() : Values{};
    for (int m = first; m < first + count; ++m) {
      Values own = shared;
      for (size_t o = 0; o < own.size(); ++o) {
        const size_t chunk = own[o].size(), all_ = operands_[0][o].size();
        const auto at = static_cast<size_t>(m);
        if (spec_.operation == Operation::AllToAll) {
          const size_t each = all_ / operands_.size();
          for (size_t i = 0; i < chunk; ++i) own[o][i] = operands_[i / each][o][at * each + i % each];
        } else {
          const Values &from = reduces() ? sum : operands(m);
          for (size_t i = 0; i < chunk && at * chunk + i < all_; ++i) own[o][i] = from[o][at * chunk + i];
        }
      }
      all.push_back(own);
    }
    return all;
  }

  float asElement(float x) const { return spec_.type == DataType::FLOAT16 ? static_cast<float>(Half(x)) : x; }

 private:
  bool reduces() const {
    return spec_.operation == Operation::AllReduce ||
           (spec_.operation == Operation::ReduceScatter && spec_.join != executable::Join::Keep);
  }
  float joined(float a, float b) const { return spec_.join == executable::Join::Mul ? a * b : a + b; }

  Values joined(const Node &n) const {
    return flatTree(operands_, n.level, n.index, [&](Values a, const Values &b) {
      for (size_t o = 0; o < a.size(); ++o)
        for (size_t i = 0; i < a[o].size(); ++i) a[o][i] = joined(a[o][i], b[o][i]);
      return a;
    });
  }
  Values sums() const {
    Values all = joined(termsOf(0, spec_.groupSize, spec_.groupSize)[0]);
    for (std::vector<float> &operand : all)
      for (float &x : operand) x = asElement(x);
    return all;
  }

  ExchangeSpec spec_;
  std::vector<Values> operands_;
};

// Operations of all kinds over groups of `size` members, on operands of several sizes: longer than many cache lines,
// shorter than one, and empty.
inline std::vector<ExchangeSpec> specsOf(int size, int stride = 1) {
  using executable::Join;
  const int64_t n = size;
  const std::vector<int64_t> sizes{700, 7, 0, 130};
  std::vector<int64_t> chunks, gathered, divided;
  for (const int64_t s : sizes) {
    chunks.push_back((s + n - 1) / n);
    gathered.push_back(std::max<int64_t>(s * n - 3, 0));
    divided.push_back(s * n);
  }
  return {{Operation::AllReduce, Join::Add, DataType::FLOAT, size, stride, 0, 0, sizes, sizes},
          {Operation::AllReduce, Join::Add, DataType::FLOAT16, size, stride, 0, 0, sizes, sizes},
          {Operation::AllReduce, Join::Add, DataType::FLOAT, size, stride, 0, 0, {1}, {1}},
          {Operation::ReduceScatter, Join::Add, DataType::FLOAT, size, stride, 0, 0, sizes, chunks},
          {Operation::ReduceScatter, Join::Add, DataType::FLOAT16, size, stride, 0, 0, sizes, chunks},
          {Operation::ReduceScatter, Join::Keep, DataType::FLOAT, size, stride, 0, 0, sizes, chunks},
          {Operation::AllGather, Join::Add, DataType::FLOAT, size, stride, 0, 0, sizes, gathered},
          {Operation::Broadcast, Join::Add, DataType::FLOAT, size, stride, 0, size / 2, sizes, sizes},
          {Operation::Broadcast, Join::Add, DataType::FLOAT, size, stride, 0, size - 1, {3}, {3}},
          {Operation::AllToAll, Join::Add, DataType::FLOAT, size, stride, 0, 0, divided, divided}};
}

// Costs with which either algorithm is chosen wherever it can be.
constexpr LinkCost kForDirect{1e9, 1, 1e9}, kForHalving{1, 1e9, 1e-9};

// Counts of replicas in `processes` processes: one for each, several, more for the first or the last, fewer for the
// last, mixed; of many processes, some of these.
inline std::vector<std::vector<int>> countsFor(int processes) {
  const auto n = static_cast<size_t>(processes);
  std::vector<std::vector<int>> all{std::vector<int>(n, 1), std::vector<int>(n, 2)};
  all.emplace_back();
  for (int p = 0; p < processes; ++p) all.back().push_back(1 + p * 7 % 5);
  if (processes > 8 && processes != 16) return all;
  all.emplace_back(n, 3);
  all.emplace_back(n, 4).back() = 1;
  all.emplace_back(n, 1).front() = 5;
  all.emplace_back(n, 1).back() = 4;
  return all;
}

}  // namespace popart::exchange
