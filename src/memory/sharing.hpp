// Decides which values share memory: an element-wise result with an operand that has its last use there, a variable's
// new value with the variable, a loop's result with the carry that it becomes.
#pragma once
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "executable/kernel.hpp"
#include "memory/storages.hpp"

namespace popart::memory {

// The storages that a kernel reads and writes. Storages are numbered as in Storages, -1: not connected.
struct KernelUse {
  const executable::Kernel *kernel = nullptr;
  std::vector<int> in, out;
  int time = 0;
};

// Collects all accesses of a program in the order of their times; then run() joins storages once.
class Sharing {
 public:
  // Both outlive the object; run() knows the times of all lanes.
  Sharing(Storages &storages, const LaneTimes &lanes) : storages_(storages), lanes_(lanes) {}

  void addKernel(KernelUse kernel) { kernels_.push_back(std::move(kernel)); }
  // Records that a step without a kernel reads `s`.
  void readOutsideKernels(int s, int time);
  // Records that the variable gets `value` when the program ends; they can share memory only in the same layout.
  enum class Layouts { Same, Different };
  void addAssign(int variable, int value, Layouts layouts, int time);
  // Records that the carry of the loop that starts at `start` gets its initial value from `outer`.
  void addFirstValue(int outer, int carry, int start) { firstValues_.push_back({outer, carry, start, start}); }
  // Records that `value` is copied to the carry at the end of each iteration of the loop from `start`, where the carry
  // gets its initial value, to `end`.
  void addCarriedMove(int value, int carry, int start, int end) { carriedMoves_.push_back({value, carry, start, end}); }

  void run();

  const std::vector<KernelUse> &kernels() const { return kernels_; }
  // After run(): assigns whose value is in other memory and must be copied.
  struct Assign {
    int variable, value;
    Layouts layouts;
    int time;
  };
  const std::vector<Assign> &copies() const { return assigns_; }

 private:
  // A copy from the source of a carry: its initial value, or its value for the next iteration.
  struct CarriedMove {
    int value, carry;
    int start, end;
  };

  void indexKernels();
  const KernelUse *writer(int s) const;
  bool canWriteInto(int value, int target, int last) const;
  void joinInto(int value, int target);
  bool readAfter(int s, int time) const;
  bool usedByOtherLane(int s, int time) const;
  void readAssignedVariables();
  void shareFirstValues();
  void shareUpdates();
  void shareEarlierValues(int value, int target, int last);
  int overwritten(const KernelUse &k, int value) const;
  void shareCarries();
  void shareInPlace();
  bool readElsewhere(const KernelUse &k, size_t operand, int in, int o) const;

  Storages &storages_;
  const LaneTimes &lanes_;
  std::vector<KernelUse> kernels_;
  std::vector<Assign> assigns_;
  std::vector<CarriedMove> firstValues_, carriedMoves_;
  std::set<std::pair<int, int>> writers_, readers_;  // (storage, kernel)
  std::map<int, std::set<int>> outsideReads_;        // storage -> times of reads by steps without a kernel
};

}  // namespace popart::memory
