// MoE and QMoE of com.microsoft: each row goes to the k experts with the largest probabilities. An expert has two
// layers, and the results are summed with the probabilities as weights.
//
//   y[t] = sum over chosen e: p[t, e] (act(x[t] fc1[e]^T + b1[e]) fc2[e]^T + b2[e])
//
// The experts of a row are only known in the run. If there are few rows, each gathers the weights of its experts;
// otherwise every expert computes all rows, and rows that did not choose it are multiplied by zero.
#include <algorithm>
#include <limits>

#include <popart/error.hpp>

#include "onnx/import/microsoft.hpp"

namespace popart::onnx::microsoft {
namespace {

// The weights of a layer of all experts: floats (experts, outputs, inputs), or numbers packed along the inputs with a
// scale for each output or for each block of inputs.
struct ExpertLayer {
  Value weight, bias, scale, zero;  // bias (experts, outputs)
  int64_t bits = 0, block = 0;      // of packed numbers

  int64_t inputs() const { return bits == 0 ? weight.dim(2) : weight.dim(2) * 8 / bits; }
  // The layer with the tensors that `pick` selects.
  template <class Pick>
  ExpertLayer picked(const Pick &pick) const {
    const auto one = [&](const Value &v) { return v.valid() ? pick(v) : v; };
    return {pick(weight), one(bias), one(scale), one(zero), bits, block};
  }
  // (…, inputs, outputs) of type `type`, from weights (…, outputs, inputs).
  Value turned(DataType type) const {
    const Value w = bits == 0 ? weight : floats(type);
    return w.transpose(w.rank() == 2   ? std::vector<int64_t>{1, 0}
                       : w.rank() == 3 ? std::vector<int64_t>{0, 2, 1}
                                       : std::vector<int64_t>{0, 1, 3, 2});
  }

 private:
  Value floats(DataType type) const {
    Shape shape = weight.shape();
    const int64_t columns = shape.back() * 8 / bits, outputs = shape[shape.size() - 2];
    const int64_t rows = weight.info().nelms() / shape.back(), blocks = block == 0 ? 1 : columns / block;
    shape.back() = columns;
    const Value each = scale.reshape({rows, blocks});
    Value points;
    if (zero.valid()) {
      const int64_t list = block == 0 ? outputs : blocks, lists = rows * blocks / list;
      points = packedNumbers(zero.reshape({lists, zero.info().nelms() / lists}), each.type(), bits, list);
      points = points.reshape({rows, blocks});
    }
    const double middle = static_cast<double>(int64_t{1} << (bits - 1));
    return unpackedRows(weight.reshape({rows, shape.back() * bits / 8}), each, points, bits,
                        block == 0 ? columns : block, columns, middle)
        .reshape(shape)
        .cast(type);
  }
};

class MixtureOfExperts {
 public:
  explicit MixtureOfExperts(NodeContext &n)
      : n_(n),
        to_(n),
        isPacked_(n.type() == "QMoE"),
        activation_(n.attr("activation_type", std::string("relu"))),
        k_(n.attr<int64_t>("k", 1)) {
    if (isPacked_) {
      checkPacking();
      first_ = packedLayer(kFirst, 11, "fc1"), second_ = packedLayer(kFirst + 3, 12, "fc2");
    } else {
      first_.weight = to_.input(kFirst), first_.bias = to_.optionalInput(kFirst + 1);
      second_.weight = to_.input(kFirst + 2), second_.bias = to_.optionalInput(kFirst + 3);
    }
    const Value x = to_.input(0);
    n.require(x.rank() == 2 || x.rank() == 3, "the input must be (rows, size) or (batch, rows, size): got {}",
              x.info());
    n.require(first_.weight.rank() == 3 && second_.weight.rank() == 3,
              "weights must be (experts, outputs, inputs): got {} and {}", first_.weight.info(), second_.weight.info());
    size_ = x.dim(-1), experts_ = first_.weight.dim(0), inner_ = second_.inputs();
    rows_ = size_ == 0 ? 0 : x.info().nelms() / size_;
    x_ = x.reshape({rows_, size_});
    check();
  }

  void import() {
    const Value scores = to_.input(kScores).reshape({rows_, experts_});
    const Value share = to_.node({"Softmax"}, {scores}, {{"axis", int64_t{-1}}});
    const std::vector<Value> chosen = to_.nodes({"TopK"}, {share, to_.ints({k_})}, 2, {{"axis", int64_t{-1}}});
    weight_ = chosen[0], expert_ = chosen[1].cast(DataType::INT64);
    const bool isGiven = isPacked_ && n_.hasIn(kGivenWeights);
    if (isGiven)
      weight_ =
          to_.input(kGivenWeights).reshape({rows_, experts_}).op("GatherElements", {expert_}, {{"axis", int64_t{1}}});
    // Shares of packed experts are always normalised, as in ONNX Runtime.
    if (n_.attr<int64_t>("normalize_routing_weights", 0) != 0 || (isPacked_ && !isGiven))
      weight_ = weight_ / weight_.sum({1}, true);
    const Value y = rows_ * k_ <= experts_ ? ofChosen() : n_.training() ? ofAllAtOnce() : ofAll();
    to_.result(0, y.reshape(to_.input(0).shape()));
  }

