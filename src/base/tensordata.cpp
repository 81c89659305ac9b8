// Shared host values with copy-on-write. Large zero-filled values are fresh pages of the system, which take no memory
// until they are written: the first state of an optimizer costs nothing on the host.
#include <popart/tensordata.hpp>

#include <sys/mman.h>

#include <cstring>
#include <new>

#include <popart/error.hpp>
#include <popart/half.hpp>

namespace popart {
namespace {

// 64-byte aligned block; zero bytes still give a valid pointer.
std::shared_ptr<void> allocate(int64_t bytes) {
  constexpr std::align_val_t kAlign{64};
  void *p = ::operator new(static_cast<size_t>(bytes > 0 ? bytes : 1), kAlign);
  return std::shared_ptr<void>(p, [](void *q) { ::operator delete (q, std::align_val_t{64}); });
}

constexpr int64_t kOwnPagesBytes = int64_t{256} << 10;

std::shared_ptr<void> allocateZeroed(int64_t bytes) {
  if (bytes >= kOwnPagesBytes) {
    const auto size = static_cast<size_t>(bytes);
    void *p = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    return std::shared_ptr<void>(p, [size](void *q) { ::munmap(q, size); });
  }
  auto block = allocate(bytes);
  std::memset(block.get(), 0, static_cast<size_t>(bytes));
  return block;
}

template <class T, class Out>
void copyAs(const void *data, std::vector<Out> &out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T v;
    std::memcpy(&v, static_cast<const char *>(data) + i * sizeof(T), sizeof(T));
    out[i] = static_cast<Out>(v);
  }
}

template <class Out>
bool copyIntegers(DataType type, const void *data, std::vector<Out> &out) {
  switch (type) {
    case DataType::BOOL:
    case DataType::UINT8:
      copyAs<uint8_t>(data, out);
      return true;
    case DataType::INT8:
      copyAs<int8_t>(data, out);
      return true;
    case DataType::UINT16:
      copyAs<uint16_t>(data, out);
      return true;
    case DataType::INT16:
      copyAs<int16_t>(data, out);
      return true;
    case DataType::INT32:
      copyAs<int32_t>(data, out);
      return true;
    case DataType::UINT32:
      copyAs<uint32_t>(data, out);
      return true;
    case DataType::INT64:
      copyAs<int64_t>(data, out);
      return true;
    case DataType::UINT64:
      copyAs<uint64_t>(data, out);
      return true;
    default:
      return false;
  }
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

std::vector<int64_t> TensorData::asInts() const {
  std::vector<int64_t> out(static_cast<size_t>(info_.nelms()));
  check(copyIntegers(info_.dataType(), data_, out), "tensor values are not integers: got {}", info_);
  return out;
}

std::vector<double> TensorData::asDoubles() const {
  std::vector<double> out(static_cast<size_t>(info_.nelms()));
  switch (info_.dataType()) {
    case DataType::FLOAT:
      copyAs<float>(data_, out);
      return out;
    case DataType::DOUBLE:
      copyAs<double>(data_, out);
      return out;
    case DataType::FLOAT16:
      copyAs<Half>(data_, out);
      return out;
    case DataType::BFLOAT16:
      copyAs<BFloat16>(data_, out);
      return out;
    default:
      break;
  }
  check(copyIntegers(info_.dataType(), data_, out), "tensor values are not real numbers: got {}", info_);
  return out;
}

bool TensorData::operator==(const TensorData &o) const {
  if (info_ != o.info_ || empty() != o.empty()) return false;
  return data_ == o.data_ || std::memcmp(data_, o.data_, static_cast<size_t>(info_.nbytes())) == 0;
}

}  // namespace popart
