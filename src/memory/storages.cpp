// Union of values that share memory, and their placement.
#include "memory/storages.hpp"

#include <algorithm>
#include <map>

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

int Storages::addRowBefore(int stack, int initial, int64_t bytes, std::string name) {
  const int s = addRow(bytes, stack, -bytes, bytes, std::move(name));
  items_.back().initial = initial;
  return s;
}

int Storages::addSlice(int64_t bytes, int whole, int64_t offset, std::string name) {
  const int s = add(Place::Row, bytes, offset, std::move(name));
  items_.back().whole = whole;
  items_[find(whole)].hasSlices = true;
  return s;
}

int Storages::wholeOf(int s) const {
  s = find(s);
  while (items_[s].whole >= 0) s = find(items_[s].whole);
  return s;
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
  if (item.whole >= 0) define(item.whole, time);
}
void Storages::use(int s, int time) {
  Item &item = items_[find(s)];
  item.last = std::max(item.last, time);
  if (item.first < 0) item.first = time;
  if (item.whole >= 0) use(item.whole, time);
}
void Storages::keep(int s, int first, int last) {
  define(s, first);
  use(s, last);
}

namespace {

// Storages that are placed together: those of one lane, or all that are not specific to a lane.
struct Block {
  std::vector<int> storages;
  std::vector<Interval> intervals;
  void add(int storage, const Interval &interval) {
    storages.push_back(storage);
    intervals.push_back(interval);
  }
};

}  // namespace

Storages::Placed Storages::place(const LaneTimes &lanes) const {
  Block all;
  std::vector<Interval> values;                  // of `all`, without scratch memory
  std::map<std::pair<int, int>, Block> ofLanes;  // by section and lane
  for (size_t s = 0; s < items_.size(); ++s) {
    const Item &item = items_[s];
    const auto number = static_cast<int>(s);
    if (find(number) != number || item.place != Place::Arena || item.first < 0) continue;
    const LaneTimes::Where first = lanes.at(item.first), last = lanes.at(item.last);
    if (first.section >= 0 && first == last) {
      ofLanes[{first.section, first.lane}].add(number, {item.bytes, item.first, item.last});
    } else {
      all.add(number, {item.bytes, first.section < 0 ? item.first : lanes.range(first.section).first,
                       last.section < 0 ? item.last : lanes.range(last.section).second});
      if (!item.isScratch) values.push_back(all.intervals.back());
    }
  }
  std::vector<ArenaPlan> blocks;
  for (const auto &[where, block] : ofLanes) {
    const auto [first, last] = lanes.range(where.first);
    blocks.push_back(planArena(block.intervals));
    all.intervals.push_back({blocks.back().bytes, first, last});
    values.push_back(all.intervals.back());
  }
  const ArenaPlan arena = planArena(all.intervals);
  std::vector<int64_t> offset(items_.size(), 0);
  for (size_t i = 0; i < all.storages.size(); ++i) offset[static_cast<size_t>(all.storages[i])] = arena.offsets[i];
  size_t b = 0;
  for (const auto &[where, block] : ofLanes) {
    const int64_t start = arena.offsets[all.storages.size() + b];
    for (size_t i = 0; i < block.storages.size(); ++i)
      offset[static_cast<size_t>(block.storages[i])] = start + blocks[b].offsets[i];
    ++b;
  }
  Placed result;
  for (size_t s = 0; s < items_.size(); ++s) {
    const int root = find(static_cast<int>(s));
    const Item &item = items_[root];
    result.storages.push_back({item.place, item.bytes, item.place == Place::Arena ? offset[root] : item.index,
                               item.first, item.last, items_[s].name, item.stack, item.stride, item.initial});
    if (item.whole < 0) continue;
    Storage &slice = result.storages.back();
    slice.place = Place::Arena;
    slice.whole = wholeOf(root);
    slice.offset = offset[slice.whole];
    for (int at = root; items_[at].whole >= 0; at = find(items_[at].whole)) slice.offset += items_[at].index;
  }
  result.arenaBytes = arena.bytes;
  result.largestLiveSetBytes = arena.largestLiveSet;
  if (values.size() < all.intervals.size()) result.scratchBytes = arena.largestLiveSet - largestLiveSet(values);
  return result;
}

}  // namespace popart::memory
