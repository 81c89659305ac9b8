// Tables of data: searches from each initializer to the products that read it, and from those to their readers.
#include "onnx/training/data_tables.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "onnx/training/operand_slots.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using Values = std::vector<int>;
using Marks = std::unordered_set<int>;  // few values of many

bool isProduct(const FlatNode &node) {
  return isOneOf(node.type, {"MatMul", "Gemm", "Einsum", "Conv", "ConvTranspose", "FusedMatMul", "TransposeMatMul"});
}

// For an operand of a static node: sums, products and norms keep their operands, other functions do not.
bool isLinear(const FlatNode &node, int input) {
  const Reading reading = readingOf(node, input);
  if (reading == Reading::Carried || reading == Reading::Looked || isPart(node, input) || isProduct(node)) return true;
  if (node.type == "Div") return input == 0;
  if (node.type.ends_with("Normalization")) return input == 0;
  return isOneOf(node.type, {"Add", "Sub", "Sum", "Mean", "Neg", "Mul", "ReduceSum", "ReduceMean"});
}

class Search {
 public:
  Search(const FlatModel &model, const std::function<bool(const FlatInitializer &)> &isByFormula)
      : model_(model), isByFormula_(isByFormula) {
    Values products, channels;
    for (const FlatNode &node : model_.nodes)
      if (isProduct(node) && isStatic(node)) append(products, node.outputs);
    afterProducts_ = reached(products, [&](const FlatUse &use) { return isStatic(of(use)); });
    for (const FlatInitializer &i : model_.initializers)
      if (std::ranges::count_if(i.tensor->dims(), [](int64_t d) { return d != 1; }) == 1) channels.push_back(i.value);
    channels_ = reached(channels, [&](const FlatUse &use) { return isCarried(use); });
  }

  // The node that reads the initializer as data; -1: none.
  int readerOf(const FlatInitializer &i) const {
    const Values products = productsOf(i);
    if (products.empty()) return -1;
    const bool isLayer = std::ranges::all_of(products, [&](int p) { return hasBias(p); });
    const bool isData = int{isByFormula_(i)} + int{isLayer} + int{!reachesInput(products)} >= 2;
    return isData ? products.front() : -1;
  }

 private:
  static void append(Values &values, const Values &more) { values.insert(values.end(), more.begin(), more.end()); }
  const FlatNode &of(const FlatUse &use) const { return model_.nodes[use.node]; }
  bool isCarried(const FlatUse &use) const { return readingOf(of(use), use.input) == Reading::Carried; }
  bool isStatic(const FlatNode &node) const {
    return node.type != kState && !node.outputs.empty() &&
           std::ranges::all_of(node.outputs, [&](int v) { return v < 0 || model_.isStatic[v]; });
  }

  // Marks the values reached from `open` along uses for which `goesOn` returns true.
  template <class GoesOn>
  Marks reached(Values open, const GoesOn &goesOn) const {
    Marks marks;
    while (!open.empty()) {
      const int value = open.back();
      open.pop_back();
      if (value < 0 || !marks.insert(value).second) continue;
      for (const FlatUse &use : model_.uses[value])
        if (goesOn(use)) append(open, of(use).outputs);
    }
    return marks;
  }

  // The products that read the initializer, or values computed from it, on the left; empty if anything else reads them.
  Values productsOf(const FlatInitializer &i) const {
    Values products;
    bool isReadOtherwise = false;
    const Marks computed = reached({i.value}, [&](const FlatUse &use) {
      const FlatNode &node = of(use);
      const bool isProductOfTwo = isProduct(node) && use.input == 0;
      if (isStatic(node) && isProductOfTwo) products.push_back(use.node);
      const bool goesOn = isStatic(node) && !isProduct(node) && !isAddedToProduct(use) &&
                          (isCarried(use) || readingOf(node, use.input) == Reading::Operand);
      isReadOtherwise |= !goesOn && !(isStatic(node) && isProductOfTwo);
      return goesOn;
    });
    const auto isSquare = [&](int p) {  // a product with itself
      const Values &inputs = model_.nodes[p].inputs;
      return inputs.size() < 2 || inputs[1] < 0 || computed.contains(inputs[1]);
    };
    std::erase_if(products, isSquare);
    return isReadOtherwise ? Values{} : products;
  }

  // Whether another operand comes from a product: it is a bias or scale of the product's result.
  bool isAddedToProduct(const FlatUse &use) const {
    const Values &inputs = of(use).inputs;
    for (size_t k = 0; k < inputs.size(); ++k)
      if (static_cast<int>(k) != use.input && inputs[k] >= 0 && afterProducts_.contains(inputs[k])) return true;
    return false;
  }

  bool hasBias(int product) const {
    const FlatNode &node = model_.nodes[product];
    if (isOneOf(node.type, {"Gemm", "Conv", "ConvTranspose"}) && node.inputs.size() > 2 && node.inputs[2] >= 0)
      return true;
    bool has = false;
    reached(node.outputs, [&](const FlatUse &use) {
      for (int v : of(use).inputs) has |= isOneOf(of(use).type, {"Add", "Sum"}) && v >= 0 && channels_.contains(v);
      return isCarried(use);
    });
    return has;
  }

  // Whether something that depends on an input reads the results before a nonlinear function does. A product of a value
  // with a function of itself (SiLU, a gate) counts as a nonlinear function.
  bool reachesInput(const Values &products) const {
    Values results, functions;
    for (int p : products) append(results, model_.nodes[p].outputs);
    reached(results, [&](const FlatUse &use) {
      const FlatNode &node = of(use);
      if (!isStatic(node)) return false;
      if (isLinear(node, use.input)) return true;
      if (!mixesPositions(node)) append(functions, node.outputs);
      return false;
    });
    const Marks bent =
        reached(functions, [&](const FlatUse &use) { return isStatic(of(use)) && !mixesPositions(of(use)); });
    const auto isGate = [&](const FlatUse &use) {
      const Values &inputs = of(use).inputs;
      return isOneOf(of(use).type, {"Mul", "Div"}) && inputs.size() == 2 && inputs[1 - use.input] >= 0 &&
             bent.contains(inputs[1 - use.input]);
    };
    bool isReached = false;
    reached(results, [&](const FlatUse &use) {
      isReached |= !isStatic(of(use));
      return isStatic(of(use)) && isLinear(of(use), use.input) && !isGate(use);
    });
    return isReached;
  }

  const FlatModel &model_;
  const std::function<bool(const FlatInitializer &)> &isByFormula_;
  // A product of initializers comes before the first; the second are vectors in the file.
  Marks afterProducts_, channels_;
};

}  // namespace

std::vector<int> dataTables(const FlatModel &model, const std::function<bool(const FlatInitializer &)> &isByFormula) {
  const Search search(model, isByFormula);
  std::vector<int> tables;
  for (const FlatInitializer &i : model.initializers) tables.push_back(search.readerOf(i));
  return tables;
}

std::vector<bool> staticValues(const FlatModel &model, const std::vector<int> &tables) {
  std::vector<bool> isStatic = model.isStatic;
  Values open;
  for (size_t i = 0; i < tables.size(); ++i)
    if (tables[i] >= 0) open.push_back(model.initializers[i].value);
  while (!open.empty()) {
    const int value = open.back();
    open.pop_back();
    if (value < 0 || !isStatic[value]) continue;
    isStatic[value] = false;
    for (const FlatUse &use : model.uses[value]) {
      const Values &outputs = model.nodes[use.node].outputs;
      open.insert(open.end(), outputs.begin(), outputs.end());
    }
  }
  return isStatic;
}

}  // namespace popart::onnx
