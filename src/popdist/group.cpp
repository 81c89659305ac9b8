#include "popdist/group.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include <popart/error.hpp>

#include "base/element_types.hpp"
#include "exchange/join.hpp"
#include "exchange/tree.hpp"

namespace popdist {
namespace {

using popart::DataType;
using popart::formatText;
using popart::toText;
using popart::executable::Join;
namespace exchange = popart::exchange;

std::vector<int64_t> firstNumbers(int count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Where the parts of `count` things begin, one for each of `parts`, and where the last ends.
std::vector<size_t> boundsOf(size_t count, size_t parts) {
  std::vector<size_t> bounds;
  for (size_t i = 0; i <= parts; ++i) bounds.push_back(count / parts * i + std::min(i, count % parts));
  return bounds;
}

std::string joinedTexts(const std::vector<std::string> &texts) {
  std::string all;
  for (const std::string &one : texts) all += one;
  return all;
}

// The elements of all texts, which have equally many, joined by the tree.
std::string joinedElements(const std::vector<std::string> &texts, DataType type, Join how) {
  using exchange::Width;
  const size_t elementBytes = static_cast<size_t>(popart::getDataTypeInfo(type).nbytes);
  const size_t termBytes = static_cast<size_t>(popart::getDataTypeInfo(exchange::termType(type)).nbytes);
  const auto count = static_cast<int64_t>(texts.front().size() / elementBytes);
  const exchange::JoinTerms widen = exchange::joinFunction(type, Width::Element, Width::Element);
  const exchange::JoinTerms join = exchange::joinFunction(type, Width::Term, Width::Term);
  const int members = static_cast<int>(texts.size());
  std::vector<std::string> terms;
  std::vector<exchange::Node> nodes;
  for (int m = 0; m < members; ++m) {
    const char *elements = texts[static_cast<size_t>(m)].data();
    widen(Join::Keep, elements, elements, terms.emplace_back(static_cast<size_t>(count) * termBytes, '\0').data(),
          count);
    nodes.push_back(exchange::termsOf(m, 1, members).front());
  }
  for (const exchange::JoinTree::Step &step : exchange::joinTree(nodes, members).steps) {
    std::string &left = terms[static_cast<size_t>(step.left)];
    join(how, left.data(), terms[static_cast<size_t>(step.right)].data(), left.data(), count);
  }
  std::string result(static_cast<size_t>(count) * elementBytes, '\0');
  exchange::storeFunction(type)(terms.front().data(), result.data(), count);
  return result;
}

}  // namespace

std::optional<DataType> joinedType(DataType type, Join how) {
  if (how == Join::Add && type == DataType::COMPLEX64) return DataType::FLOAT;
  if (how == Join::Add && type == DataType::COMPLEX128) return DataType::DOUBLE;
  const bool isJoined = popart::forElement(popart::kRealElements, type, [](auto) {});
  return isJoined && (how != Join::Add || type != DataType::BOOL) ? std::optional(type) : std::nullopt;
}

Group::Group() : instances_{0} {}

Group::Group(std::shared_ptr<exchange::HostGroup> hosts) : Group(hosts, firstNumbers(hosts->members())) {}

Group::Group(std::shared_ptr<exchange::HostGroup> hosts, std::vector<int64_t> instances)
    : hosts_(std::move(hosts)), instances_(std::move(instances)) {}

std::shared_ptr<Group> Group::subset(std::span<const int64_t> instances, std::string_view what) const {
  std::vector<int64_t> wanted(instances.begin(), instances.end());
  std::ranges::sort(wanted);
  wanted.erase(std::ranges::unique(wanted).begin(), wanted.end());
  if (wanted.empty() || !std::ranges::includes(instances_, wanted))
    throw std::invalid_argument(
        formatText("{}: got {}, expected some of {}.", {toText(what), toText(wanted), toText(instances_)}));
  if (!hosts_) return std::make_shared<Group>();
  std::vector<int> members;
  for (const int64_t instance : wanted)
    members.push_back(static_cast<int>(std::ranges::find(instances_, instance) - instances_.begin()));
  std::shared_ptr<exchange::HostGroup> some = hosts_->subset(members);
  return some ? std::shared_ptr<Group>(new Group(std::move(some), std::move(wanted))) : nullptr;
}

std::vector<std::string> Group::exchange(std::span<const std::string_view> parts, std::string_view call) {
  if (hosts_) return hosts_->exchange(parts, formatText("popdist: {}", {toText(call)}));
  return {parts.begin(), parts.end()};
}

std::vector<std::string> Group::gather(std::string_view given, std::string_view call) {
  return exchange(std::vector<std::string_view>(instances_.size(), given), call);
}

void Group::agree(const std::string &call) {
  const std::vector<std::string> calls = gather(call, call);
  for (size_t m = 0; m < calls.size(); ++m)
    if (calls[m] != calls.front())
      throw std::invalid_argument(formatText(
          "Instance {} calls {}, but instance {} calls {}. Call the same collectives in the same order, with "
          "arrays of one type and shape.",
          {toText(instances_[m]), calls[m], toText(instances_.front()), calls.front()}));
}

std::string Group::broadcast(std::string_view given, int root, std::string_view call) {
  std::vector<std::string_view> parts(instances_.size());
  const std::vector<size_t> bounds = boundsOf(given.size(), parts.size());
  if (member() == root)
    for (size_t m = 0; m < parts.size(); ++m) parts[m] = given.substr(bounds[m], bounds[m + 1] - bounds[m]);
  const std::string own = exchange(parts, call)[static_cast<size_t>(root)];
  return joinedTexts(gather(own, call));
}

std::string Group::reduce(std::string_view given, DataType type, Join how, std::string_view call) {
  const size_t bytes = static_cast<size_t>(popart::getDataTypeInfo(type).nbytes);
  const std::vector<size_t> bounds = boundsOf(given.size() / bytes, instances_.size());
  std::vector<std::string_view> parts;
  for (size_t m = 0; m < instances_.size(); ++m)
    parts.push_back(given.substr(bounds[m] * bytes, (bounds[m + 1] - bounds[m]) * bytes));
  return joinedTexts(gather(joinedElements(exchange(parts, call), type, how), call));
}

}  // namespace popdist
