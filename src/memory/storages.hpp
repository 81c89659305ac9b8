// Storages: the pieces of memory behind values while a plan is being made. Values that share memory (views,
// in-place results, updated variables, loop carries) are joined into one storage; what is left is placed in the arena.
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
  // The row of `stack` that lies `offset` bytes from its start in iteration 0 of a loop and moves by `stride`.
  int addRow(int64_t bytes, int stack, int64_t offset, int64_t stride, std::string name);
  // The bytes of `whole` from `offset` on: uses of the slice are uses of `whole` too. No other storage joins a slice,
  // and `whole`, which is of the arena, joins no other.
  int addSlice(int64_t bytes, int whole, int64_t offset, std::string name);
  // `s`, of the arena, becomes the row that iteration i finds i times its bytes from the stack's start.
  void makeScanRow(int s, int stack);
  // The row of `stack` that the iteration before wrote; in the first iteration `initial`.
  int addRowBefore(int stack, int initial, int64_t bytes, std::string name);
  int find(int s) const;
  // `s` becomes part of `target`; uses of both count for target.
  void join(int s, int target);

  void define(int s, int time);           // written at `time`
  void use(int s, int time);              // read at `time`
  void keep(int s, int first, int last);  // live over the whole range whatever its uses
  Place place(int s) const { return items_[find(s)].place; }
  int64_t bytes(int s) const { return items_[find(s)].bytes; }
  int64_t index(int s) const { return items_[find(s)].index; }
  // The storage with the bytes of `s`: what it is a slice of, or `s`.
  int wholeOf(int s) const;
  bool hasSlices(int s) const { return items_[find(s)].hasSlices; }
  int lastUse(int s) const { return items_[find(s)].last; }
  int firstDefinition(int s) const { return items_[find(s)].first; }
  size_t size() const { return items_.size(); }

  // Places the storages of the arena. One entry per storage number; joined ones repeat their target's. What only one
  // lane of a section uses shares memory with others of that lane; against everything else it is live over the whole
  // section, and so is what several lanes use.
  struct Placed {
    std::vector<Storage> storages;
    int64_t arenaBytes = 0;
    int64_t largestLiveSetBytes = 0;
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
    int initial = -1;  // Row: what it is in the first iteration
    int whole = -1;    // Slice; its offset is `index`
    bool hasSlices = false;
  };
  std::vector<Item> items_;
  UnionFind sets_;
};

}  // namespace popart::memory
