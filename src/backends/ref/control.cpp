// Reference kernels of Init, PrintTensor and of what watches values. Undefined content is zero as well: runs repeat to
// the bit.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"

namespace popart::ref {
namespace {

void init(const Context &c) { std::memset(c.out[0].data, 0, static_cast<size_t>(c.out[0].info.nbytes())); }

// Text of one tensor with the limits and brackets of the op's attributes.
class TensorText {
 public:
  explicit TensorText(const Context &c)
      : view_(c.in[0]),
        threshold_(c.op.attrInt("summariseThreshold")),
        edge_(c.op.attrInt("edgeItems")),
        width_(c.op.attrInt("maxLineWidth")),
        digits_(static_cast<int>(c.op.attrInt("digits"))),
        format_(c.op.attrInt("floatFormat")),
        separator_(c.op.attrString("separator")),
        open_(c.op.attrString("openBracket")),
        close_(c.op.attrString("closeBracket")) {}

  std::string str() {
    summarise_ = threshold_ > 0 && view_.size() > threshold_;
    append(0, 0);
    return text_;
  }

 private:
  void append(size_t axis, int64_t offset) {
    const Shape &shape = view_.shape();
    if (axis == shape.size()) {
      text_ += number(offset);
      return;
    }
    int64_t stride = 1;
    for (size_t i = axis + 1; i < shape.size(); ++i) stride *= shape[i];
    text_ += open_;
    size_t lineStart = text_.size();
    for (int64_t i = 0; i < shape[axis]; ++i) {
      if (i > 0) separate(axis, lineStart);
      if (summarise_ && i == edge_ && shape[axis] > 2 * edge_) {
        text_ += "...";
        i = shape[axis] - edge_ - 1;
        continue;
      }
      append(axis + 1, offset + i * stride);
    }
    text_ += close_;
  }

  void separate(size_t axis, size_t &lineStart) {
    text_ += separator_;
    const bool innermost = axis + 1 == view_.shape().size();
    const bool full = width_ > 0 && static_cast<int64_t>(text_.size() - lineStart) >= width_;
    if (innermost && !full) return;
    text_ += "\n" + std::string(axis + 1, ' ');
    lineStart = text_.size();
  }

  std::string number(int64_t i) const {
    char buffer[64];
    if (!isFloatingPoint(view_.info.dataType())) {
      std::snprintf(buffer, sizeof buffer, "%lld", static_cast<long long>(loadInt(view_, i)));
      return buffer;
    }
    const int digits = digits_ > 0 ? digits_ : 17;
    const char *format = format_ == 1 ? "%.*f" : format_ == 2 ? "%.*e" : "%.*g";
    std::snprintf(buffer, sizeof buffer, format, digits, load(view_, i));
    return buffer;
  }

  const View &view_;
  int64_t threshold_, edge_, width_;
  int digits_;
  int64_t format_;
  const std::string &separator_, &open_, &close_;
  bool summarise_ = false;
  std::string text_;
};

void printTensor(const Context &c) {
  std::memcpy(c.out[0].data, c.in[0].data, static_cast<size_t>(c.in[0].info.nbytes()));
  if (c.op.attrInt("print_self") == 0) return;
  const std::string &title = c.op.attrString("title");
  const std::string line = (title.empty() ? c.op.title : title) + ": " + TensorText(c).str() + "\n";
  std::fputs(line.c_str(), stderr);
}

void firstNonFinite(const Context &c) {
  auto *first = c.out[0].as<int64_t>();
  first[0] = first[1] = -1;
  for (int64_t i = c.in[0].size(); i-- > 0;) {
    const double x = load(c.in[0], i);
    if (std::isnan(x)) first[0] = i;
    if (std::isinf(x)) first[1] = i;
  }
}

void floatingPointCheck(const Context &c) {
  constexpr executable::FailureKind kKinds[] = {executable::FailureKind::NotANumber, executable::FailureKind::Infinity};
  for (int k = 0; k < 2; ++k) {
    const int64_t position = c.in[0].as<const int64_t>()[k];
    bool isNew = position >= 0;
    for (size_t i = 1; i < c.in.size(); ++i) isNew = isNew && c.in[i].as<const int64_t>()[k] < 0;
    if (isNew)
      c.run.report({.kind = kKinds[k],
                    .position = position,
                    .subject = c.op.attrString("checked_op").c_str(),
                    .tensor = c.op.attrString("tensor").c_str()});
  }
}

constexpr Entry kEntries[] = {
    {"Init", init},
    {"PrintTensor", printTensor},
    {"FirstNonFinite", firstNonFinite},
    {"FloatingPointCheck", floatingPointCheck},
};

}  // namespace

std::span<const Entry> controlKernels() { return kEntries; }

}  // namespace popart::ref
