// The arithmetic of a collective among replicas of one process, in pieces that any of their threads may do.
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
  // `firstMember`: of those that get results, its number in the group.
  explicit CollectiveWork(const executable::CollectiveSpec &spec, int firstMember = 0);
  int pieces() const { return pieces_; }
  // `sources`: whose operands are joined or moved: those of all members in the order of the group, or one, which is
  // taken as it is. `members`: those of this process, which get the results; `own`: the one that works, on a task with
  // these operands.
  void run(int piece, std::span<const PublishedOperands> sources, std::span<const PublishedOperands> members,
           const PublishedOperands &own, const executable::KernelArgs &args) const noexcept;

 private:
  template <class T>
  void runOn(size_t operand, int64_t begin, int64_t end, std::span<const PublishedOperands> sources,
             std::span<const PublishedOperands> members) const noexcept;
  template <class T>
  void updateOn(int64_t begin, int64_t end, std::span<const PublishedOperands> sources,
                std::span<const PublishedOperands> members, const PublishedOperands &own,
                const executable::KernelArgs &args) const noexcept;
  void handOut(int64_t begin, int64_t count, std::span<const PublishedOperands> members,
               const PublishedOperands &own) const noexcept;

  executable::CollectiveSpec spec_;
  int firstMember_;
  std::vector<int64_t> lines_;  // where each operand's cache lines begin among those of all; last: their number
  int pieces_ = 1;
};

// The term of members that are a node of the tree (executable/join_tree.hpp): their operand `operand`, joined and not
// rounded. `to`: as many elements, of type executable::TermOf.
void joinTerm(const executable::CollectiveSpec &spec, std::span<const PublishedOperands> members, size_t operand,
              void *to) noexcept;

}  // namespace popart::runtime
