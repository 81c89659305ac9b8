// Reference kernels of the normalisations and their gradients (formulas in src/ops/nn/norms.cpp and batch_norm.cpp).
// Every normalised set of elements is a list of positions; each position also names the parameter it uses.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"

namespace popart::ref {
namespace {

struct Statistics {
  double mean = 0, variance = 0;
};

// The sets of elements normalised together: `count` sets of `size` elements.
struct Sets {
  int64_t count, size;
  std::function<int64_t(int64_t set, int64_t i)> position;  // flat position in x
  std::function<int64_t(int64_t position)> parameter;       // index into scale
  std::function<int64_t(int64_t position)> biasParameter;   // index into bias
};

enum class Centre { Mean, Zero };

Statistics statistics(const View &x, const Sets &s, int64_t set, Centre centre) {
  Statistics st;
  const double n = static_cast<double>(s.size);
  if (centre == Centre::Mean) {
    for (int64_t i = 0; i < s.size; ++i) st.mean += load(x, s.position(set, i));
    st.mean /= n;
  }
  for (int64_t i = 0; i < s.size; ++i) {
    const double d = load(x, s.position(set, i)) - st.mean;
    st.variance += d * d;
  }
  st.variance /= n;
  return st;
}

Sets channelSets(const Shape &x) {
  int64_t inner = 1;
  for (size_t i = 2; i < x.size(); ++i) inner *= x[i];
  const int64_t channels = x[1];
  auto channelOf = [inner, channels](int64_t p) { return p / inner % channels; };
  return {channels, x[0] * inner,
          [inner, channels](int64_t c, int64_t i) { return (i / inner * channels + c) * inner + i % inner; }, channelOf,
          channelOf};
}

Sets groupSets(const OpValues &op, const Shape &x) {
  const int64_t groups = op.attrInt("num_groups"), size = elementCount(x) / std::max<int64_t>(x[0] * groups, 1);
  Sets s = channelSets(x);
  s.count = x[0] * groups, s.size = size;
  s.position = [size](int64_t set, int64_t i) { return set * size + i; };
  if (op.attributes.getAttribute<int64_t>("strided_groups", 0) == 0 || size == 0) return s;
  const int64_t channels = x[1], inner = size / (channels / groups);
  s.position = [channels, groups, inner](int64_t set, int64_t i) {
    const int64_t channel = i / inner * groups + set % groups;
    return (set / groups * channels + channel) * inner + i % inner;
  };
  return s;
}

Sets rowSets(const Context &c, const Shape &x, const Shape &scale, const Shape &bias) {
  const int64_t axis = normalizeAxis(c.op.attrInt("axis"), static_cast<int64_t>(x.size()), "axis");
  int64_t size = 1, count = 1;
  for (size_t i = 0; i < x.size(); ++i) (static_cast<int64_t>(i) < axis ? count : size) *= x[i];
  return {count, size, [size](int64_t set, int64_t i) { return set * size + i; },
          [x, scale](int64_t p) { return broadcastIndex(p, x, scale); },
          [x, bias](int64_t p) { return broadcastIndex(p, x, bias); }};
}

// y = (x - mean) r scale + bias for one set.
void writeNormalised(const Context &c, const Sets &s, int64_t set, double mean, double r) {
  for (int64_t i = 0; i < s.size; ++i) {
    const int64_t p = s.position(set, i);
    const double scaled = (load(c.in[0], p) - mean) * r * load(c.in[1], s.parameter(p));
    store(c.out[0], p, c.hasIn(2) ? scaled + load(c.in[2], s.biasParameter(p)) : scaled);
  }
}

void normalise(const Context &c, const Sets &s, Centre centre) {
  const double eps = c.op.attrFloat("epsilon");
  for (int64_t set = 0; set < s.count; ++set) {
    const Statistics st = statistics(c.in[0], s, set, centre);
    const double r = 1.0 / std::sqrt(st.variance + eps);
    writeNormalised(c, s, set, st.mean, r);
    if (c.hasOut(1)) store(c.out[1], set, st.mean);
    if (c.hasOut(2)) store(c.out[2], set, r);
  }
}

// Inputs (g, x, scale[, mean, r]); outputs (dx, dscale, dbias).
void normaliseGrad(const Context &c, const Sets &s, Centre centre) {
  const double eps = c.op.attrFloat("epsilon");
  const View &g = c.in[0], &x = c.in[1], &scale = c.in[2];
  std::vector<double> dscale(static_cast<size_t>(scale.size()), 0.0), dbias(dscale);
  const double n = static_cast<double>(s.size);
  for (int64_t set = 0; set < s.count; ++set) {
    Statistics st;
    double r;
    if (c.hasIn(3) && c.hasIn(4)) {
      st.mean = load(c.in[3], set), r = load(c.in[4], set);
    } else {
      st = statistics(x, s, set, centre);
      r = 1.0 / std::sqrt(st.variance + eps);
    }
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < s.size; ++i) {
      const int64_t p = s.position(set, i), k = s.parameter(p);
      const double gradient = load(g, p), xhat = (load(x, p) - st.mean) * r, h = gradient * load(scale, k);
      sum += h, dot += h * xhat;
      dscale[k] += gradient * xhat, dbias[k] += gradient;
    }
    if (centre == Centre::Zero) sum = 0;
    for (int64_t i = 0; i < s.size; ++i) {
      const int64_t p = s.position(set, i);
      const double xhat = (load(x, p) - st.mean) * r, h = load(g, p) * load(scale, s.parameter(p));
      store(c.out[0], p, r * (h - sum / n - xhat * dot / n));
    }
  }
  for (size_t k = 0; k < dscale.size(); ++k) {
    if (c.hasOut(1)) store(c.out[1], static_cast<int64_t>(k), dscale[k]);
    if (c.hasOut(2)) store(c.out[2], static_cast<int64_t>(k), dbias[k]);
  }
}

void batchNorm(const Context &c) {
  const Sets s = channelSets(c.in[0].shape());
  const double eps = c.op.attrFloat("epsilon"), momentum = c.op.attrFloat("momentum");
  const bool training = c.op.attrInt("training_mode") != 0, unbiased = c.op.attrInt("unbiased_variance") != 0;
  for (int64_t set = 0; set < s.count; ++set) {
    Statistics st{load(c.in[3], set), load(c.in[4], set)};
    const Statistics running = st;
    if (training) st = statistics(c.in[0], s, set, Centre::Mean);
    const double r = 1.0 / std::sqrt(st.variance + eps), n = static_cast<double>(s.size);
    const double variance = unbiased && s.size > 1 ? st.variance * n / (n - 1) : st.variance;
    writeNormalised(c, s, set, st.mean, r);
    if (c.hasOut(1)) store(c.out[1], set, momentum * running.mean + (1 - momentum) * st.mean);
    if (c.hasOut(2)) store(c.out[2], set, momentum * running.variance + (1 - momentum) * variance);
    if (c.hasOut(3)) store(c.out[3], set, st.mean);
    if (c.hasOut(4)) store(c.out[4], set, r);
  }
}

void batchNormGrad(const Context &c) { normaliseGrad(c, channelSets(c.in[1].shape()), Centre::Mean); }
void groupNorm(const Context &c) { normalise(c, groupSets(c.op, c.in[0].shape()), Centre::Mean); }
void groupNormGrad(const Context &c) { normaliseGrad(c, groupSets(c.op, c.in[1].shape()), Centre::Mean); }

void layerNorm(const Context &c) {
  const Shape bias = c.hasIn(2) ? c.in[2].shape() : Shape{};
  normalise(c, rowSets(c, c.in[0].shape(), c.in[1].shape(), bias), Centre::Mean);
}
void layerNormGrad(const Context &c) {
  normaliseGrad(c, rowSets(c, c.in[1].shape(), c.in[2].shape(), c.in[2].shape()), Centre::Mean);
}
void rmsNorm(const Context &c) { normalise(c, rowSets(c, c.in[0].shape(), c.in[1].shape(), {}), Centre::Zero); }
void rmsNormGrad(const Context &c) {
  normaliseGrad(c, rowSets(c, c.in[1].shape(), c.in[2].shape(), c.in[2].shape()), Centre::Zero);
}

// The neighbouring channels of LRN, and s = bias + alpha / size sum x² at one position.
struct Neighbours {
  int64_t channels, inner, before, after;
  double alpha, beta, bias, size;

