// Operators of ai.graphcore that are composed of others.
#include <algorithm>

#include <popart/error.hpp>

#include "onnx/compose.hpp"

namespace popart::onnx {
namespace {

using Ints = std::vector<int64_t>;

// [image, offsets, scales]: (image scale - offsets) scales; three channels, the last dimension, become four.
void importNormalizeImage(NodeContext &n) {
  Composer to(n);
  const Value image = to.input(0), offsets = to.input(1), scales = to.input(2);
  n.require(image.rank() >= 1 && image.dim(-1) == 3, "the last dimension of the image must be 3: got {}", image.info());
  for (const Value &v : {offsets, scales})
    n.require(v.shape() == Shape{3} && isFloatingPoint(v.type()) && v.type() == offsets.type(),
              "offsets and scales must hold three floating-point numbers of one type: got {} and {}", offsets.info(),
              scales.info());
  const Value normal = (image.cast(offsets.type()) * n.attr("scale", 1.0f) - offsets) * scales;
  Shape fourth = image.shape();
  fourth.back() = 1;
  to.result(0, concat({normal, to.zeros(offsets.type(), fourth)}, image.rank() - 1));
}

// Only the location of its values changes, which this library does not control.
void importTensorRemap(NodeContext &n) { n.resultTensor(0, n.in(0)); }

// B-spline basis functions of degree 0 to 3 at v in [0, 1): of knot k = 0 … degree.
Value splineBasis(const Value &v, int64_t degree, int64_t k) {
  if (degree == 0) return v * 0.0 + 1.0;
  if (degree == 1) return k == 0 ? 1.0 - v : v;
  const Value square = v * v;
  if (degree == 2) return k == 0 ? square * 0.5 - v + 0.5 : k == 1 ? v - square + 0.5 : square * 0.5;
  const Value cube = square * v, rest = 1.0 - v;
  if (k == 0) return rest * rest * rest / 6.0;
  if (k == 1) return (cube * 3.0 - square * 6.0 + 4.0) / 6.0;
  return k == 2 ? (square * 3.0 - cube * 3.0 + v * 3.0 + 1.0) / 6.0 : cube / 6.0;
}

// [pseudo (E, D), kernel_size (D), is_open_spline (D)] → basis and weight index, both (E, (degree + 1)^D). Column s has
// knot (s / (degree + 1)^d) mod (degree + 1) of dimension d; the first dimension changes fastest.
void importSplineBasis(NodeContext &n) {
  Composer to(n);
  const Value pseudo = to.input(0);
  const auto degree = n.attr<int64_t>("degree", 1);
  n.require(degree >= 0 && degree <= 3, "attribute degree: got {}, expected 0 to 3", degree);
  n.require(pseudo.rank() == 2, "pseudo must have two dimensions: got {}", pseudo.info());
  const int64_t dims = pseudo.dim(1);
  for (int i : {1, 2})
    n.require(n.info(i).shape() == Shape{dims},
              "kernel_size and is_open_spline must have one number per dimension: got "
              "{} for pseudo {}",
              n.info(i), pseudo.info());
  n.require(dims <= 8, "pseudo must have at most 8 dimensions: got {}", pseudo.info());
  int64_t columns = 1;
  for (int64_t d = 0; d < dims; ++d) columns *= degree + 1;
  const Value sizes = to.input(1).cast(DataType::INT32);
  const Value open = to.input(2).cast(DataType::INT32);
  const Value scaled = pseudo * (sizes - open * static_cast<double>(degree)).cast(pseudo.type());
  const Value below = scaled.op("Floor"), rest = scaled - below, first = below.cast(DataType::INT32);
  std::vector<Value> bases, knots;  // of knot k: (E, D)
  for (int64_t k = 0; k <= degree; ++k) {
    bases.push_back(splineBasis(rest, degree, k));
    knots.push_back((first + static_cast<double>(k)).op("Remainder", {sizes}));
  }
  std::vector<Value> basis, index;
  for (int64_t s = 0; s < columns; ++s) {
    Value product, place, stride;
    int64_t digits = s;
    for (int64_t d = 0; d < dims; ++d, digits /= degree + 1) {
      const int64_t k = digits % (degree + 1);
      const Value factor = bases[k].slice(1, d, d + 1), knot = knots[k].slice(1, d, d + 1);
      product = d == 0 ? factor : product * factor;
      place = d == 0 ? knot : place + knot * stride;
      stride = d == 0 ? sizes.slice(0, 0, 1) : stride * sizes.slice(0, d, d + 1);
    }
    basis.push_back(product);
    index.push_back(place);
  }
  to.result(0, concat(basis, 1));
  if (n.hasOut(1)) to.result(1, concat(index, 1));
}

// [input (E, Ci), weight (K, Ci, Co), basis (E, S), weight index (E, S)] → (E, Co).
void importSplineWeighting(NodeContext &n) {
  Composer to(n);
  const Value input = to.input(0), weight = to.input(1), basis = to.input(2), index = to.input(3);
  n.require(input.rank() == 2 && weight.rank() == 3 && basis.rank() == 2 && input.dim(1) == weight.dim(1) &&
                input.dim(0) == basis.dim(0) && basis.shape() == index.shape(),
            "expected input (E, Ci), weight (K, Ci, Co), basis (E, S), index (E, S): got {}, {}, {} and {}",
            input.info(), weight.info(), basis.info(), index.info());
  n.require(input.type() == weight.type() && input.type() == basis.type(),
            "input, weight and basis must have one element type: got {}, {} and {}", input.info(), weight.info(),
            basis.info());
  const int64_t edges = input.dim(0), out = weight.dim(2);
  const Value rows = input.reshape({edges, 1, 1, input.dim(1)});
  const Value products = matmul(rows, weight.gather(index, 0)).reshape({edges, basis.dim(1), out});
  to.result(0, (products * basis.reshape({edges, basis.dim(1), 1})).sum({1}, false));
}

// [source, destination, N, source offsets, destination offsets]: row r of the result is that of the last sequence that
// covers it, otherwise the destination's, or zeros.
void importSequenceSlice(NodeContext &n) {
  Composer to(n);
  const Value source = to.input(0), destination = to.input(1);
  n.require(source.rank() >= 1 && source.rank() == destination.rank() && source.type() == destination.type() &&
                std::equal(source.shape().begin() + 1, source.shape().end(), destination.shape().begin() + 1),
            "source and destination must differ in their first dimension only: got {} and {}", source.info(),
            destination.info());
  for (int i : {3, 4})
    n.require(n.info(2).rank() == 1 && n.info(i).shape() == n.info(2).shape(),
              "N and the offsets must be lists of the same length: got {} and {}", n.info(2), n.info(i));
  const int64_t rows = destination.dim(0), sequences = n.info(2).shape()[0];
  const auto list = [&](int input) { return to.input(input).cast(DataType::INT64); };
  const Value length = list(2), from = list(3), at = list(4);
  const Value row = to.countUp(rows).reshape({rows, 1});
  const Value covered = row.op("GreaterOrEqual", {at}).op("And", {row.op("Less", {at + length})});
  const Value number = to.countUp(sequences);
  const Value last = where(covered, number, number.number(-1))
                         .op("ReduceMax", {}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}});  // of each row; -1: none
  const Value any = last.op("GreaterOrEqual", {last.number(0)});
  const Value sequence = where(any, last, last.number(0));
  const Value position = row.reshape({rows}) + (from - at).gather(sequence, 0);
  const Value taken = source.gather(where(any, position, position.number(0)), 0);
  Shape mask(static_cast<size_t>(source.rank()), 1);
  mask[0] = rows;
  const bool zero = n.attr<int64_t>("zeroUnused", 0) != 0;
  to.result(0, where(any.reshape(mask), taken, zero ? destination.number(0) : destination));
}

