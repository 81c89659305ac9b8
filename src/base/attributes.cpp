// Sorted list of attributes.
#include <popart/attributes.hpp>

#include <algorithm>

namespace popart {
namespace {
auto position(std::vector<Attributes::Entry> &entries, std::string_view name) {
  return std::lower_bound(entries.begin(), entries.end(), name,
                          [](const auto &e, std::string_view n) { return e.first < n; });
}
}  // namespace

const AttributeValue *Attributes::find(std::string_view name) const {
  for (const auto &e : entries_)
    if (e.first == name) return &e.second;
  return nullptr;
}

void Attributes::set(std::string_view name, AttributeValue value) {
  auto it = position(entries_, name);
  if (it != entries_.end() && it->first == name) {
    it->second = std::move(value);
  } else {
    entries_.emplace(it, std::string(name), std::move(value));
  }
}

void Attributes::erase(std::string_view name) {
  auto it = position(entries_, name);
  if (it != entries_.end() && it->first == name) entries_.erase(it);
}

}  // namespace popart
