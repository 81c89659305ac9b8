// Decisions for the whole program, from the times at which each storage is read and written:
//   - a loop-carried value takes the memory of its initial value when nothing else reads that value later: a variable
//     that the program assigns, or a value whose last use is the loop;
//   - a variable is updated in place when every read of the old value comes before, or is in the same element-wise
//     kernel; otherwise the new value is copied at the end. Likewise for results and carries of loops;
//     A chain of kernels that each update a part of the variable works in it from the first one on;
//   - an element-wise kernel works in place on an input whose last use it is.
// Nothing is written into memory that another lane of the section uses at that time.
#include "memory/sharing.hpp"

#include <algorithm>
#include <climits>

namespace popart::memory {

void Sharing::run() {
  indexKernels();
  readAssignedVariables();
  shareFirstValues();
  readAssignedVariables();
  shareUpdates();
  shareCarries();
  shareInPlace();
  std::erase_if(assigns_, [&](const Assign &a) { return a.value < 0; });
}

void Sharing::readOutsideKernels(int s, int time) {
  storages_.use(s, time);
  outsideReads_[storages_.find(s)].insert(time);
}

void Sharing::addAssign(int variable, int value, Layouts layouts, int time) {
  assigns_.push_back({variable, value, layouts, time});
  storages_.use(value, time);
}

void Sharing::indexKernels() {
  for (size_t k = 0; k < kernels_.size(); ++k) {
    for (int s : kernels_[k].out)
      if (s >= 0) writers_.insert({storages_.find(s), static_cast<int>(k)});
    for (int s : kernels_[k].in)
      if (s >= 0) readers_.insert({storages_.find(s), static_cast<int>(k)});
  }
}

// The kernel that writes storage s, if there is exactly one.
const KernelUse *Sharing::writer(int s) const {
  const KernelUse *found = nullptr;
  for (auto it = writers_.lower_bound({storages_.find(s), 0}); it != writers_.end() && it->first == storages_.find(s);
       ++it) {
    if (found) return nullptr;
    found = &kernels_[it->second];
  }
  return found;
}

// Whether `value` may be written directly into `target`: no read of target's old contents follows. Reads of target
// after `last` see the new contents.
bool Sharing::canWriteInto(int value, int target, int last) const {
  if (storages_.place(value) != Place::Arena || storages_.find(value) == storages_.find(target)) return false;
  if (storages_.hasSlices(value)) return false;  // slices are written earlier
  if (storages_.bytes(value) != storages_.bytes(target)) return false;
  const KernelUse *producer = writer(value);
  if (!producer || usedByOtherLane(target, producer->time)) return false;
  const auto outside = outsideReads_.find(storages_.find(target));
  if (outside != outsideReads_.end()) {
    const auto next = outside->second.lower_bound(producer->time);
    if (next != outside->second.end() && *next <= last) return false;
  }
  for (auto it = readers_.lower_bound({storages_.find(target), 0});
       it != readers_.end() && it->first == storages_.find(target); ++it) {
    const KernelUse &reader = kernels_[it->second];
    if (reader.time < producer->time || reader.time > last) continue;
    if (&reader != producer) return false;
    for (size_t i = 0; i < reader.in.size(); ++i)
      for (size_t o = 0; o < reader.out.size(); ++o)
        if (reader.in[i] >= 0 && reader.out[o] >= 0 && storages_.find(reader.in[i]) == storages_.find(target) &&
            storages_.find(reader.out[o]) == storages_.find(value) &&
            !reader.kernel->canOverwrite(static_cast<int>(i), static_cast<int>(o)))
          return false;
  }
  return true;
}

void Sharing::joinInto(int value, int target) {
  const int from = storages_.find(value), to = storages_.find(target);
  storages_.join(from, to);
  for (auto *index : {&writers_, &readers_}) {
    std::vector<int> moved;
    for (auto it = index->lower_bound({from, 0}); it != index->end() && it->first == from; it = index->erase(it))
      moved.push_back(it->second);
    for (int k : moved) index->insert({to, k});
  }
  if (const auto outside = outsideReads_.find(from); outside != outsideReads_.end()) {
    const std::set<int> times = std::move(outside->second);
    outsideReads_.erase(outside);
    outsideReads_[to].insert(times.begin(), times.end());
  }
}

bool Sharing::readAfter(int s, int time) const {
  const auto outside = outsideReads_.find(storages_.find(s));
  if (outside != outsideReads_.end() && *outside->second.rbegin() > time) return true;
  for (auto it = readers_.lower_bound({storages_.find(s), 0}); it != readers_.end() && it->first == storages_.find(s);
       ++it)
    if (kernels_[it->second].time > time) return true;
  return false;
}

// Whether another lane uses the storage at this time, so that it must not be written.
bool Sharing::usedByOtherLane(int s, int time) const {
  if (lanes_.at(time).section < 0) return false;
  const int storage = storages_.find(s);
  if (const auto outside = outsideReads_.find(storage); outside != outsideReads_.end())
    for (const int t : outside->second)
      if (lanes_.areConcurrent(t, time)) return true;
  for (const auto *index : {&writers_, &readers_})
    for (auto it = index->lower_bound({storage, 0}); it != index->end() && it->first == storage; ++it)
      if (lanes_.areConcurrent(kernels_[static_cast<size_t>(it->second)].time, time)) return true;
  return false;
}

// If the value of an assign aliases another variable, it is copied at the end of the program.
void Sharing::readAssignedVariables() {
  for (const Assign &a : assigns_)
    if (storages_.place(a.value) == Place::Variable && storages_.find(a.value) != storages_.find(a.variable))
      readOutsideKernels(a.value, a.time);
}

// Carries take the memory of their initial value, unless several carries share that value. A variable that is not
// assigned must keep its value.
void Sharing::shareFirstValues() {
  std::map<int, int> carriesOf;
  for (const CarriedMove &m : firstValues_) ++carriesOf[m.value];
  std::set<int> assigned;
  for (const Assign &a : assigns_) assigned.insert(storages_.find(a.variable));
  for (const CarriedMove &m : firstValues_) {
    const int outer = storages_.find(m.value), carry = storages_.find(m.carry);
    const bool free =
        storages_.place(outer) == Place::Arena || (storages_.place(outer) == Place::Variable && assigned.count(outer));
    if (outer == carry || carriesOf.at(m.value) > 1 || !free || storages_.place(carry) != Place::Arena) continue;
    if (storages_.hasSlices(outer) || storages_.hasSlices(carry)) continue;
    if (storages_.bytes(outer) != storages_.bytes(carry) || readAfter(outer, m.start) ||
        usedByOtherLane(outer, m.start))
      continue;
    joinInto(carry, outer);
  }
}

// New values take the memory of the variable they replace.
void Sharing::shareUpdates() {
  for (Assign &a : assigns_) {
    if (storages_.find(a.value) == storages_.find(a.variable)) {
      a.value = -1;
    } else if (a.layouts == Layouts::Same && canWriteInto(a.value, a.variable, INT_MAX)) {
      shareEarlierValues(a.value, a.variable, INT_MAX);
      joinInto(a.value, a.variable);
      a.value = -1;
    }
  }
}

// If several kernels in turn update parts of a target, the values between them take its memory too.
void Sharing::shareEarlierValues(int value, int target, int last) {
  std::vector<int> earlier;
  while (const KernelUse *k = writer(value)) {
    value = overwritten(*k, value);
    if (value < 0 || !canWriteInto(value, target, last)) break;
    earlier.push_back(value);
  }
  for (int v : earlier) joinInto(v, target);
}

// The value in the arena that kernel k may overwrite by `value`, because nothing reads it later. -1: none.
int Sharing::overwritten(const KernelUse &k, int value) const {
  for (size_t o = 0; o < k.out.size(); ++o)
    for (size_t i = 0; i < k.in.size(); ++i)
      if (k.out[o] >= 0 && storages_.find(k.out[o]) == storages_.find(value) && k.in[i] >= 0 &&
          storages_.place(k.in[i]) == Place::Arena && storages_.bytes(k.in[i]) == storages_.bytes(value) &&
          storages_.lastUse(k.in[i]) == k.time && !usedByOtherLane(k.in[i], k.time) &&
          k.kernel->canOverwrite(static_cast<int>(i), static_cast<int>(o)) &&
          !readElsewhere(k, i, storages_.find(k.in[i]), static_cast<int>(o)))
        return k.in[i];
  return -1;
}

// A value that already aliases another carry of the same loop stays there: each carry has its own initial value.
void Sharing::shareCarries() {
  std::set<std::pair<int, int>> carries;  // (storage, start of its loop)
  for (const CarriedMove &m : carriedMoves_) carries.insert({storages_.find(m.carry), m.start});
  for (const CarriedMove &m : carriedMoves_) {
    const int from = storages_.find(m.value), to = storages_.find(m.carry);
    const KernelUse *producer = writer(m.value);  // before the loop the initial value would overwrite it
    if (!producer || producer->time <= m.start || from == to || carries.count({from, m.start})) continue;
    if (!canWriteInto(m.value, m.carry, m.end)) continue;
    shareEarlierValues(m.value, m.carry, m.end);
    joinInto(m.value, m.carry);
    for (auto it = carries.lower_bound({from, 0}); it != carries.end() && it->first == from; it = carries.erase(it))
      carries.insert({to, it->second});
  }
}

void Sharing::shareInPlace() {
  for (const KernelUse &k : kernels_) {
    std::set<int> taken;
    for (size_t o = 0; o < k.out.size(); ++o) {
      if (k.out[o] < 0) continue;
      const int out = storages_.find(k.out[o]);
      if (storages_.place(out) != Place::Arena || storages_.firstDefinition(out) != k.time || storages_.hasSlices(out))
        continue;
      for (size_t i = 0; i < k.in.size(); ++i) {
        if (k.in[i] < 0) continue;
        const int in = storages_.find(k.in[i]);
        if (in == out || storages_.place(in) != Place::Arena || storages_.lastUse(in) != k.time || taken.count(in) ||
            usedByOtherLane(in, k.time))
          continue;
        if (storages_.bytes(in) != storages_.bytes(out) ||
            !k.kernel->canOverwrite(static_cast<int>(i), static_cast<int>(o)))
          continue;
        if (readElsewhere(k, i, in, static_cast<int>(o))) continue;
        storages_.join(out, in);
        taken.insert(in);
        break;
      }
    }
  }
}

// Whether another operand of the same kernel aliases `in` and must not be overwritten by output o.
bool Sharing::readElsewhere(const KernelUse &k, size_t operand, int in, int o) const {
  for (size_t i = 0; i < k.in.size(); ++i)
    if (i != operand && k.in[i] >= 0 && storages_.wholeOf(k.in[i]) == in &&
        (storages_.find(k.in[i]) != in || !k.kernel->canOverwrite(static_cast<int>(i), o)))
      return true;
  for (size_t other = 0; other < k.out.size(); ++other)
    if (static_cast<int>(other) != o && k.out[other] >= 0 && storages_.find(k.out[other]) == in) return true;
  return false;
}

}  // namespace popart::memory
