// TensorInfo: element type and shape of a tensor (all dimensions known), and NumPy broadcasting rules.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>

#include <popart/datatype.hpp>
#include <popart/names.hpp>

namespace popart {

// A value: type, dimensions (outermost first) and, for sharded tensors, the unsharded shape.
class TensorInfo {
 public:
  TensorInfo() = default;  // unset
  TensorInfo(DataType type, Shape shape) { set(type, std::move(shape)); }
  TensorInfo(DataType type, Shape shape, Shape metaShape) { set(type, std::move(shape), std::move(metaShape)); }
  // shape text: "(2,3)" without spaces; throws popart::error if it cannot be parsed.
  TensorInfo(const std::string &type, const std::string &shape);
  TensorInfo(const std::string &type, const Shape &shape);

  void set(DataType type);  // keeps the shape
  // Throws popart::error for a negative dimension or an element count above 2^62.
  void set(DataType type, Shape shape);
  void set(DataType type, Shape shape, Shape metaShape);

  const Shape &shape() const { return shape_; }
  const Shape &metaShape() const { return metaShape_; }  // unsharded shape, empty if not sharded
  std::vector<size_t> shape_szt() const { return {shape_.begin(), shape_.end()}; }
  Rank rank() const { return static_cast<Rank>(shape_.size()); }
  int64_t nelms() const { return nelms_; }
  int64_t nbytes() const;    // element bytes x elements
  int64_t dim(int i) const;  // throws popart::error if i >= rank
  Shape strides() const { return strides(shape_); }
  Shape strides(const Shape &shape) const;  // in bytes, C order
  DataType dataType() const { return type_; }
  const std::string data_type() const { return getDataTypeInfo(type_).name; }
  const std::string data_type_lcase() const { return getDataTypeInfo(type_).lcase; }
  const DataTypeInfo &getDataTypeInfo() const { return popart::getDataTypeInfo(type_); }
  bool isSet() const { return type_ != DataType::UNDEFINED; }
  std::string str() const;               // "float32[2, 3]"
  void append(std::ostream &out) const;  // writes str()

  bool operator==(const TensorInfo &o) const {
    return type_ == o.type_ && shape_ == o.shape_ && metaShape_ == o.metaShape_;
  }
  bool operator!=(const TensorInfo &o) const { return !(*this == o); }

 private:
  static const DataTypeInfo &getDataTypeInfo(DataType t) { return popart::getDataTypeInfo(t); }
  DataType type_ = DataType::UNDEFINED;
  Shape shape_;
  Shape metaShape_;
  int64_t nelms_ = 1;
};

// Product of the dimensions; 1 for rank 0.
int64_t elementCount(const Shape &shape);

// NumPy broadcast of two shapes / infos. Throws popart::error naming `debugName` if they do not broadcast (or, for
// infos, if the element types differ).
Shape npOut(const Shape &a, const Shape &b, const std::string &debugName = "");
TensorInfo npOut(const TensorInfo &a, const TensorInfo &b, bool checkDataType = true,
                 const std::string &debugName = "");
bool npBroadcastable(const Shape &a, const Shape &b);
// Axes of `out` over which a gradient of shape `out` is summed to reach shape `in`.
std::vector<int64_t> npReductionAxis(const Shape &in, const Shape &out);

// Removes the given axes, which must be of size 1, or all such axes if none is given; the inverse adds axes of size 1
// at the given positions of the result. Negative axes count from the end. Throw popart::error for an axis that is out
// of range, given twice or not of size 1.
Shape squeeze(const Shape &shape, const std::vector<int64_t> &axes);
Shape unsqueeze(const Shape &shape, const std::vector<int64_t> &axes);

// axis in [-rank, rank) -> [0, rank); throws popart::error naming `what` otherwise.
int64_t normalizeAxis(int64_t axis, int64_t rank, const std::string &what);

}  // namespace popart
