// Reference kernels of the optimizer rows (formulas in src/ops/optim). Every element is read before it is written, so
// the output may be the variable's own memory.
#include <algorithm>
#include <cmath>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"
#include "backends/ref/index_position.hpp"
#include "ops/optim/var_update.hpp"

namespace popart::ref {
namespace {

// False if the row's input "due" says that the variable keeps its value.
bool isDue(const Context &c) {
  const int due = ops::dueInputOf(opDef(c.op.type));
  return due < 0 || !c.hasIn(due) || load(c.in[static_cast<size_t>(due)], 0) != 0;
}

void keep(const Context &c) {
  const auto *from = c.in[0].as<const unsigned char>();
  if (c.out[0].data != c.in[0].data) std::copy(from, from + c.in[0].info.nbytes(), c.out[0].as<unsigned char>());
}

// out[i] = f(in0[i], in1[i])
template <class F>
void update(const Context &c, F &&f) {
  if (!isDue(c)) return keep(c);
  for (int64_t i = 0; i < c.out[0].size(); ++i) store(c.out[0], i, f(load(c.in[0], i), load(c.in[1], i)));
}

void copyVarUpdate(const Context &c) {
  if (!isDue(c)) return keep(c);
  const auto *from = c.in[1].as<const unsigned char>();
  std::copy(from, from + c.in[1].info.nbytes(), c.out[0].as<unsigned char>());
}

void sgd0VarUpdate(const Context &c) {
  const double rate = parameter(c, 2, "slr0"), scale = parameter(c, 3, "wdsf0");
  update(c, [&](double w, double g) { return scale * w - rate * g; });
}

template <int kVersion>
void velocityUpdate(const Context &c) {
  const double momentum = parameter(c, 2, kVersion == 1 ? "smm1" : "smm2");
  const double decay = parameter(c, 3, kVersion == 1 ? "swd1" : "swd2");
  update(c, [&](double v, double w) { return momentum * v + decay * w; });
}

template <int kVersion>
void velocityVarUpdate(const Context &c) {
  const double rate = parameter(c, 2, kVersion == 1 ? "slr1" : "slr2");
  update(c, [&](double w, double v) { return w - rate * v; });
}

void sgd1Nesterov(const Context &c) {
  const double unscale = parameter(c, 3, "ils"), decay = parameter(c, 4, "wd");
  const double scale = parameter(c, 5, "ngsf"), momentum = parameter(c, 6, "mm");
  for (int64_t i = 0; i < c.out[0].size(); ++i)
    store(c.out[0], i, scale * (unscale * load(c.in[0], i) + decay * load(c.in[1], i)) + momentum * load(c.in[2], i));
}

void accumulate(const Context &c) {
  const std::string &kind = c.op.attrString("accumulation_type");
  const double f = parameter(c, 2, "factor", 1.0);
  if (kind == "Add") update(c, [&](double a, double x) { return a + f * x; });
  if (kind == "DampenedAdd") update(c, [&](double a, double x) { return a + f * x; });
  if (kind == "DampenedAddSquare") update(c, [&](double a, double x) { return a + f * x * x; });
  if (kind == "DecayAdd") update(c, [&](double a, double x) { return f * a + x; });
  if (kind == "DecayAddSquare") update(c, [&](double a, double x) { return f * a + x * x; });
  if (kind == "MovingAverage") update(c, [&](double a, double x) { return f * a + (1 - f) * x; });
  if (kind == "MovingAverageSquare") update(c, [&](double a, double x) { return f * a + (1 - f) * x * x; });
  if (kind == "Infinity") update(c, [&](double a, double x) { return std::max(f * a, std::abs(x)); });
  if (kind == "Mean") update(c, [&](double a, double x) { return (f * a + x) / (f + 1); });
}

void sparseAccumulate(const Context &c) {
  const double f = parameter(c, 3, "factor", 1.0);
  const Shape &shape = c.in[0].shape();
  const int64_t axis = c.op.attrInt("axis"), rows = shape[axis], count = c.in[2].size();
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < axis; ++i) outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  if (c.out[0].data != c.in[0].data)
    for (int64_t i = 0; i < c.out[0].size(); ++i) store(c.out[0], i, load(c.in[0], i));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t k = 0; k < count; ++k) {
      const int64_t row = placeOf(c, 2, k, rows);
      if (row < 0) continue;
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t to = (o * rows + row) * inner + i;
        store(c.out[0], to, load(c.out[0], to) + f * load(c.in[1], (o * count + k) * inner + i));
      }
    }
  }
}

