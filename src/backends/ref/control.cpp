// Reference kernels of Init, PrintTensor, Abort and the checks of floating-point values. Init writes zeros, although
// its content is undefined: every run has the same bits.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"

namespace popart::ref {
namespace {

void init(const Context &c) { std::memset(c.out[0].data, 0, static_cast<size_t>(c.out[0].info.nbytes())); }

// Numbers of one tensor as text, all of the same width. Floats have `digits` digits in total, and all have the same
// number after the decimal point; if these are too few for the largest value, all are written with an exponent.
class NumberTexts {
 public:
  enum Format { Auto, Fixed, Scientific, None };

  NumberTexts(const View &view, Format format, int digits) : view_(view), format_(format), digits_(digits) {
    if (isFloatingPoint(view.info.dataType()) && format_ == Auto) digits > 0 ? chooseDecimals() : unlimited();
    for (int64_t i = 0; format_ != None && i < view_.size(); ++i) width_ = std::max(width_, text(i).size());
  }

  std::string at(int64_t i) const {
    const std::string number = text(i);
    return std::string(width_ - std::min(width_, number.size()), ' ') + number;
  }

 private:
  void unlimited() { format_ = None; }
  void chooseDecimals() {
    constexpr double kSmallest = 1e-4;  // smaller values would show few of the digits
    double largest = 0;
    for (int64_t i = 0; i < view_.size(); ++i)
      if (const double x = std::abs(load(view_, i)); std::isfinite(x)) largest = std::max(largest, x);
    const int before = largest < 1 ? 1 : static_cast<int>(std::floor(std::log10(largest))) + 1;
    const bool shows = before <= digits_ && (largest == 0 || largest >= kSmallest);
    format_ = shows ? Fixed : Scientific;
    digits_ -= shows ? before : 1;
  }
  std::string text(int64_t i) const {
    const DataType type = view_.info.dataType();
    if (!isFloatingPoint(type))
      return std::to_string(isSmall(type) ? static_cast<int64_t>(load(view_, i)) : loadInt(view_, i));
    constexpr int kAllDigits = 17;
    const char *format = format_ == Fixed ? "%.*f" : format_ == Scientific ? "%.*e" : "%.*g";
    std::array<char, 512> buffer;
    const int digits = digits_ > 0 || format_ != None ? digits_ : kAllDigits;
    std::snprintf(buffer.data(), buffer.size(), format, digits, load(view_, i));
    return buffer.data();
  }

  const View &view_;
  Format format_;
  int digits_;
  size_t width_ = 0;
};

// Text of one tensor, with the limits and brackets that the attributes of the op give.
class TensorText {
 public:
  explicit TensorText(const Context &c)
      : view_(c.in[0]),
        threshold_(c.op.attrInt("summariseThreshold")),
        edge_(c.op.attrInt("edgeItems")),
        width_(c.op.attrInt("maxLineWidth")),
        numbers_(c.in[0], static_cast<NumberTexts::Format>(c.op.attrInt("floatFormat")),
                 static_cast<int>(c.op.attrInt("digits"))),
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
      text_ += numbers_.at(offset);
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

  const View &view_;
  int64_t threshold_, edge_, width_;
  NumberTexts numbers_;
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

// Aborts if the condition is not 0, hence also if it is NaN, or if there is no condition.
void abortProgram(const Context &c) {
  const bool conditional = !c.in.empty() && c.in[0].connected();
  if (conditional && load(c.in[0], 0) == 0.0) return;
  if (c.op.attributes.hasAttribute("reason")) {
    const std::string reason = c.op.attrString("reason");
    const size_t colon = reason.find(": ");  // "<op>: <what is wrong>"
    return c.run.reportText(reason.substr(0, colon), reason.c_str() + std::min(colon + 2, reason.size()));
  }
  c.run.report({.kind = executable::FailureKind::Abort, .operand = conditional ? 0 : -1});
}

void checkRange(const Context &c) {
  const int64_t low = c.op.attrInt("low"), high = c.op.attrInt("high");
  std::memcpy(c.out[0].data, c.in[0].data, static_cast<size_t>(c.in[0].info.nbytes()));
  for (int64_t i = 0; i < c.in[0].size(); ++i)
    if (const int64_t x = loadInt(c.in[0], i); x < low || x > high)
      c.run.report({.kind = executable::FailureKind::Index,
                    .position = i,
                    .value = x,
                    .low = low,
                    .high = high,
                    .type = c.op.attrString("what").c_str()});
}

constexpr Entry kControlKernels[] = {
    {"Init", init},
    {"PrintTensor", printTensor},
    {"Abort", abortProgram},
    {"CheckRange", checkRange},
    {"FirstNonFinite", firstNonFinite},
    {"FloatingPointCheck", floatingPointCheck},
};

}  // namespace

std::span<const Entry> controlKernels() { return kControlKernels; }

}  // namespace popart::ref
