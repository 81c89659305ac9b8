// Shared host values with copy-on-write. Large zero-filled values are fresh pages of the system, which use no memory
// until they are written: initial states of optimizers cost nothing on the host.
#include <popart/tensordata.hpp>

#include <sys/mman.h>

#include <cstring>
#include <new>

#include <popart/error.hpp>

#include "base/element_types.hpp"
#include "base/small_types.hpp"

namespace popart {
namespace {

// 64-byte aligned block; the pointer is valid even for zero bytes.
std::shared_ptr<void> allocate(int64_t bytes) {
  constexpr std::align_val_t kAlign{64};
  void *p = ::operator new(static_cast<size_t>(bytes > 0 ? bytes : 1), kAlign);
  return std::shared_ptr<void>(p, [](void *q) { ::operator delete (q, std::align_val_t{64}); });
}

constexpr int64_t kOwnPagesBytes = int64_t{256} << 10;
// Runs may read all of a large weight; huge pages then need fewer address translations.
constexpr size_t kHugePagesBytes = size_t{4} << 20;

std::shared_ptr<void> allocateZeroed(int64_t bytes) {
  if (bytes >= kOwnPagesBytes) {
    const auto size = static_cast<size_t>(bytes);
    void *p = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (size >= kHugePagesBytes) ::madvise(p, size, MADV_HUGEPAGE);
#endif
    return std::shared_ptr<void>(p, [size](void *q) { ::munmap(q, size); });
  }
  auto block = allocate(bytes);
  std::memset(block.get(), 0, static_cast<size_t>(bytes));
  return block;
}

// Elements as values of type Out; returns false for types that are neither in the list nor small. Memory of BOOL may
// hold any byte.
template <class Out, class List>
bool copyElements(List list, DataType type, const void *data, std::vector<Out> &out) {
  if (const SmallFormat *format = smallFormat(type)) {
    if (format->isFloat && !std::is_floating_point_v<Out>) return false;
    const std::span<const float, 256> values = smallValues(type);
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<Out>(values[static_cast<const uint8_t *>(data)[i]]);
    return true;
  }
  return forElement(list, type, [&](auto zero) {
    using T = std::conditional_t<std::is_same_v<decltype(zero), bool>, uint8_t, decltype(zero)>;
    for (size_t i = 0; i < out.size(); ++i) {
      T v;
      std::memcpy(&v, static_cast<const char *>(data) + i * sizeof(T), sizeof(T));
      out[i] = static_cast<Out>(v);
    }
  });
}

}  // namespace

TensorData::TensorData(const TensorInfo &info) : info_(info) {
  untouchedZeros_ = info.nbytes() >= kOwnPagesBytes;
  auto block = allocateZeroed(info.nbytes());
  data_ = block.get();
  owner_ = std::move(block);
  writable_ = true;
}

TensorData::TensorData(const TensorInfo &info, const void *source) : info_(info) {
  auto block = allocate(info.nbytes());
  if (info.nbytes() > 0) std::memcpy(block.get(), source, static_cast<size_t>(info.nbytes()));
  data_ = block.get();
  owner_ = std::move(block);
  writable_ = true;
}

TensorData TensorData::share(const TensorInfo &info, std::shared_ptr<const void> owner, const void *data) {
  TensorData result;
  result.info_ = info;
  result.owner_ = std::move(owner);
  result.data_ = data;
  return result;
}

void *TensorData::mutableData() {
  if (!writable_ || owner_.use_count() != 1) *this = TensorData(info_, data_);
  untouchedZeros_ = false;
  return const_cast<void *>(data_);
}

TensorData TensorData::reshaped(const Shape &shape) const {
  TensorData result = *this;
  result.info_ = TensorInfo(info_.dataType(), shape);
  if (result.info_.nelms() != info_.nelms())
    throw internal_error("TensorData: cannot view {} as shape {}", info_, shape);
  return result;
}

TensorData TensorData::fromDoubles(const TensorInfo &info, std::span<const double> values) {
  check(static_cast<int64_t>(values.size()) == info.nelms(), "tensor values: got {} of them, expected {} for {}",
        values.size(), info.nelms(), info);
  TensorData result;
  if (const SmallFormat *format = smallFormat(info.dataType())) {
    result = TensorData(info);
    auto *to = static_cast<uint8_t *>(result.mutableData());
    for (size_t i = 0; i < values.size(); ++i) to[i] = smallCode(*format, values[i]);
    return result;
  }
  const bool isReal = forElement(kRealElements, info.dataType(), [&](auto zero) {
    result = TensorData(info);
    auto *to = static_cast<decltype(zero) *>(result.mutableData());
    for (size_t i = 0; i < values.size(); ++i) to[i] = asElement<decltype(zero)>(values[i]);
  });
  check(isReal, "tensor values: {} cannot be made of real numbers", info);
  return result;
}

std::vector<int64_t> TensorData::asInts() const {
  std::vector<int64_t> out(static_cast<size_t>(info_.nelms()));
  check(copyElements(kIntegerElements + Elements<bool>(), info_.dataType(), data_, out),
        "tensor values are not integers: got {}", info_);
  return out;
}

std::vector<double> TensorData::asDoubles() const {
  std::vector<double> out(static_cast<size_t>(info_.nelms()));
  check(copyElements(kRealElements, info_.dataType(), data_, out), "tensor values are not real numbers: got {}", info_);
  return out;
}

bool TensorData::operator==(const TensorData &o) const {
  if (info_ != o.info_ || empty() != o.empty()) return false;
  return data_ == o.data_ || std::memcmp(data_, o.data_, static_cast<size_t>(info_.nbytes())) == 0;
}

}  // namespace popart
