#include "exchange/join.hpp"

#include <algorithm>
#include <cstring>

#include <popart/error.hpp>

#include "base/element_types.hpp"
#include "executable/join_operators.hpp"

namespace popart::exchange {
namespace {

using executable::asTerms;
using executable::kJoinedBlock;
using executable::TermOf;
using executable::withOperator;

template <class A, class L, class R>
void joinAs(executable::Join how, const void *left, const void *right, void *into, int64_t count) {
  const auto *a = static_cast<const L *>(left);
  const auto *b = static_cast<const R *>(right);
  auto *to = static_cast<A *>(into);
  withOperator<A>(how, [&](auto op) {
    A ofLeft[kJoinedBlock], ofRight[kJoinedBlock];  // for elements that are not terms
    for (int64_t at = 0, n = 0; at < count; at += n) {
      n = std::min(count - at, kJoinedBlock);
      const A *const x = asTerms(a + at, n, ofLeft), *const y = asTerms(b + at, n, ofRight);
      const auto join = [&](const A *first, A *sum) {
        for (int64_t i = 0; i < n; ++i) sum[i] = op(first[i], y[i]);
      };
      // Compilers vectorise this if they know that it is one memory.
      x == to + at ? join(to + at, to + at) : join(x, to + at);
    }
  });
}

template <class T>
void storeAs(const void *terms, void *into, int64_t count) {
  if constexpr (std::is_same_v<T, TermOf<T>>) {
    if (terms != into) std::memcpy(into, terms, static_cast<size_t>(count) * sizeof(T));
  } else {
    narrow(static_cast<const float *>(terms), count, static_cast<T *>(into));
  }
}

template <class F>
void forJoined(DataType type, const F &f) {
  if (!forElement(kRealElements, type, f))
    throw internal_error("exchange of replicas: elements of type {} cannot be joined", type);
}

}  // namespace

DataType termType(DataType type) {
  return type == DataType::FLOAT16 || type == DataType::BFLOAT16 ? DataType::FLOAT : type;
}

JoinTerms joinFunction(DataType type, Width left, Width right) {
  JoinTerms result = nullptr;
  forJoined(type, [&]<class T>(T) {
    using A = TermOf<T>;
    if (left == Width::Term)
      result = right == Width::Term ? joinAs<A, A, A> : joinAs<A, A, T>;
    else
      result = right == Width::Term ? joinAs<A, T, A> : joinAs<A, T, T>;
  });
  return result;
}

StoreTerms storeFunction(DataType type) {
  StoreTerms result = nullptr;
  forJoined(type, [&]<class T>(T) { result = storeAs<T>; });
  return result;
}

}  // namespace popart::exchange