  Neighbours(const Context &c, const Shape &x)
      : channels(x[1]),
        inner(1),
        before((c.op.attrInt("size") - 1) / 2),
        after(c.op.attrInt("size") - 1 - before),
        alpha(c.op.attrFloat("alpha")),
        beta(c.op.attrFloat("beta")),
        bias(c.op.attrFloat("bias")),
        size(static_cast<double>(c.op.attrInt("size"))) {
    for (size_t i = 2; i < x.size(); ++i) inner *= x[i];
  }
  int64_t channelOf(int64_t p) const { return p / inner % channels; }
  double scaleAt(const View &x, int64_t p) const {
    const int64_t c = channelOf(p);
    double sum = 0;
    for (int64_t k = std::max<int64_t>(c - before, 0); k <= std::min(c + after, channels - 1); ++k) {
      const double v = load(x, p + (k - c) * inner);
      sum += v * v;
    }
    return bias + alpha / size * sum;
  }
};

void lrn(const Context &c) {
  const Neighbours n(c, c.in[0].shape());
  for (int64_t p = 0; p < c.in[0].size(); ++p)
    store(c.out[0], p, load(c.in[0], p) * std::pow(n.scaleAt(c.in[0], p), -n.beta));
}

// x at channel c contributes to the scale of channels [c - after, c + before].
void lrnGrad(const Context &c) {
  const View &g = c.in[0], &x = c.in[1];
  const Neighbours n(c, x.shape());
  for (int64_t p = 0; p < x.size(); ++p) {
    const int64_t channel = n.channelOf(p);
    double sum = 0;
    for (int64_t k = std::max<int64_t>(channel - n.after, 0); k <= std::min(channel + n.before, n.channels - 1); ++k) {
      const int64_t q = p + (k - channel) * n.inner;
      sum += load(g, q) * load(x, q) * std::pow(n.scaleAt(x, q), -n.beta - 1);
    }
    const double direct = load(g, p) * std::pow(n.scaleAt(x, p), -n.beta);
    store(c.out[0], p, direct - 2 * n.alpha * n.beta / n.size * load(x, p) * sum);
  }
}

constexpr Entry kNormKernels[] = {
    {"BatchNormalization", batchNorm},
    {"BatchNormalizationGrad", batchNormGrad},
    {"GroupNormalization", groupNorm},
    {"GroupNormalizationGrad", groupNormGrad},
    {"LayerNormalization", layerNorm},
    {"LayerNormalizationGrad", layerNormGrad},
    {"RMSNormalization", rmsNorm},
    {"RMSNormalizationGrad", rmsNormGrad},
    {"LRN", lrn},
    {"LRNGrad", lrnGrad},
};

}  // namespace

std::span<const Entry> normKernels() { return kNormKernels; }

}  // namespace popart::ref
