// CollectiveWork: the computation of a collective among replicas of one process, in pieces that any of their threads
// may run.
#pragma once
#include <span>

#include "executable/collectives.hpp"
#include "executable/host_kernel.hpp"

namespace popart::runtime {

// The operands that one member has published: an address for each operand and each result.
struct PublishedOperands {
  std::vector<const void *> in;
  std::vector<void *> out;
};

// The pieces of one collective, for all members together. Pieces are independent, and the spec alone determines which
// piece computes an element.
class CollectiveWork {
 public:
  // `firstMember`: the number in the group of the first member that gets results.
  explicit CollectiveWork(const executable::CollectiveSpec &spec, int firstMember = 0);
  int pieces() const { return pieces_; }
  // `sources`: the operands that are joined or moved: those of all members in the order of the group, or those of one
  // member, which are taken as they are. `members`: the members of this process, which get the results. `own`: the
  // operands of the member whose thread runs this piece.
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

// The joined, unrounded operand `operand` of members that form a node of the tree in executable/join_tree.hpp. `to`: as
// many elements, of the type executable::TermOf.
void joinTerm(const executable::CollectiveSpec &spec, std::span<const PublishedOperands> members, size_t operand,
              void *to) noexcept;

}  // namespace popart::runtime
