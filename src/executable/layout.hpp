// Layout: an order of a tensor's elements in device memory that is not C order. It is an opaque value: programs contain
// its name, the memory plan its size, hosts use its conversions; only the kernels that use it know what it means. A new
// packing is one file: a class and a LayoutFamily.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <popart/tensorinfo.hpp>

namespace popart::executable {

// Immutable; there is one object for each name in a process, so layouts are equal if their addresses are. A null
// `const Layout *` always means plain memory in C order.
class Layout {
 public:
  explicit Layout(std::string name) : name_(std::move(name)) {}
  virtual ~Layout() = default;
  Layout(const Layout &) = delete;
  Layout &operator=(const Layout &) = delete;

  const std::string &name() const { return name_; }  // in IR text: "channels_last"
  // Bytes of a tensor, including padding. Throws popart::error for a shape that the layout does not describe.
  virtual int64_t bytes(const TensorInfo &info) const = 0;
  // Conversions between C order (info.nbytes() bytes) and this layout (bytes(info)): bit exact, padding is zero. Any
  // number of threads may call them. They throw internal_error for elements of more than 8 bytes.
  virtual void pack(const TensorInfo &info, const void *plain, void *stored) const = 0;
  virtual void unpack(const TensorInfo &info, const void *stored, void *plain) const = 0;
  // Whether the layout of this tensor equals C order.
  virtual bool isPlain(const TensorInfo &info) const {
    (void)info;
    return false;
  }

 private:
  std::string name_;
};

// The layouts whose names one function parses. Declare one as a constant next to the class it makes.
class LayoutFamily {
 public:
  using Parse = std::unique_ptr<const Layout> (*)(std::string_view name);
  // `form`: pattern of the names, for messages: "packed<columns>". `parse` returns null for names of other families.
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

// ---- the same for layouts that may be null

std::string layoutName(const Layout *layout);  // "plain" for null
int64_t storageBytes(const TensorInfo &info, const Layout *layout);
void pack(const TensorInfo &info, const Layout *layout, const void *plain, void *stored);
void unpack(const TensorInfo &info, const Layout *layout, const void *stored, void *plain);

}  // namespace popart::executable
