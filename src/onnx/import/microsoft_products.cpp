// Products and convolutions of com.microsoft with the operators that ONNX Runtime's optimizer fuses with them:
// activations, sums, transposes, layouts with channels last.
#include <map>
#include <numeric>

#include <popart/error.hpp>

#include "onnx/import/microsoft.hpp"

namespace popart::onnx::microsoft {
namespace {

using Ints = std::vector<int64_t>;

// Activations with the names of their parameters, in the order in which a node lists them.
const std::map<std::string, std::vector<const char *>> &activationNumbers() {
  static const std::map<std::string, std::vector<const char *>> kNumbers = {{"Relu", {}},
                                                                            {"Sigmoid", {}},
                                                                            {"Tanh", {}},
                                                                            {"Softplus", {}},
                                                                            {"Softsign", {}},
                                                                            {"HardSwish", {}},
                                                                            {"LeakyRelu", {"alpha"}},
                                                                            {"Elu", {"alpha"}},
                                                                            {"Celu", {"alpha"}},
                                                                            {"ThresholdedRelu", {"alpha"}},
                                                                            {"Selu", {"alpha", "gamma"}},
                                                                            {"HardSigmoid", {"alpha", "beta"}},
                                                                            {"Clip", {"min", "max"}}};
  return kNumbers;
}

const std::vector<const char *> &numbersOf(const NodeContext &n, const std::string &activation) {
  const auto found = activationNumbers().find(activation);
  std::vector<std::string> names;
  for (const auto &entry : activationNumbers()) names.push_back(entry.first);
  n.require(found != activationNumbers().end(), "attribute activation: got '{}', expected one of {}", activation,
            names);
  return found->second;
}

// Attributes activation and activation_params, of convolutions.
Value activatedByList(const NodeContext &n, const Value &x) {
  const std::string activation = n.attr<std::string>("activation", "");
  if (activation.empty()) return x;
  const std::vector<const char *> &names = numbersOf(n, activation);
  const auto given = n.attr<std::vector<float>>("activation_params", {});
  n.require(given.size() <= names.size(), "attribute activation_params: got {} numbers, {} takes {}",
            static_cast<int64_t>(given.size()), activation, static_cast<int64_t>(names.size()));
  Attributes attributes;
  for (size_t i = 0; i < given.size(); ++i) attributes.set(names[i], given[i]);
  return x.op(activation, {}, attributes);
}

// Attributes activation, activation_alpha, activation_beta and activation_gamma, of products.
Value activatedByName(const NodeContext &n, const Value &x) {
  const std::string activation = n.attr<std::string>("activation", "");
  if (activation.empty()) return x;
  Attributes attributes;
  for (const std::string name : numbersOf(n, activation))
    if (n.hasAttr("activation_" + name)) attributes.set(name, n.attr("activation_" + name, 0.0f));
  return x.op(activation, {}, attributes);
}

// act(conv(X, W) + B + Z); in NhwcConv and NhwcFusedConv, X, Z and the result have channels last, and W is as in Conv.
void importFusedConv(NodeContext &n) {
  Composer to(n);
  const bool isLast = n.type() != "FusedConv";
  const Value x = isLast ? channelsFirst(to.input(0)) : to.input(0);
  const Value plain = to.node({"Conv"}, {x, to.input(1), to.optionalInput(2)}, windowOf(n));
  const Value y = isLast ? channelsLast(plain) : plain;
  const Value added = to.optionalInput(3);
  to.result(0, activatedByList(n, added.valid() ? y + added : y));
}

void importChannelsLastMaxPool(NodeContext &n) {
  Composer to(n);
  to.result(0, channelsLast(to.node({"MaxPool"}, {channelsFirst(to.input(0))}, windowOf(n))));
}

// Pads are an input, in the order of ConvTranspose's attribute.
void importConvTransposeWithDynamicPads(NodeContext &n) {
  Attributes attributes = windowOf(n);
  if (n.hasIn(2)) attributes.set("pads", n.constantInts(2));
  n.importAs({"ConvTranspose"}, {n.in(0), n.in(1), n.optionalIn(3)}, attributes);
}

void importFusedGemm(NodeContext &n) {
  Composer to(n);
  to.result(0, activatedByName(n, to.node({"Gemm"}, {to.input(0), to.input(1), to.optionalInput(2)},
                                          attributesOf(n, {"alpha", "beta", "transA", "transB"}))));
}

// An operand of FusedMatMul. `batch`: the first dimension is the second last of the matrices; `turned`: the last two
// are exchanged after that.
Value operandOf(const Value &x, bool batch, bool turned) {
  if (x.rank() < 2) return x;
  Ints order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  if (batch) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (turned) std::swap(order[order.size() - 1], order[order.size() - 2]);
  return x.transpose(order);
}

Value fusedProduct(NodeContext &n, Composer &to) {
  const auto is = [&](const char *name) { return n.attr<int64_t>(name, 0) != 0; };
  const Value y = matmul(operandOf(to.input(0), is("transBatchA"), is("transA")),
                         operandOf(to.input(1), is("transBatchB"), is("transB")));
  const float alpha = n.attr("alpha", 1.0f);
  return alpha == 1 ? y : y * alpha;
}

void importFusedMatMul(NodeContext &n) {
  Composer to(n);
  to.result(0, fusedProduct(n, to));
}

void importFusedMatMulActivation(NodeContext &n) {
  Composer to(n);
  const Value y = fusedProduct(n, to);
  if (n.attr<std::string>("activation", "") != "Softmax") return to.result(0, activatedByName(n, y));
  to.result(0, y.op("Softmax", {}, {{"axis", n.attr<int64_t>("activation_axis", -1)}}));
}

void importGemmFastGelu(NodeContext &n) {
  Composer to(n);
  const Value y = matmul(to.input(0), to.input(1)), bias = to.optionalInput(2);
  to.result(0, (bias.valid() ? y + bias : y).op("Gelu"));
}

}  // namespace

std::vector<ImportRule> productRules() {
  const char *const fusedConv = "activation activation_params auto_pad dilations group kernel_shape pads strides";
  return {{kDomain, "FusedConv", importFusedConv, {"X W B Z", "Y", fusedConv}},
          {kDomain, "NhwcFusedConv", importFusedConv, {"X W B Z", "Y", fusedConv}},
          {kDomain, "NhwcConv", importFusedConv, {"X W B", "Y", "auto_pad dilations group kernel_shape pads strides"}},
          {kDomain,
           "NhwcMaxPool",
           importChannelsLastMaxPool,
           {"x", "y", "auto_pad ceil_mode dilations kernel_shape pads strides"}},
          {kDomain,
           "ConvTransposeWithDynamicPads",
           importConvTransposeWithDynamicPads,
           {"X W Pads B", "Y", "auto_pad dilations group kernel_shape output_padding strides"}},
          {kDomain,
           "FusedGemm",
           importFusedGemm,
           {"A B C", "Y", "activation activation_alpha activation_beta activation_gamma alpha beta transA transB"}},
          {kDomain, "FusedMatMul", importFusedMatMul, {"A B", "Y", "alpha transA transB transBatchA transBatchB"}},
          {kDomain, "TransposeMatMul", importFusedMatMul, {"A B", "Y", "alpha transA transB"}},
          {kDomain,
           "FusedMatMulActivation",
           importFusedMatMulActivation,
           {"A B", "Y",
            "activation activation_alpha activation_axis activation_beta activation_gamma alpha transA transB "
            "transBatchA transBatchB"}},
          {kDomain, "GemmFastGelu", importGemmFastGelu, {"X W bias", "Y"}}};
}

}  // namespace popart::onnx::microsoft
