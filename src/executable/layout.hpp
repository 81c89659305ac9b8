// Layout: how a tensor's elements lie in device memory when they do not lie in C order. An opaque value: programs know its
// name, memory plans its size, hosts the conversions; what it means is known to the kernels that want it. A new packing
// is one file: a class and a LayoutFamily.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <popart/tensorinfo.hpp>

namespace popart::executable {

// Immutable, one object per name for the life of the process: layouts are equal when their addresses are. Everywhere a
// null `const Layout *` is plain memory, C order.
class Layout {
 public:
  explicit Layout(std::string name) : name_(std::move(name)) {}
  virtual ~Layout() = default;
  Layout(const Layout &) = delete;
  Layout &operator=(const Layout &) = delete;

  const std::string &name() const { return name_; }  // in IR text: "channels_last"
  // Bytes that a tensor takes, padding included. Throws popart::error for a shape that the layout does not describe.
  virtual int64_t bytes(const TensorInfo &info) const = 0;
  // Between C order (info.nbytes() bytes) and this layout (bytes(info)), bit exact, padding zero. Pure: any number of
  // threads may call them. Throw internal_error for elements of more than 8 bytes.
  virtual void pack(const TensorInfo &info, const void *plain, void *stored) const = 0;
  virtual void unpack(const TensorInfo &info, const void *stored, void *plain) const = 0;
  // Whether the elements of this tensor lie as in C order after all.
  virtual bool isPlain(const TensorInfo &info) const {
    (void)info;
    return false;
  }

 private:
  std::string name_;
};

// Layouts whose names one function understands. Declare one as a constant beside the class it makes.
class LayoutFamily {
 public:
  using Parse = std::unique_ptr<const Layout> (*)(std::string_view name);
  // `form`: of the names, for messages: "packed<columns>". `parse` gives null for a name of no layout of the family.
  LayoutFamily(std::string form, Parse parse);

  const std::string &form() const { return form_; }
  Parse parse() const { return parse_; }

 private:
  std::string form_;
  Parse parse_;
};

// The layout of this name, null for "" and "plain". Throws popart::error, listing the families, for any other text.
const Layout *layoutNamed(std::string_view name);
// (N, spatial…, C) for a tensor (N, C, spatial…).
const Layout *channelsLast();

// ---- the same of layouts that may be null

std::string layoutName(const Layout *layout);  // "plain" for null
int64_t storageBytes(const TensorInfo &info, const Layout *layout);
void pack(const TensorInfo &info, const Layout *layout, const void *plain, void *stored);
void unpack(const TensorInfo &info, const Layout *layout, const void *stored, void *plain);

}  // namespace popart::executable