 private:
  static constexpr int kScores = 1, kFirst = 2, kGivenWeights = 14;

  void checkPacking() const {
    const auto kind = n_.attr("quant_type", std::string("int"));
    n_.require(kind == "int", "attribute quant_type: got '{}', expected int", kind);
    n_.require(n_.attr<int64_t>("weights_prepacked", -1) != 1,
               "attribute weights_prepacked: the weights are in the layout of one device. Save the model without it");
    for (int i = kGivenWeights + 1; i < n_.inputCount(); ++i)
      n_.require(!n_.hasIn(i), "input {} belongs to quant_type other than int. Leave it out", i);
  }

  // Weight, scales and bias from input `at` on.
  ExpertLayer packedLayer(int at, int zero, const std::string &name) {
    const auto common = n_.attr<int64_t>("expert_weight_bits", 4);
    ExpertLayer layer{to_.input(at), to_.optionalInput(at + 2), to_.input(at + 1), to_.optionalInput(zero)};
    layer.bits = n_.attr(name + "_expert_weight_bits", common);
    layer.block = std::max<int64_t>(0, n_.attr<int64_t>("block_size", 0));
    n_.require(layer.bits == 2 || layer.bits == 4 || layer.bits == 8,
               "attribute expert_weight_bits: got {}, expected 2, 4 or 8", layer.bits);
    n_.require(layer.weight.rank() == 3, "weights must be (experts, outputs, bytes): got {}", layer.weight.info());
    const int64_t inputs = layer.inputs(), outputs = layer.weight.dim(1), experts = layer.weight.dim(0);
    n_.require(layer.block == 0 || (layer.block >= 16 && inputs % layer.block == 0),
               "attribute block_size: got {}, expected 16 or more that divide {} inputs", layer.block, inputs);
    const int64_t blocks = layer.block == 0 ? 1 : inputs / layer.block;
    n_.require(layer.scale.info().nelms() == experts * outputs * blocks,
               "{}_scales: got {}, expected {} for each of {}", name, layer.scale.info(), blocks,
               Shape{experts, outputs});
    const int64_t points =
        layer.block == 0 ? (outputs * layer.bits + 7) / 8 : outputs * ((blocks * layer.bits + 7) / 8);
    n_.require(!layer.zero.valid() || layer.zero.info().nelms() == experts * points,
               "{}_zero_points: got {}, expected {} bytes for each of {} experts", name,
               layer.zero.valid() ? layer.zero.info() : layer.scale.info(), points, experts);
    return layer;
  }

  void check() const {
    const bool isGated = activation_ == "swiglu";
    const int third = isPacked_ ? kFirst + 6 : kFirst + 4;
    n_.require(
        isGated || activation_ == "relu" || activation_ == "gelu" || activation_ == "silu" || activation_ == "identity",
        "attribute activation_type: got '{}', expected relu, gelu, silu, swiglu or identity", activation_);
    n_.require(!isGated || n_.attr<int64_t>("swiglu_fusion", 0) == 1,
               "attribute swiglu_fusion: got {}, expected 1 (gates and values in turn)",
               n_.attr<int64_t>("swiglu_fusion", 0));
    n_.require(!n_.hasIn(third), "a third matrix of experts is not supported. Save the model with swiglu_fusion 1");
    n_.require(n_.attr<int64_t>("use_sparse_mixer", 0) == 0, "attribute use_sparse_mixer: got 1, expected 0");
    n_.require(k_ >= 1 && k_ <= experts_, "attribute k: got {}, expected 1 to {}, the number of experts", k_, experts_);
    n_.require(first_.weight.dim(1) == (isGated ? 2 * inner_ : inner_) && first_.inputs() == size_ &&
                   second_.weight.dim(0) == experts_ && second_.weight.dim(1) == size_,
               "the experts' weights do not fit: got {} and {} for rows of {}", first_.weight.info(),
               second_.weight.info(), size_);
    n_.require(n_.info(kScores).nelms() == rows_ * experts_, "router_probs: got {}, expected {} rows of {} experts",
               n_.info(kScores), rows_, experts_);
  }

