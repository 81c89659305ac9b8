// Union of values that share memory, and their placement.
#include "lower/storage.hpp"

#include <algorithm>

#include "memory/arena.hpp"

namespace popart::lower {

int Storages::add(Place place, int64_t bytes, int64_t index, std::string name) {
  items_.push_back({place, bytes, index, std::move(name), -1, -1, -1});
  return static_cast<int>(items_.size()) - 1;
}

int Storages::find(int s) const {
  while (items_[s].parent >= 0) s = items_[s].parent;
  return s;
}

void Storages::join(int s, int target) {
  s = find(s);
  target = find(target);
  if (s == target) return;
  items_[s].parent = target;
  Item &t = items_[target];
  const Item &from = items_[s];
  t.bytes = std::max(t.bytes, from.bytes);
  if (from.first >= 0) t.first = t.first < 0 ? from.first : std::min(t.first, from.first);
  t.last = std::max(t.last, from.last);
}

void Storages::define(int s, int time) {
  Item &item = items_[find(s)];
  item.first = item.first < 0 ? time : std::min(item.first, time);
  item.last = std::max(item.last, time);
}
void Storages::use(int s, int time) {
  Item &item = items_[find(s)];
  item.last = std::max(item.last, time);
  if (item.first < 0) item.first = time;
}
void Storages::keep(int s, int first, int last) {
  define(s, first);
  use(s, last);
}

void Storages::drop(int s) { items_[find(s)].first = -1; }

Storages::Planned Storages::plan() const {
  std::vector<memory::Interval> intervals;
  std::vector<int> owner;
  for (size_t s = 0; s < items_.size(); ++s) {
    const Item &item = items_[s];
    if (item.parent >= 0 || item.place != Place::Arena || item.first < 0) continue;
    intervals.push_back({item.bytes, item.first, item.last});
    owner.push_back(static_cast<int>(s));
  }
  const memory::ArenaPlan arena = memory::planArena(intervals);
  std::vector<int64_t> offset(items_.size(), 0);
  Planned result;
  for (size_t i = 0; i < owner.size(); ++i) {
    offset[owner[i]] = arena.offsets[i];
    result.largest.push_back({items_[owner[i]].name, items_[owner[i]].bytes});
  }
  std::stable_sort(result.largest.begin(), result.largest.end(), [](auto &a, auto &b) { return a.bytes > b.bytes; });
  if (result.largest.size() > 8) result.largest.resize(8);
  for (size_t s = 0; s < items_.size(); ++s) {
    const int root = find(static_cast<int>(s));
    const Item &item = items_[root];
    result.buffers.push_back(
        {item.place, item.bytes, item.place == Place::Arena ? offset[root] : item.index, 0, items_[s].name});
  }
  result.arenaBytes = arena.bytes;
  result.largestLiveSetBytes = arena.largestLiveSet;
  return result;
}

}  // namespace popart::lower
