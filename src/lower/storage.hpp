// Storages: the pieces of memory behind values while an executable is being emitted. Values that share memory (views,
// in-place results, updated variables, loop carries) are joined into one storage; what is left is placed in the arena.
#pragma once
#include <string>
#include <vector>

#include "executable/executable.hpp"

namespace popart::lower {

class Storages {
 public:
  using Place = executable::Buffer::Place;

  int add(Place place, int64_t bytes, int64_t index, std::string name);
  int find(int s) const;
  // `s` becomes part of `target`; uses of both count for target.
  void join(int s, int target);

  void define(int s, int time);           // written at `time`
  void use(int s, int time);              // read at `time`
  void keep(int s, int first, int last);  // alive over the whole range whatever its uses
  void drop(int s);                       // needs no memory any more
  Place place(int s) const { return items_[find(s)].place; }
  int64_t bytes(int s) const { return items_[find(s)].bytes; }
  int64_t index(int s) const { return items_[find(s)].index; }
  int lastUse(int s) const { return items_[find(s)].last; }
  int firstDefinition(int s) const { return items_[find(s)].first; }
  size_t size() const { return items_.size(); }

  struct Planned {
    std::vector<executable::Buffer> buffers;  // one per storage number; joined ones repeat their target's place
    int64_t arenaBytes = 0;
    int64_t largestLiveSetBytes = 0;
    struct Item {
      std::string name;
      int64_t bytes;
    };
    std::vector<Item> largest;  // biggest arena storages, descending, at most 8
  };
  Planned plan() const;

 private:
  struct Item {
    Place place;
    int64_t bytes;
    int64_t index;  // variable or constant
    std::string name;
    int first = -1, last = -1;  // -1: never
    int parent = -1;            // joined into
  };
  std::vector<Item> items_;
};

}  // namespace popart::lower
