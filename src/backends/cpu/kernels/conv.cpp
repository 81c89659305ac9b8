// Plans of convolutions: which loop nest computes a shape, and which layout the weights have. See conv.hpp.
#include "backends/cpu/kernels/conv.hpp"

#include <algorithm>
#include <numeric>

#include "backends/cpu/kernels/look_ahead.hpp"
#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/kernels/transpose.hpp"

namespace popart::cpu {
namespace {

const float *asFloats(const void *p) { return static_cast<const float *>(p); }

// A kernel of one tap that reads every pixel once: the convolution is a plain product over pixels.
bool isPointwise(const ConvShape &s) {
  return s.taps() == 1 && volume(s.stride) == 1 && s.padLow == Spatial{} && s.padHigh == Spatial{};
}

Matmul pointwise(const ConvShape &s, int64_t columns, int64_t k, int threads) {
  MatmulShape shape{s.n * volume(s.in), columns, k, BLayout::kPacked};
  shape.factors = s.type;
  shape.computesRows = s.computesX;
  shape.batch[3] = s.groups;
  return Matmul(shape, threads);
}

// `aStride`, `cStride`: elements between pixels.
void runPointwise(const Matmul &plan, int task, const ConvShape &s, const void *a, int64_t k, ptrdiff_t aStride,
                  const void *weights, void *c, int64_t columns, ptrdiff_t cStride, const Epilogue &epilogue,
                  float *scratch, RowProgram *rows = nullptr) noexcept {
  MatmulArgs args;
  args.rows = rows;
  if (isHalf(s.type)) {
    args.aHalves = static_cast<const uint16_t *>(a);
    args.bHalves = static_cast<const uint16_t *>(weights);
  } else {
    args.a = static_cast<const float *>(a);
    args.b = static_cast<const float *>(weights);
  }
  args.aRowStride = aStride;
  args.aBatchStride[3] = k;
  args.bBatchStride[3] = packedSize(k, columns);
  args.c = c;
  args.cRowStride = cStride;
  args.cBatchStride[3] = columns;
  args.biasBatchStride[3] = columns;
  args.epilogue = epilogue;
  plan.run(task, args, scratch);
}

WindowShape inputWindows(const ConvShape &s) {
  return {s.n, s.in, s.out(), s.stride, s.dilation, s.kernel, s.padLow, s.cin / s.groups, s.pixelOfX()};
}

WindowProductShape forwardShape(const ConvShape &s) {
  WindowProductShape p;
  p.window = inputWindows(s);
  p.groups = s.groups;
  p.columns = s.cout / s.groups;
  p.weightRows = s.taps() * p.window.channels;
  for (int64_t t = 0; t < s.taps(); ++t) p.tapRows.push_back(t * p.window.channels);
  p.size = s.out();
  p.yStride = s.pixelOfY();
  p.anySumOrder = s.anySumOrder;
  return p;
}

// The input pixels first, first + stride, … of dimension d, and the kernel positions (taps) that reach them: pixel i is
// reached from output position i + (first + padLow - tap * dilation) / stride. From the highest tap down, these
// positions ascend with equal gaps.
struct PhaseDimension {
  int64_t count = 0;
  std::vector<int64_t> taps;
  int64_t low = 0, gap = 1;
};

PhaseDimension phaseDimension(const ConvShape &s, size_t d, int64_t first) {
  PhaseDimension phase;
  phase.count = std::max<int64_t>(0, (s.in[d] - first + s.stride[d] - 1) / s.stride[d]);
  for (int64_t tap = s.kernel[d] - 1; tap >= 0; --tap) {
    const int64_t distance = first + s.padLow[d] - tap * s.dilation[d];
    if (distance % s.stride[d] != 0) continue;
    if (phase.taps.empty()) phase.low = -(distance / s.stride[d]);
    phase.taps.push_back(tap);
  }
  phase.gap = s.dilation[d] / std::gcd(s.dilation[d], s.stride[d]);
  return phase;
}

WindowProductShape phaseShape(const ConvShape &s, const Spatial &first) {
  WindowProductShape p;
  std::array<PhaseDimension, 3> phase;
  WindowShape &w = p.window;
  w.n = s.n, w.in = s.out();
  w.channels = s.cout / s.groups, w.pixelStride = s.pixelOfY();
  for (size_t d = 0; d < 3; ++d) {
    phase[d] = phaseDimension(s, d, first[d]);
    w.out[d] = phase[d].count, w.taps[d] = static_cast<int64_t>(phase[d].taps.size());
    w.low[d] = phase[d].low, w.dilation[d] = phase[d].gap;
  }
  for (const int64_t depth : phase[0].taps)
    for (const int64_t row : phase[1].taps)
      for (const int64_t column : phase[2].taps)
        p.tapRows.push_back((s.taps() - 1 - ((depth * s.kernel[1] + row) * s.kernel[2] + column)) * w.channels);
  if (p.tapRows.empty()) w.taps = {1, 1, 1}, w.low = {}, w.stride = {};  // nothing is read
  p.groups = s.groups;
  p.columns = s.cin / s.groups;
  p.weightRows = s.taps() * w.channels;
  p.first = first, p.step = s.stride, p.size = s.in;
  p.yStride = s.pixelOfX();
  p.anySumOrder = s.anySumOrder;
  return p;
}

// The phases with at least one pixel.
std::vector<WindowProductShape> phaseShapes(const ConvShape &s) {
  std::vector<WindowProductShape> shapes;
  Spatial first;
  for (first[0] = 0; first[0] < s.stride[0]; ++first[0])
    for (first[1] = 0; first[1] < s.stride[1]; ++first[1])
      for (first[2] = 0; first[2] < s.stride[2]; ++first[2]) {
        WindowProductShape shape = phaseShape(s, first);
        if (volume(shape.window.out) > 0) shapes.push_back(std::move(shape));
      }
  return shapes;
}

// Phases that read the same windows become results of one product, so each row of dy is read once. A kernel as long as
// its stride has such phases. They differ in the first tap; the distances from there to the next taps are the same.
std::vector<WindowProductShape> joinedPhases(const ConvShape &s) {
  std::vector<WindowProductShape> joined;
  for (WindowProductShape &phase : phaseShapes(s)) {
    const auto same = std::ranges::find_if(
        joined, [&](const WindowProductShape &j) { return !j.tapRows.empty() && j.window == phase.window; });
    if (same == joined.end() || phase.tapRows.empty()) {
      joined.push_back(std::move(phase));
      continue;
    }
    WindowResult result{phase.tapRows.front() - same->tapRows.front(), phase.first};
    for (size_t d = 0; d < 3; ++d) result.position[d] -= same->first[d];
    same->results.push_back(result);
  }
  return joined;
}

template <class Product, class... Arguments>
std::vector<Product> productsOf(std::vector<WindowProductShape> shapes, Arguments... arguments) {
  std::vector<Product> products;
  for (WindowProductShape &shape : shapes) products.emplace_back(std::move(shape), arguments...);
  return products;
}

// The alternatives of a plan have the same tasks(), scratchFloats() and, except for the arguments of Matmul, run().
template <class Plan>
int64_t tasksOf(const Plan &plan) {
  return plan.tasks();
}
template <class Product>
int64_t tasksOf(const std::vector<Product> &plans) {
  return std::accumulate(plans.begin(), plans.end(), int64_t{0},
                         [](int64_t sum, const Product &p) { return sum + p.tasks(); });
}
template <class Plan>
size_t scratchOf(const Plan &plan) {
  return plan.scratchFloats();
}
template <class Product>
size_t scratchOf(const std::vector<Product> &plans) {
  size_t most = 0;
  for (const Product &p : plans) most = std::max(most, p.scratchFloats());
  return most;
}

template <class Product, class... Arguments>
void runPhase(const std::vector<Product> &plans, int task, Arguments... arguments) {
  const Product *phase = plans.data();
  for (; task >= phase->tasks(); ++phase) task -= phase->tasks();
  phase->run(task, arguments...);
}

// The fraction of the whole work that a task does.
template <class Plan>
double shareOf(const Plan &plan, int task) {
  return plan.share(task);
}
template <class Product>
double shareOf(const std::vector<Product> &plans, int task) {
  double whole = 0;
  for (const Product &p : plans) whole += p.products();
  const Product *phase = plans.data();
  for (; task >= phase->tasks(); ++phase) task -= phase->tasks();
  return whole > 0 ? phase->products() / whole * phase->share(task) : 0;
}

template <class Variant>
int tasksOfAny(const Variant &plan) {
  return static_cast<int>(std::visit([](const auto &p) { return tasksOf(p); }, plan));
}
template <class Variant>
size_t scratchOfAny(const Variant &plan) {
  return std::visit([](const auto &p) { return scratchOf(p); }, plan);
}

}  // namespace

Spatial ConvShape::out() const {
  Spatial size;
  for (int d = 0; d < 3; ++d) {
    const int64_t span = in[d] + padLow[d] + padHigh[d] - dilation[d] * (kernel[d] - 1) - 1;
    size[d] = span < 0 ? 0 : span / stride[d] + 1;
  }
  return size;
}

bool ConvShape::joinsGroups() const {
  const int64_t most = groups > 1 ? std::max(cin, cout) / groups : 0;
  return isDepthwise() || (most > 0 && 4 * most <= panelWidth());  // at most half a vector; a panel has two vectors
}

ConvWeightTranspose::ConvWeightTranspose(const ConvShape &s)
    : shape_(s),
      width_(panelWidth()),
      panels_((s.cin / s.groups + width_ - 1) / width_),
      rows_(s.taps() * (s.cout / s.groups)) {}

// A task transposes one tap of a panel: blocks of (input channels) x (output channels of a packed panel). Blocks are
// far apart: each is prefetched while the one before it is transposed.
template <class T>
void ConvWeightTranspose::runAs(int task, const T *packed, T *transposed) const noexcept {
  const int64_t taps = shape_.taps(), cin = shape_.cin / shape_.groups, cout = shape_.cout / shape_.groups;
  const int64_t tap = task % taps, panel = task / taps % panels_, group = task / taps / panels_;
  const int64_t first = panel * width_, channels = std::min(width_, cin - first);
  T *out = transposed + ((group * panels_ + panel) * rows_ + (taps - 1 - tap) * cout) * width_;
  const T *in = packed + group * packedSize(taps * cin, cout) + (tap * cin + first) * width_;
  const int64_t step = taps * cin * width_;
  for (int64_t co = 0; co < cout; co += width_, in += step) {
    if (co + width_ < cout) prefetchTile<PrefetchFor::kRead>(in, step, shape_.type, width_, channels, width_);
    transpose(in, width_, out + co * width_, width_, channels, std::min(width_, cout - co));
  }
  for (int64_t co = 0; co < cout && channels < width_; ++co)
    std::fill(out + co * width_ + channels, out + (co + 1) * width_, T{});
}

void ConvWeightTranspose::run(int task, const void *packed, void *transposed) const noexcept {
  if (isHalf(shape_.type))
    return runAs(task, static_cast<const uint16_t *>(packed), static_cast<uint16_t *>(transposed));
  runAs(task, static_cast<const float *>(packed), static_cast<float *>(transposed));
}

namespace {

ForwardPlan forwardPlan(const ConvShape &s, int threads) {
  if (DepthwiseProduct::fits(s)) return DepthwiseProduct(forwardShape(s), GroupedWeights::kPacked, threads);
  if (s.joinsGroups()) return GroupedProduct(forwardShape(s), GroupedWeights::kPacked, threads);
  if (isPointwise(s)) return pointwise(s, s.cout / s.groups, s.cin / s.groups, threads);
  WindowProductShape shape = forwardShape(s);
  if (s.anySumOrder && WinogradProduct::fits(shape, s.type)) return WinogradProduct(std::move(shape), threads);
  return WindowProduct(std::move(shape), threads, s.type,
                       s.computesX ? WindowProduct::Input::kComputed : WindowProduct::Input::kStored);
}

DataGradientPlan dataGradientPlan(const ConvShape &s, int threads) {
  if (DepthwiseProduct::fits(s))
    return productsOf<DepthwiseProduct>(phaseShapes(s), GroupedWeights::kExchanged, threads);
  if (s.joinsGroups()) return productsOf<GroupedProduct>(phaseShapes(s), GroupedWeights::kExchanged, threads);
  if (isPointwise(s)) return pointwise(s, s.cin / s.groups, s.cout / s.groups, threads);
  std::vector<WindowProductShape> phases = joinedPhases(s);
  if (s.anySumOrder && phases.size() == 1 && WinogradProduct::fits(phases[0], s.type))
    return WinogradProduct(std::move(phases[0]), threads);
  return productsOf<WindowProduct>(std::move(phases), threads, s.type);
}

WeightGradientPlan weightGradientPlan(const ConvShape &s, int threads) {
  const WindowGradientShape shape{inputWindows(s), s.groups, s.cout / s.groups, s.type};
  if (s.joinsGroups()) return GroupedGradient(shape, threads);
  if (s.anySumOrder && WinogradGradient::fits(shape)) return WinogradGradient(shape, threads);
  return WindowGradient(shape, threads);
}

}  // namespace

ConvForward::ConvForward(const ConvShape &s, int threads) : shape_(s), plan_(forwardPlan(s, threads)) {}

int ConvForward::tasks() const { return tasksOfAny(plan_); }
double ConvForward::share(int task) const {
  return std::visit([&](const auto &plan) { return shareOf(plan, task); }, plan_);
}
size_t ConvForward::scratchFloats() const { return scratchOfAny(plan_); }

bool ConvForward::takesRows() const {
  if (const auto *window = std::get_if<WindowProduct>(&plan_)) return window->takesRows();
  const auto *matmul = std::get_if<Matmul>(&plan_);
  return matmul && matmul->copiesRowsOnce() && shape_.groups == 1 && shape_.type == DataType::FLOAT;
}

bool ConvForward::takeWholeImages(int threads) {
  auto *depthwise = std::get_if<DepthwiseProduct>(&plan_);
  return depthwise && depthwise->takeWholeImages(threads);
}

void ConvForward::run(int task, const void *x, const void *packedWeights, void *y, const Epilogue &epilogue,
                      float *scratch, RowProgram *rows) const noexcept {
  if (const auto *depthwise = std::get_if<DepthwiseProduct>(&plan_))
    return depthwise->run(task, asFloats(x), asFloats(packedWeights), static_cast<float *>(y), epilogue, scratch);
  if (const auto *grouped = std::get_if<GroupedProduct>(&plan_))
    return grouped->run(task, asFloats(x), asFloats(packedWeights), static_cast<float *>(y), epilogue, scratch);
  if (const auto *window = std::get_if<WindowProduct>(&plan_))
    return window->run(task, x, packedWeights, y, epilogue, scratch, rows);
  if (const auto *winograd = std::get_if<WinogradProduct>(&plan_))
    return winograd->run(task, asFloats(x), asFloats(packedWeights), static_cast<float *>(y), epilogue, scratch);
  runPointwise(*std::get_if<Matmul>(&plan_), task, shape_, x, shape_.cin / shape_.groups, shape_.pixelOfX(),
               packedWeights, y, shape_.cout / shape_.groups, shape_.pixelOfY(), epilogue, scratch, rows);
}

ConvDataGradient::ConvDataGradient(const ConvShape &s, int threads) : shape_(s), plan_(dataGradientPlan(s, threads)) {}

int ConvDataGradient::tasks() const { return tasksOfAny(plan_); }
double ConvDataGradient::share(int task) const {
  return std::visit([&](const auto &plan) { return shareOf(plan, task); }, plan_);
}
size_t ConvDataGradient::scratchFloats() const { return scratchOfAny(plan_); }

void ConvDataGradient::run(int task, const void *dy, const void *transposedWeights, void *dx, const Epilogue &epilogue,
                           float *scratch) const noexcept {
  if (const auto *depthwise = std::get_if<std::vector<DepthwiseProduct>>(&plan_))
    return runPhase(*depthwise, task, asFloats(dy), asFloats(transposedWeights), static_cast<float *>(dx), epilogue,
                    scratch);
  if (const auto *grouped = std::get_if<std::vector<GroupedProduct>>(&plan_))
    return runPhase(*grouped, task, asFloats(dy), asFloats(transposedWeights), static_cast<float *>(dx), epilogue,
                    scratch);
  if (const auto *matmul = std::get_if<Matmul>(&plan_))
    return runPointwise(*matmul, task, shape_, dy, shape_.cout / shape_.groups, shape_.pixelOfY(), transposedWeights,
                        dx, shape_.cin / shape_.groups, shape_.pixelOfX(), epilogue, scratch);
  if (const auto *winograd = std::get_if<WinogradProduct>(&plan_))
    return winograd->run(task, asFloats(dy), asFloats(transposedWeights), static_cast<float *>(dx), epilogue, scratch);
  runPhase(*std::get_if<std::vector<WindowProduct>>(&plan_), task, dy, transposedWeights, dx, epilogue, scratch);
}

ConvWeightGradient::ConvWeightGradient(const ConvShape &s, int threads) : plan_(weightGradientPlan(s, threads)) {}

const Rounds &ConvWeightGradient::rounds() const {
  return std::visit([](const auto &plan) -> const Rounds & { return plan.rounds(); }, plan_);
}
size_t ConvWeightGradient::sharedFloats() const {
  return std::visit([](const auto &plan) { return plan.sharedFloats(); }, plan_);
}
size_t ConvWeightGradient::scratchFloats() const { return scratchOfAny(plan_); }

void ConvWeightGradient::run(int task, const void *x, const void *dy, float *packedWeights, const Update &update,
                             float *scratch, float *shared) const noexcept {
  if (const auto *grouped = std::get_if<GroupedGradient>(&plan_))
    return grouped->run(task, asFloats(x), asFloats(dy), packedWeights, update, scratch, shared);
  if (const auto *winograd = std::get_if<WinogradGradient>(&plan_))
    return winograd->run(task, asFloats(x), asFloats(dy), packedWeights, update, scratch, shared);
  std::get_if<WindowGradient>(&plan_)->run(task, x, dy, packedWeights, update, scratch, shared);
}

}  // namespace popart::cpu