  // Activates the last dimension.
  Value activated(const Value &h) const {
    if (activation_ == "relu") return h.op("Relu");
    if (activation_ == "gelu") return h.op("Gelu");
    if (activation_ == "silu") return h.op("Swish", {}, {{"alpha", 1.0f}});
    if (activation_ == "identity") return h;
    Shape pairs = h.shape(), half = h.shape();
    pairs.back() = half.back() = inner_;
    pairs.push_back(2);
    const Value both = h.reshape(pairs);
    const int64_t axis = h.rank();
    Value gate = both.slice(axis, 0, 1).reshape(half), value = both.slice(axis, 1, 2).reshape(half);
    const double limit = n_.attr("swiglu_limit", std::numeric_limits<float>::infinity());
    if (limit < std::numeric_limits<float>::infinity())
      gate = gate.op("Min", {gate.number(limit)}), value = value.clamp(-limit, limit);
    gate = gate.op("Swish", {}, {{"alpha", n_.attr("activation_alpha", 1.0f)}});
    return gate * (value + static_cast<double>(n_.attr("activation_beta", 0.0f)));
  }

  // Rows (…, size) through two layers; `shaped` prepares their biases.
  template <class Shaped>
  Value through(const Value &x, const ExpertLayer &first, const ExpertLayer &second, const Shaped &shaped) const {
    Value h = matmul(x, first.turned(x.type()));
    if (first.bias.valid()) h = h + shaped(first.bias);
    const Value y = matmul(activated(h), second.turned(x.type()));
    return second.bias.valid() ? y + shaped(second.bias) : y;
  }

  // A copy of the weights for each pair of row and expert.
  Value ofChosen() {
    const auto pick = [&](const Value &v) { return v.gather(expert_, 0); };
    const auto bias = [&](const Value &v) { return v.reshape({rows_, k_, 1, v.dim(2)}); };
    const Value y = through(x_.reshape({rows_, 1, 1, size_}), first_.picked(pick), second_.picked(pick), bias);
    return (y * weight_.reshape({rows_, k_, 1, 1})).sum({1}, false).reshape({rows_, size_});
  }

  // (experts, rows, 1): 0 where a row did not choose the expert.
  Value shares() {
    const Value isChosen =
        expert_.reshape({1, rows_, k_}).op("Equal", {to_.countUp(experts_).reshape({experts_, 1, 1})});
    return (isChosen.cast(weight_.type()) * weight_.reshape({1, rows_, k_})).sum({2}, true);
  }

  // One expert per iteration.
  Value ofAll() {
    const Value all = shares();
    LoopWriter loop(to_, "experts", experts_);
    const Value sum = loop.carry(to_.zeros(x_.type(), {rows_, size_}));
    const auto pick = [&](const Value &v) { return loop.bring(v).gather(loop.iteration(), 0); };
    const auto bias = [&](const Value &v) { return v.reshape({1, v.dim(0)}); };
    const Value y = through(loop.bring(x_), first_.picked(pick), second_.picked(pick), bias);
    return loop.run({sum + y * pick(all)}, {}).front();
  }

  // In training: the gradients of all experts are one product.
  Value ofAllAtOnce() {
    const auto bias = [&](const Value &v) { return v.reshape({experts_, 1, v.dim(1)}); };
    return (through(x_.reshape({1, rows_, size_}), first_, second_, bias) * shares()).sum({0}, false);
  }

  NodeContext &n_;
  Composer to_;
  const bool isPacked_;
  const std::string activation_;
  const int64_t k_;
  ExpertLayer first_, second_;
  Value x_, weight_, expert_;  // weight, expert: (rows, k)
  int64_t rows_ = 0, size_ = 0, experts_ = 0, inner_ = 0;
};

void importExperts(NodeContext &n) { MixtureOfExperts(n).import(); }

}  // namespace

std::vector<ImportRule> expertRules() {
  return {{kDomain,
           "MoE",
           importExperts,
           {"input router_probs fc1_experts_weights fc1_experts_bias fc2_experts_weights fc2_experts_bias "
            "fc3_experts_weights fc3_experts_bias",
            "output",
            "activation_alpha activation_beta activation_type k normalize_routing_weights swiglu_fusion swiglu_limit "
            "use_sparse_mixer"}},
          {kDomain,
           "QMoE",
           importExperts,
           {"input router_probs fc1_experts_weights fc1_scales fc1_experts_bias fc2_experts_weights fc2_scales "
            "fc2_experts_bias fc3_experts_weights fc3_scales fc3_experts_bias fc1_zero_points fc2_zero_points "
            "fc3_zero_points router_weights fc1_global_scale fc2_global_scale fc1_act_scale fc2_act_scale "
            "fc1_act_block_scale fc2_act_block_scale",
            "output",
            "accuracy_level activation_alpha activation_beta activation_type block_size expert_weight_bits "
            "fc1_expert_weight_bits fc2_expert_weight_bits fc3_expert_weight_bits k normalize_routing_weights "
            "quant_type swiglu_fusion swiglu_limit use_sparse_mixer weights_prepacked"}}};
}

}  // namespace popart::onnx::microsoft
