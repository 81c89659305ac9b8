// Union of values that share memory, and their placement.
#include "memory/storages.hpp"

#include <algorithm>

#include "memory/arena.hpp"

namespace popart::memory {

int Storages::add(Place place, int64_t bytes, int64_t index, std::string name) {
  items_.push_back({place, bytes, index, std::move(name), -1, -1});
  return static_cast<int>(sets_.add());
}

int Storages::addRow(int64_t bytes, int stack, int64_t offset, int64_t stride, std::string name) {
  const int s = add(Place::Row, bytes, offset, std::move(name));
  items_.back().stack = stack;
  items_.back().stride = stride;
  return s;
}

void Storages::makeScanRow(int s, int stack) {
  Item &item = items_[find(s)];
  item.place = Place::Row;
  item.index = 0;
  item.stack = stack;
  item.stride = item.bytes;
}

int Storages::find(int s) const { return static_cast<int>(sets_.find(static_cast<uint32_t>(s))); }

void Storages::join(int s, int target) {
  s = find(s);
  target = find(target);
  if (s == target) return;
  sets_.join(static_cast<uint32_t>(s), static_cast<uint32_t>(target));
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

Storages::Placed Storages::place() const {
  std::vector<Interval> intervals;
  std::vector<int> owner;
  for (size_t s = 0; s < items_.size(); ++s) {
    const Item &item = items_[s];
    if (find(static_cast<int>(s)) != static_cast<int>(s) || item.place != Place::Arena || item.first < 0) continue;
    intervals.push_back({item.bytes, item.first, item.last});
    owner.push_back(static_cast<int>(s));
  }
  const ArenaPlan arena = planArena(intervals);
  std::vector<int64_t> offset(items_.size(), 0);
  for (size_t i = 0; i < owner.size(); ++i) offset[owner[i]] = arena.offsets[i];
  Placed result;
  for (size_t s = 0; s < items_.size(); ++s) {
    const int root = find(static_cast<int>(s));
    const Item &item = items_[root];
    result.storages.push_back({item.place, item.bytes, item.place == Place::Arena ? offset[root] : item.index,
                               item.first, item.last, items_[s].name, item.stack, item.stride});
  }
  result.arenaBytes = arena.bytes;
  result.largestLiveSetBytes = arena.largestLiveSet;
  return result;
}

}  // namespace popart::memory