void accumulatorScale(const Context &c) {
  if (!isDue(c)) return keep(c);
  const double f = parameter(c, 1, "factor");
  for (int64_t i = 0; i < c.out[0].size(); ++i) store(c.out[0], i, f == 0 ? 0.0 : f * load(c.in[0], i));
}

void accumulatorZero(const Context &c) {
  for (int64_t i = 0; i < c.out[0].size(); ++i) store(c.out[0], i, 0.0);
}

void adamUpdater(const Context &c) {
  const std::string &mode = c.op.attrString("mode");
  const bool corrects = mode == "Adam" || mode == "Lamb" || mode == "AdaMax";
  const double decay = parameter(c, 4, "weight_decay"), eps = parameter(c, 7, "epsilon");
  const double beta1 = parameter(c, 5, "beta1"), beta2 = parameter(c, 6, "beta2");
  const double step = c.hasIn(3) ? load(c.in[3], 0) + 1 : 0;
  if (c.hasOut(1)) store(c.out[1], 0, isDue(c) ? step : load(c.in[3], 0));
  const double correct1 = corrects ? 1 - std::pow(beta1, step) : 1;
  const double correct2 = corrects && mode != "AdaMax" ? 1 - std::pow(beta2, step) : 1;
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double m = load(c.in[1], i) / correct1, v = load(c.in[2], i) / correct2;
    double x = mode == "AdaMax" ? m / (v + eps) : m / (std::sqrt(v) + eps);
    if (decay != 0 && c.hasIn(0)) x += decay * load(c.in[0], i);
    store(c.out[0], i, x);
  }
}

void adamVarUpdate(const Context &c) {
  double rate = parameter(c, 4, "lr");
  if (c.hasIn(2)) {
    const double weight = load(c.in[2], 0), step = load(c.in[3], 0);
    const bool limited = c.hasIn(5) || c.op.hasAttr("max_weight_norm");
    const double limit = parameter(c, 5, "max_weight_norm");
    const double norm = limited ? std::min(std::sqrt(weight), limit) : std::sqrt(weight);
    if (weight != 0 && step != 0 && !(limited && limit == 0)) rate *= norm / std::sqrt(step);
  }
  update(c, [&](double w, double x) { return w - rate * x; });
}

void rmsPropUpdater(const Context &c) {
  const double eps = parameter(c, 3, "epsilon");
  const bool inside = c.op.attrInt("tf_variant") != 0;
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double mean = c.hasIn(2) ? load(c.in[2], i) : 0;
    const double variance = load(c.in[1], i) - mean * mean;
    store(c.out[0], i, load(c.in[0], i) / (inside ? std::sqrt(variance + eps) : std::sqrt(variance) + eps));
  }
}

void adaDeltaUpdater(const Context &c) {
  const double eps = parameter(c, 3, "epsilon");
  for (int64_t i = 0; i < c.out[0].size(); ++i)
    store(c.out[0], i, load(c.in[0], i) * std::sqrt(load(c.in[2], i) + eps) / std::sqrt(load(c.in[1], i) + eps));
}

void scaledVarUpdate(const Context &c) {
  const double rate = parameter(c, 2, "lr", 1.0), decay = parameter(c, 3, "wd");
  update(c, [&](double w, double x) { return w - rate * (x + decay * w); });
}

constexpr Entry kOptimKernels[] = {
    {"CopyVarUpdate", copyVarUpdate},
    {"SGD0VarUpdate", sgd0VarUpdate},
    {"SGD1AcclUpdate", velocityUpdate<1>},
    {"SGD2PartialAcclUpdate", velocityUpdate<2>},
    {"SGD1VarUpdate", velocityVarUpdate<1>},
    {"SGD2VarUpdate", velocityVarUpdate<2>},
    {"SGD1Nesterov", sgd1Nesterov},
    {"Accumulate", accumulate},
    {"PopartSparseAccumulate", sparseAccumulate},
    {"AccumulatorScale", accumulatorScale},
    {"AccumulatorZero", accumulatorZero},
    {"AdamUpdater", adamUpdater},
    {"AdamVarUpdate", adamVarUpdate},
    {"RMSPropUpdater", rmsPropUpdater},
    {"AdaDeltaUpdater", adaDeltaUpdater},
    {"ScaledVarUpdate", scaledVarUpdate},
};

}  // namespace

std::span<const Entry> optimKernels() { return kOptimKernels; }

}  // namespace popart::ref
