// The arithmetic of a meeting of replicas that share memory, in pieces that any of their threads may do.
#pragma once
#include <span>

#include "executable/collectives.hpp"
#include "executable/host_kernel.hpp"

namespace popart::runtime {

// What one member has published: an address per operand and per result.
struct PublishedOperands {
  std::vector<const void *> in;
  std::vector<void *> out;
};

// Pieces of one collective, for all members together. They have nothing to do with each other, and which one does an
// element follows from the spec alone.
class CollectiveWork {
 public:
  explicit CollectiveWork(const executable::CollectiveSpec &spec);
  int pieces() const { return pieces_; }
  // `members`: in the order of the group; `own`: the one that works, on a task with these operands.
  void run(int piece, std::span<const PublishedOperands> members, const PublishedOperands &own,
           const executable::KernelArgs &args) const noexcept;

 private:
  template <class T>
  void runOn(size_t operand, int64_t begin, int64_t end, std::span<const PublishedOperands> members) const noexcept;
  template <class T>
  void updateOn(int64_t begin, int64_t end, std::span<const PublishedOperands> members, const PublishedOperands &own,
                const executable::KernelArgs &args) const noexcept;
  void handOut(int64_t begin, int64_t count, std::span<const PublishedOperands> members,
               const PublishedOperands &own) const noexcept;

  executable::CollectiveSpec spec_;
  std::vector<int64_t> lines_;  // where each operand's cache lines begin among those of all; last: their number
  int pieces_ = 1;
};

}  // namespace popart::runtime
