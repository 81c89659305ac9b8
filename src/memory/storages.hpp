// Storages: the pieces of memory of values while a plan is made. Values that share memory (views, in-place results,
// updated variables, loop carries) are joined to one storage; the rest is placed in the arena.
#pragma once
#include <string>
#include <vector>

#include "base/union_find.hpp"
#include "memory/lane_times.hpp"
#include "memory/plan.hpp"

namespace popart::memory {

class Storages {
 public:
  int add(Place place, int64_t bytes, int64_t index, std::string name);
  // Adds the row of `stack` at `offset` in iteration 0 of a loop; its address advances by `stride`.
  int addRow(int64_t bytes, int stack, int64_t offset, int64_t stride, std::string name);
  // Adds the bytes of `whole` from `offset` on; uses of the slice are uses of `whole` too. No other storage joins a
  // slice, and `whole`, which is in the arena, joins no other.
  int addSlice(int64_t bytes, int whole, int64_t offset, std::string name);
  // Turns `s`, in the arena, into the row that in iteration i is i times its size from the start of the stack.
  void makeScanRow(int s, int stack);
  // Adds the row of `stack` that the previous iteration wrote; in the first iteration it is `initial`.
  int addRowBefore(int stack, int initial, int64_t bytes, std::string name);
  int find(int s) const;
  // Joins `s` to `target`, which gets the uses of both.
  void join(int s, int target);

  void define(int s, int time);           // written at `time`
  void use(int s, int time);              // read at `time`
  void keep(int s, int first, int last);  // live over the whole range whatever its uses
  // It is counted in Placed::scratchBytes.
  void markScratch(int s) { items_[find(s)].isScratch = true; }
  Place place(int s) const { return items_[find(s)].place; }
  int64_t bytes(int s) const { return items_[find(s)].bytes; }
  int64_t index(int s) const { return items_[find(s)].index; }
  // The storage with the bytes of `s`: its whole if it is a slice, else `s`.
  int wholeOf(int s) const;
  bool hasSlices(int s) const { return items_[find(s)].hasSlices; }
  int lastUse(int s) const { return items_[find(s)].last; }
  int firstDefinition(int s) const { return items_[find(s)].first; }
  size_t size() const { return items_.size(); }

  // Places the storages of the arena. One entry for each storage number; joined ones have the entry of their target.
  // Storages of a single lane of a section share memory with others of that lane; for all others they are live over the
  // whole section. So are storages that several lanes use.
  struct Placed {
    std::vector<Storage> storages;
    int64_t arenaBytes = 0;
    int64_t largestLiveSetBytes = 0;
    int64_t scratchBytes = 0;  // how much larger the largest live set is with the storages of markScratch
  };
  Placed place(const LaneTimes &lanes = {}) const;

 private:
  struct Item {
    Place place;
    int64_t bytes;
    int64_t index;  // variable or constant; Row: offset in its stack
    std::string name;
    int first = -1, last = -1;  // -1: never
    int stack = -1;             // Row; its offset is `index`
    int64_t stride = 0;
    int initial = -1;  // Row: the storage that replaces it in the first iteration
    int whole = -1;    // Slice; its offset is `index`
    bool hasSlices = false, isScratch = false;
  };
  std::vector<Item> items_;
  UnionFind sets_;
};

}  // namespace popart::memory
