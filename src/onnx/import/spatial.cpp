// Convolutions and pools: auto_pad becomes explicit pads.
#include <algorithm>

#include <popart/error.hpp>

#include "onnx/importer.hpp"

namespace popart::onnx {
namespace {

struct Window {
  std::vector<int64_t> kernel, strides, dilations;
};

Window readWindow(NodeContext &n, const Shape &kernelDefault) {
  const int spatial = n.info(0).rank() - 2;
  n.require(spatial >= 1, "input must have at least three dimensions: got {}", n.info(0));
  const std::vector<int64_t> ones(spatial, 1);
  Window w{n.attr("kernel_shape", kernelDefault), n.attr("strides", ones), n.attr("dilations", ones)};
  if (w.kernel.empty()) w.kernel = kernelDefault;
  if (w.strides.empty()) w.strides = ones;
  if (w.dilations.empty()) w.dilations = ones;
  for (const auto *list : {&w.kernel, &w.strides, &w.dilations}) {
    n.require(static_cast<int>(list->size()) == spatial,
              "kernel_shape, strides and dilations need one number per spatial dimension: got {} for {}", *list,
              n.info(0));
    for (int64_t v : *list)
      n.require(v >= 1 && v < (int64_t{1} << 31), "kernel_shape, strides and dilations must be positive: got {}",
                *list);
  }
  return w;
}

// Total padding split evenly; the odd one goes to the end (SAME_UPPER) or the beginning (SAME_LOWER).
std::vector<int64_t> splitPads(const std::vector<int64_t> &totals, const std::string &mode) {
  const size_t spatial = totals.size();
  std::vector<int64_t> pads(2 * spatial);
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t small = totals[i] / 2;
    pads[i] = mode == "SAME_UPPER" ? small : totals[i] - small;
    pads[i + spatial] = totals[i] - pads[i];
  }
  return pads;
}

std::string takeAutoPad(NodeContext &n) {
  const std::string mode = n.attr<std::string>("auto_pad", "NOTSET");
  n.require(mode.empty() || mode == "NOTSET" || mode == "VALID" || mode == "SAME_UPPER" || mode == "SAME_LOWER",
            "attribute auto_pad is unknown: got '{}', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER", mode);
  n.attributes().erase("auto_pad");
  // Empty lists mean the default.
  for (const char *name : {"pads", "strides", "dilations", "kernel_shape", "output_padding", "output_shape"})
    if (n.hasAttr(name) && n.attr<std::vector<int64_t>>(name, {}).empty()) n.attributes().erase(name);
  return mode.empty() ? "NOTSET" : mode;
}

Shape kernelOf(NodeContext &n) {
  if (n.type() != "Conv" && n.type() != "ConvTranspose") return {};
  n.require(n.info(1).rank() == n.info(0).rank(), "weights and input differ in rank: got {} and {}", n.info(1),
            n.info(0));
  n.require(n.info(1).rank() >= 3, "weights must have at least three dimensions: got {}", n.info(1));
  return Shape(n.info(1).shape().begin() + 2, n.info(1).shape().end());
}

// A pool window that covers only padding has no maximum and no mean.
void requirePadsInside(const NodeContext &n, const Window &w) {
  const auto pads = n.attr<std::vector<int64_t>>("pads", {});
  for (size_t i = 0; i < pads.size(); ++i) {
    const size_t axis = i % w.kernel.size();
    const int64_t extent = (w.kernel[axis] - 1) * w.dilations[axis] + 1;
    n.require(pads[i] < extent,
              "attribute pads: pads are as large as the window in spatial dimension {}: got {}, expected less than {}. "
              "Pad the input before",
              static_cast<int64_t>(axis), pads, extent);
  }
}

void importWindowed(NodeContext &n) {
  const std::string mode = takeAutoPad(n);
  const Window w = readWindow(n, kernelOf(n));
  if (mode == "VALID") n.attributes().erase("pads");
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    std::vector<int64_t> totals;
    for (size_t i = 0; i < w.kernel.size(); ++i) {
      const int64_t in = n.info(0).shape()[i + 2];
      const int64_t out = (in + w.strides[i] - 1) / w.strides[i];
      totals.push_back(std::max<int64_t>(0, (out - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilations[i] + 1 - in));
    }
    n.attributes().set("pads", splitPads(totals, mode));
  }
  if (n.type() != "Conv") requirePadsInside(n, w);
  importRegular(n);
}

// out = stride (in - 1) + output_padding + (kernel - 1) dilation + 1 - pads; SAME: out = in * stride.
void importConvTranspose(NodeContext &n) {
  const std::string mode = takeAutoPad(n);
  const Window w = readWindow(n, kernelOf(n));
  const size_t spatial = w.kernel.size();
  const bool fixedOutput = n.hasAttr("output_shape");
  if (mode == "VALID") n.attributes().erase("pads");
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER" || fixedOutput) {
    std::vector<int64_t> out = n.attr<std::vector<int64_t>>("output_shape", {});
    if (out.size() == spatial + 2) out.erase(out.begin(), out.begin() + 2);
    std::vector<int64_t> extra = n.attr("output_padding", std::vector<int64_t>(spatial, 0));
    n.require((!fixedOutput || out.size() == spatial) && extra.size() == spatial,
              "output_shape and output_padding need one number per spatial dimension");
    constexpr int64_t kLargest = int64_t{1} << 31;  // sums of products of two of them fit 64 bits
    for (const auto *list : {&out, &extra})
      n.require(std::ranges::all_of(*list, [](int64_t v) { return v >= 0 && v < kLargest; }),
                "output_shape and output_padding must be 0 or more and less than {}: got {}", kLargest, *list);
    std::vector<int64_t> totals;
    for (size_t i = 0; i < spatial; ++i) {
      const int64_t in = n.info(0).shape()[i + 2];
      n.require(in < kLargest, "the input's dimensions must be smaller than {}: got {}", kLargest, n.info(0));
      const int64_t wanted = fixedOutput ? out[i] : in * w.strides[i];
      const int64_t total = w.strides[i] * (in - 1) + extra[i] + (w.kernel[i] - 1) * w.dilations[i] + 1 - wanted;
      extra[i] += std::max<int64_t>(0, -total);
      totals.push_back(std::max<int64_t>(0, total));
    }
    n.attributes().set("pads", splitPads(totals, mode == "SAME_UPPER" ? mode : "SAME_LOWER"));
    n.attributes().set("output_padding", extra);
    n.attributes().erase("output_shape");
  }
  importRegular(n);
}

}  // namespace

std::vector<ImportRule> spatialRules() {
  std::vector<ImportRule> rules;
  for (const char *type : {"Conv", "MaxPool", "AveragePool", "LpPool"})
    rules.push_back({"ai.onnx", type, importWindowed});
  rules.push_back({"ai.onnx", "ConvTranspose", importConvTranspose});
  return rules;
}

}  // namespace popart::onnx
