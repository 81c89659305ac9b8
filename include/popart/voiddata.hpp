// ConstVoidData and MutableVoidData: a pointer to host values with their type and shape.
// Neither owns the memory it points to, except ConstVoidData after store().
#pragma once
#include <utility>
#include <vector>

#include <popart/tensorinfo.hpp>

namespace popart {

// Values to read: C order, info.nbytes() bytes.
class ConstVoidData {
 public:
  ConstVoidData() = default;
  ConstVoidData(const void *data_, const TensorInfo &info_) : data(data_), info(info_) {}
  // Takes ownership of the bytes: `data` then points to them.
  void store(std::vector<char> &&bytes, const TensorInfo &info_) {
    stored_ = std::move(bytes);
    hasStored_ = true;
    data = stored_.data();
    info = info_;
  }
  bool storesData() const { return hasStored_; }

  ConstVoidData(ConstVoidData &&other) noexcept { *this = std::move(other); }
  ConstVoidData(const ConstVoidData &other) { *this = other; }
  // `data` points to the object's own bytes if they are stored
  ConstVoidData &operator=(ConstVoidData &&other) noexcept {
    data = other.data;
    info = std::move(other.info);
    stored_ = std::move(other.stored_);
    hasStored_ = other.hasStored_;
    if (hasStored_) data = stored_.data();
    return *this;
  }
  ConstVoidData &operator=(const ConstVoidData &other) {  // the same
    data = other.data;
    info = other.info;
    stored_ = other.stored_;
    hasStored_ = other.hasStored_;
    if (hasStored_) data = stored_.data();
    return *this;
  }

  const void *data = nullptr;  // null: no values
  TensorInfo info;             // type and shape of the values

 private:
  std::vector<char> stored_;
  bool hasStored_ = false;
};

// Memory to write: C order, info.nbytes() bytes.
class MutableVoidData {
 public:
  MutableVoidData() = default;
  MutableVoidData(void *data_, const TensorInfo &info_) : data(data_), info(info_) {}
  void *data = nullptr;  // null: no memory
  TensorInfo info;       // type and shape of the values
};

}  // namespace popart
