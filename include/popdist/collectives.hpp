// Collectives of hosts: operations on arrays by the instances of a job, or some of them.
//
// An array is a contiguous range of numbers (std::vector, std::array, std::span): integers, float, double,
// popart::Half, popart::BFloat16, and for sums std::complex of float and double. Each collective first compares the
// members' calls: operation, type, size and name. It throws the same std::invalid_argument on all members if one
// differs. A communicator is a number of registerCommunicator. Inside execute_on_instances, the default communicator
// has the instances of that call. In a job of several instances, every collective waits for its members, for at most
// POPDIST_TIMEOUT seconds. After that, or if communication has ended, all instances throw popart::runtime_error, which
// names the missing ones. Each collective begins communication if that has not happened, and throws as init.
#pragma once
#include <complex>
#include <cstring>
#include <ranges>
#include <stdexcept>
#include <string>
#include <vector>

#include <popart/datatype.hpp>
#include <popart/half.hpp>
#include <popdist/context.hpp>

namespace popdist {

// How elements are combined. Sums are those of a balanced binary tree over the members, like sums of gradients over
// replicas; those of 16-bit types are rounded once. Mean is the sum divided by the number of members.
enum class Reduction { Sum, Mean, Min, Max };

// Collectives of bytes, of the same number on all members, on which those of arrays are built.
namespace bytes {

// Memory of this instance.
struct Memory {
  const void *data;  // in C order
  size_t size;       // in bytes
  std::string what;  // its description in messages: "float32 [3]"
};
// Number of instances in a communicator. Throws std::invalid_argument if it is unknown or does not have this instance.
int members(int64_t communicator);
// The combined elements; for Mean, their sum. Throws std::invalid_argument for a type without this operation.
std::string allReduce(const Memory &values, popart::DataType type, Reduction how, const std::string &name,
                      int64_t communicator);
// The values of each member, in member order.
std::vector<std::string> allGather(const Memory &values, const std::string &name, int64_t communicator);
// The values of member `root`. Throws std::invalid_argument if there is no such member.
std::string broadcast(const Memory &values, int64_t root, const std::string &name, int64_t communicator);

// Whether T is a std::complex.
template <class T>
constexpr bool isComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// Element type of T.
template <class T>
popart::DataType typeOf() {
  if constexpr (std::is_same_v<T, std::complex<float>>)
    return popart::DataType::COMPLEX64;
  else if constexpr (std::is_same_v<T, std::complex<double>>)
    return popart::DataType::COMPLEX128;
  else
    return popart::getDataType<T>();
}

// The memory of a range.
template <std::ranges::contiguous_range R>
Memory of(const R &values) {
  const size_t count = std::ranges::size(values);
  using T = std::ranges::range_value_t<R>;
  const std::string type = popart::getDataTypeInfo(typeOf<T>()).lcase;
  return {std::ranges::data(values), count * sizeof(T), type + " [" + std::to_string(count) + "]"};
}

// Bytes as elements.
template <class T>
void append(const std::string &from, std::vector<T> &to) {
  const size_t count = to.size();
  to.resize(count + from.size() / sizeof(T));
  if (!from.empty()) std::memcpy(static_cast<void *>(to.data() + count), from.data(), from.size());
}

}  // namespace bytes

// Waits until all instances, or those of the communicator, have called it; returns at once in a plain process.
void synchronize(uint32_t communicator = defaultCommunicatorId());

// The arrays of all members, combined element by element; the same bits on all of them. Throws std::invalid_argument
// for a mean of integers, and for the minimum or maximum of complex numbers.
template <std::ranges::contiguous_range R>
std::vector<std::ranges::range_value_t<R>> allReduce(const R &values, Reduction how = Reduction::Sum,
                                                     const std::string &name = {},
                                                     uint32_t communicator = defaultCommunicatorId()) {
  using T = std::ranges::range_value_t<R>;
  if constexpr (std::is_integral_v<T>)
    if (how == Reduction::Mean)
      throw std::invalid_argument("allReduce: got integers for a mean, expected floating-point numbers. Convert them.");
  std::vector<T> result;
  bytes::append(bytes::allReduce(bytes::of(values), bytes::typeOf<T>(), how, name, communicator), result);
  if (how == Reduction::Mean) {
    using Number = std::conditional_t<bytes::isComplex<T> || std::is_same_v<T, double>, T, float>;
    const auto divisor = static_cast<Number>(static_cast<float>(bytes::members(communicator)));
    for (T &value : result) value = static_cast<T>(static_cast<Number>(value) / divisor);
  }
  return result;
}

// The arrays of all members, concatenated in member order.
template <std::ranges::contiguous_range R>
std::vector<std::ranges::range_value_t<R>> allGather(const R &values, const std::string &name = {},
                                                     uint32_t communicator = defaultCommunicatorId()) {
  std::vector<std::ranges::range_value_t<R>> result;
  for (const std::string &one : bytes::allGather(bytes::of(values), name, communicator)) bytes::append(one, result);
  return result;
}

// The array of member `root`, on every member. Throws std::invalid_argument if there is no such member.
template <std::ranges::contiguous_range R>
std::vector<std::ranges::range_value_t<R>> broadcast(const R &values, uint32_t root = 0, const std::string &name = {},
                                                     uint32_t communicator = defaultCommunicatorId()) {
  std::vector<std::ranges::range_value_t<R>> result;
  bytes::append(bytes::broadcast(bytes::of(values), root, name, communicator), result);
  return result;
}

}  // namespace popdist
