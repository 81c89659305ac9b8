// Which values share memory: an element-wise result lies over an operand that dies with it, a variable's new value over
// the old one, a loop's result over the carry it feeds.
#pragma once
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "executable/kernel.hpp"
#include "memory/storages.hpp"

namespace popart::memory {

// What a kernel reads and writes. Storages count as in Storages, -1: not connected.
struct KernelUse {
  const executable::Kernel *kernel = nullptr;
  std::vector<int> in, out;
  int time = 0;
};

// Told everything about a program in the order of its times; then run() joins storages once.
class Sharing {
 public:
  explicit Sharing(Storages &storages) : storages_(storages) {}

  void addKernel(KernelUse kernel) { kernels_.push_back(std::move(kernel)); }
  // A step that is no kernel reads `s`.
  void readOutsideKernels(int s, int time);
  // The variable takes `value` when the program ends; only in the same layout can the value lie in the variable.
  enum class Layouts { Same, Different };
  void addAssign(int variable, int value, Layouts layouts, int time);
  // `value` moves to the carry at the end of each iteration of the loop that begins at `start`, where the carry gets
  // its first value.
  void addCarriedMove(int value, int carry, int start) { carriedMoves_.push_back({value, carry, start}); }

  void run();

  const std::vector<KernelUse> &kernels() const { return kernels_; }
  // After run(): assigns whose value lies elsewhere and has to be copied.
  struct Assign {
    int variable, value;
    Layouts layouts;
    int time;
  };
  const std::vector<Assign> &copies() const { return assigns_; }

 private:
  struct CarriedMove {
    int value, carry;
    int start;
  };

  void indexKernels();
  const KernelUse *writer(int s) const;
  bool canWriteInto(int value, int target) const;
  void joinInto(int value, int target);
  void shareUpdates();
  void shareCarries();
  void shareInPlace();
  bool readElsewhere(const KernelUse &k, size_t operand, int in, int o) const;

  Storages &storages_;
  std::vector<KernelUse> kernels_;
  std::vector<Assign> assigns_;
  std::vector<CarriedMove> carriedMoves_;
  std::set<std::pair<int, int>> writers_, readers_;  // (storage, kernel)
  std::map<int, int> outsideReads_;                  // storage -> last read by a step that is no kernel
};

}  // namespace popart::memory