// Inserts zeros between the elements of the spatial dimensions.
Value dilated(Value x, const Ints &factors) {
  for (size_t i = 0; i < factors.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    const int64_t size = x.dim(axis), factor = factors[i];
    if (factor == 1) continue;
    Shape apart = x.shape(), joined = x.shape();
    apart.insert(apart.begin() + axis + 1, 1);
    Ints pads(2 * apart.size(), 0);
    pads[apart.size() + static_cast<size_t>(axis) + 1] = factor - 1;
    x = x.reshape(apart).op("Pad", {}, {{"pads", pads}});  // refuses factors that are too large
    joined[axis] = size * factor;
    x = x.reshape(joined).slice(axis, 0, (size - 1) * factor + 1);
  }
  return x;
}

// Several convolutions in one node. Names for convolution i have its number: "strides_0"; inputs_per_conv says how many
// inputs each has.
class MultiConv {
 public:
  explicit MultiConv(NodeContext &n) : n_(n), to_(n) {}

  void import() {
    const Ints counts = n_.attr<Ints>("inputs_per_conv", {});
    n_.require(static_cast<int>(counts.size()) == n_.outputCount() && !counts.empty(),
               "each convolution needs its inputs and one output: got {} and {} outputs", counts, n_.outputCount());
    int first = 0;
    for (int i = 0; i < n_.outputCount(); ++i) {
      n_.require(counts[i] == 2 || counts[i] == 3, "a convolution has two or three inputs: got {}", counts[i]);
      to_.result(i, convolution(i, first, counts[i] == 3));
      first += static_cast<int>(counts[i]);
    }
  }

