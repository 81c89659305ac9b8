// See collective_work.hpp. The elements that a collective makes are numbered through all operands (for a Reduce or a
// Scatter the elements of the operands, for a Gather those of the results), and this range is cut at cache lines. Each
// element is read and written within one piece, so an operand may also be a result.
#include "runtime/collective_work.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "base/element_types.hpp"
#include "executable/join_operators.hpp"
#include "executable/join_tree.hpp"

namespace popart::runtime {
namespace {

using executable::CollectiveKind;
using executable::CollectiveSpec;
using executable::Join;
using executable::TermOf;
using executable::withOperator;

constexpr int64_t kBlock = executable::kJoinedBlock;
constexpr int64_t kLineElements = 64;        // pieces begin at multiples, so that no two threads write one cache line
constexpr int64_t kBytesOfPiece = 32 << 10;  // some microseconds

template <class T>
struct Block {
  T values[kBlock];  // not initialised
};

// to = a op b, term by term.
template <class A, class Op>
void joinTerms(const Op op, const A *a, const A *b, const int64_t count, A *to) {
  for (int64_t i = 0; i < count; ++i) to[i] = op(a[i], b[i]);
}

// all = operand `o` of the members, joined in the order of executable/join_tree.hpp: `count` elements (at most kBlock),
// beginning with element `at`.
template <class T>
void joinBlock(Join how, std::span<const PublishedOperands> members, size_t o, int64_t at, int64_t count,
               Block<TermOf<T>> &all) {
  using A = TermOf<T>;
  const auto term = [&](unsigned m) { return static_cast<const T *>(members[m].in[o]) + at; };
  withOperator<A>(how, [&](auto op) {
    const auto leaf = [&](unsigned first, unsigned terms, Block<A> &to) {
      if (terms == 1) return executable::takeTerms(term(first), count, to.values);
      Block<A> right;  // of elements that are no terms
      const A *const a = executable::asTerms(term(first), count, to.values);
      joinTerms(op, a, executable::asTerms(term(first + 1), count, right.values), count, to.values);
    };
    const auto join = [&](Block<A> &to, const Block<A> &right) {
      joinTerms(op, to.values, right.values, count, to.values);
    };
    executable::joinInTree(0, static_cast<unsigned>(members.size()), leaf, join, all);
  });
}

// The address of the joined elements: with one source they are read in place, otherwise they are rounded into `block`.
template <class T>
const T *joined(Join how, std::span<const PublishedOperands> sources, size_t o, int64_t at, int64_t count,
                Block<T> &block) {
  if (sources.size() == 1) return static_cast<const T *>(sources[0].in[o]) + at;
  if constexpr (std::is_same_v<TermOf<T>, T>) {
    joinBlock<T>(how, sources, o, at, count, block);
  } else {
    Block<TermOf<T>> all;
    joinBlock<T>(how, sources, o, at, count, all);
    narrow(all.values, count, block.values);
  }
  return block.values;
}

}  // namespace

CollectiveWork::CollectiveWork(const CollectiveSpec &spec, int firstMember)
    : spec_(spec), firstMember_(firstMember), lines_{0} {
  const bool gathers = spec.kind == CollectiveKind::Gather;
  for (const int64_t elements : gathers ? spec.resultElements : spec.elements)
    lines_.push_back(lines_.back() + (elements + kLineElements - 1) / kLineElements);
  constexpr int64_t kMost = 1 << 16;
  const int64_t bytes = lines_.back() * kLineElements * getDataTypeInfo(spec.type).nbytes;
  pieces_ = static_cast<int>(std::clamp<int64_t>(bytes / kBytesOfPiece, 1, kMost));
}

void CollectiveWork::run(int piece, std::span<const PublishedOperands> sources,
                         std::span<const PublishedOperands> members, const PublishedOperands &own,
                         const executable::KernelArgs &args) const noexcept {
  const int64_t first = lines_.back() * piece / pieces_, last = lines_.back() * (piece + 1) / pieces_;
  const auto &sizes = spec_.kind == CollectiveKind::Gather ? spec_.resultElements : spec_.elements;
  auto operand = static_cast<size_t>(std::upper_bound(lines_.begin(), lines_.end(), first) - lines_.begin() - 1);
  for (; operand < sizes.size() && lines_[operand] < last; ++operand) {
    const int64_t begin = std::max<int64_t>(first - lines_[operand], 0) * kLineElements;
    const int64_t end = std::min((last - lines_[operand]) * kLineElements, sizes[operand]);
    forElement(kRealElements, spec_.type, [&]<class T>(T) {
      if (spec_.update) return updateOn<T>(begin, end, sources, members, own, args);
      runOn<T>(operand, begin, end, sources, members);
    });
  }
}

template <class T>
void CollectiveWork::updateOn(int64_t begin, int64_t end, std::span<const PublishedOperands> sources,
                              std::span<const PublishedOperands> members, const PublishedOperands &own,
                              const executable::KernelArgs &args) const noexcept {
  std::array<void *, CollectiveSpec::kMostUpdated> out;
  for (size_t o = 0; o < spec_.updated.size(); ++o) out[o] = own.out[spec_.updated[o].slot];
  Block<T> block;
  for (int64_t at = begin, count = 0; at < end; at += count) {
    count = std::min(kBlock, end - at);
    // A result may be written to the memory of a source.
    const T *from = joined(spec_.join, sources, 0, at, count, block);
    if (from != block.values) std::copy_n(from, count, block.values);
    spec_.update->run(block.values, at, count, args, out.data());
    handOut(at, count, members, own);
  }
}

// Copies the results to the members that have separate memory for them.
void CollectiveWork::handOut(int64_t begin, int64_t count, std::span<const PublishedOperands> members,
                             const PublishedOperands &own) const noexcept {
  for (const auto &[slot, width] : spec_.updated)
    for (const PublishedOperands &member : members)
      if (member.out[slot] != own.out[slot])
        std::memcpy(static_cast<char *>(member.out[slot]) + begin * width,
                    static_cast<const char *>(own.out[slot]) + begin * width, static_cast<size_t>(count * width));
}

template <class T>
void CollectiveWork::runOn(size_t o, int64_t begin, int64_t end, std::span<const PublishedOperands> sources,
                           std::span<const PublishedOperands> members) const noexcept {
  const auto source = [&](int64_t m) {
    return static_cast<const T *>(sources[sources.size() == 1 ? 0 : static_cast<size_t>(m)].in[o]);
  };
  const auto target = [&](int64_t m) { return static_cast<T *>(members[static_cast<size_t>(m)].out[o]); };
  const auto size = static_cast<int>(members.size());
  const int64_t part = spec_.kind == CollectiveKind::Scatter ? spec_.resultElements[o] : spec_.elements[o];
  Block<T> block;
  for (int64_t at = begin, count = 0; at < end; at += count) {
    const int64_t member = at / part;  // whose part of the flattened tensor it is: all but Reduce
    count = std::min(kBlock, end - at);
    if (spec_.kind != CollectiveKind::Reduce) count = std::min(count, part * (member + 1) - at);
    if (spec_.kind == CollectiveKind::Gather) {
      for (int m = 0; m < size; ++m) std::copy_n(source(member) + (at - part * member), count, target(m) + at);
      continue;
    }
    const T *from = spec_.join == Join::Keep ? source(member) + at : joined(spec_.join, sources, o, at, count, block);
    if (spec_.kind == CollectiveKind::Reduce) {
      for (int m = 0; m < size; ++m) std::copy_n(from, count, target(m) + at);
    } else {
      const bool inPlace = target(member) == members[static_cast<size_t>(member)].in[o];
      std::copy_n(from, count, target(member) + at + part * (inPlace ? firstMember_ : -member));
    }
  }
}

void joinTerm(const CollectiveSpec &spec, std::span<const PublishedOperands> members, size_t operand,
              void *to) noexcept {
  forElement(kRealElements, spec.type, [&]<class T>(T) {
    Block<TermOf<T>> block;
    for (int64_t at = 0, count = 0; at < spec.elements[operand]; at += count) {
      count = std::min(kBlock, spec.elements[operand] - at);
      joinBlock<T>(spec.join, members, operand, at, count, block);
      std::copy_n(block.values, count, static_cast<TermOf<T> *>(to) + at);
    }
  });
}

}  // namespace popart::runtime