 private:
  Ints parameter(const char *name, int conv, size_t length, int64_t fallback) const {
    const Ints given = n_.attr<Ints>(std::string(name) + "_" + std::to_string(conv), Ints(length, fallback));
    n_.require(given.size() == length, "{} of convolution {}: got {} numbers, expected {}", name, conv,
               static_cast<int64_t>(given.size()), static_cast<int64_t>(length));
    return given;
  }

  Value convolution(int conv, int first, bool hasBias) {
    const Value data = to_.input(first), weight = to_.input(first + 1);
    n_.require(
        data.rank() >= 3 && weight.rank() == data.rank() && weight.dim(1) > 0 && data.dim(1) % weight.dim(1) == 0,
        "data and weight of convolution {} do not fit: got {} and {}", conv, data.info(), weight.info());
    const auto spatial = static_cast<size_t>(data.rank() - 2);
    std::vector<Value> operands = {weight};
    if (hasBias) operands.push_back(to_.input(first + 2));
    const Ints factors = parameter("inDilations", conv, spatial, 1),
               outPads = parameter("outPads", conv, 2 * spatial, 0);
    for (int64_t f : factors) n_.require(f >= 1, "inDilations of convolution {}: got {}, expected 1 or more", conv, f);
    const Value y = dilated(data, factors)
                        .op("Conv", operands,
                            {{"strides", parameter("strides", conv, spatial, 1)},
                             {"dilations", parameter("dilations", conv, spatial, 1)},
                             {"pads", parameter("pads", conv, 2 * spatial, 0)},
                             {"group", data.dim(1) / weight.dim(1)}});
    if (std::ranges::all_of(outPads, [](int64_t p) { return p == 0; })) return y;
    Ints pads(2 * static_cast<size_t>(y.rank()), 0);
    for (size_t i = 0; i < spatial; ++i) pads[2 + i] = outPads[i], pads[4 + spatial + i] = outPads[spatial + i];
    return y.op("Pad", {}, {{"pads", pads}});
  }

  NodeContext &n_;
  Composer to_;
};

void importMultiConv(NodeContext &n) { MultiConv(n).import(); }

}  // namespace

std::vector<ImportRule> graphcoreCompositionRules() {
  return {{"ai.graphcore", "NormalizeImage", importNormalizeImage, {"image offsets scales", "output", "scale"}},
          {"ai.graphcore", "TensorRemap", importTensorRemap, {"input", "output", "remap_type"}},
          {"ai.graphcore",
           "SplineBasis",
           importSplineBasis,
           {"pseudo kernel_size is_open_spline", "basis weight_index", "degree"}},
          {"ai.graphcore", "SplineWeighting", importSplineWeighting, {"input weight basis weight_index", "output", ""}},
          {"ai.graphcore",
           "SequenceSlice",
           importSequenceSlice,
           {"source destination N sourceOffsets destinationOffsets", "output", "zeroUnused"}},
          {"ai.graphcore", "MultiConv", importMultiConv, {"inputs", "outputs", "inputs_per_conv"}}};
}

}  // namespace popart::onnx
