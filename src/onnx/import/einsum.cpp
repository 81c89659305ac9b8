// Einsum: any equation, as products of two operands at a time, the cheapest pair first. Labels are letters; dimensions
// of an ellipsis are numbered from the last one and broadcast.
#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>

#include <popart/error.hpp>

#include "onnx/compose.hpp"

namespace popart::onnx {
namespace {

using Labels = std::vector<int>;  // a letter, or minus the number of an ellipsis dimension from the end

struct Operand {
  Value value;
  Labels labels;
};

bool has(const Labels &labels, int label) { return std::ranges::find(labels, label) != labels.end(); }

class EinsumNode {
 public:
  explicit EinsumNode(NodeContext &n)
      : n_(n), to_(n), equation_(n.attr<std::string>("equation", "")), type_(n.info(0).dataType()) {
    std::erase(equation_, ' ');
  }

  void import() {
    const size_t arrow = equation_.find("->");
    const std::string inputs = equation_.substr(0, arrow);
    std::deque<Operand> operands;
    for (size_t begin = 0; begin <= inputs.size();) {
      const size_t end = std::min(inputs.find(',', begin), inputs.size());
      const auto i = static_cast<int>(operands.size());
      n_.require(i < n_.inputCount(), "attribute equation '{}' has more terms than the node has inputs", equation_);
      const Value x = to_.input(i).cast(computedAs(type_));
      operands.push_back({x, labelsOf(inputs.substr(begin, end - begin), x.rank())});
      begin = end + 1;
    }
    n_.require(static_cast<int>(operands.size()) == n_.inputCount(),
               "attribute equation '{}' needs a term for each input: got {} inputs", equation_, n_.inputCount());
    for (Operand &o : operands) o = withoutRepeats(o);
    const Labels out = arrow == std::string::npos ? impliedOutput(inputs) : outputLabels(equation_.substr(arrow + 2));
    for (int label : out)
      n_.require(sizes_.count(label), "attribute equation '{}': the output has a label of no input", equation_);
    for (Operand &o : operands) o = expanded(o);
    const std::set<int> wanted(out.begin(), out.end());
    to_.result(0, inOrder(summed(productOf(std::move(operands), wanted), wanted), out).cast(type_));
  }

 private:
  // Products of integers are computed in 32 or 64 bits.
  static DataType computedAs(DataType type) {
    switch (type) {
      case DataType::INT8:
      case DataType::INT16:
      case DataType::UINT8:
      case DataType::UINT16:
        return DataType::INT32;
      default:
        return type;
    }
  }

  Operand productOf(std::deque<Operand> operands, const std::set<int> &wanted) const {
    std::map<int, int64_t> readers;  // of a label: the result and operands
    for (int label : wanted) ++readers[label];
    const auto count = [&](const Operand &o, int64_t change) {
      for (int label : o.labels) readers[label] += change;
    };
    for (const Operand &o : operands) count(o, 1);
    while (operands.size() > 1) {
      const auto [i, k] = cheapestPair(operands);
      count(operands[i], -1), count(operands[k], -1);
      std::set<int> kept;
      for (const auto &[label, others] : readers)
        if (others > 0) kept.insert(label);
      operands[i] = product(operands[i], operands[k], kept);
      count(operands[i], 1);
      operands.erase(operands.begin() + static_cast<long>(k));
    }
    return operands.front();
  }

  // The two operands whose product has the fewest multiplications; if there are many, only the first ones are
  // considered.
  std::pair<size_t, size_t> cheapestPair(const std::deque<Operand> &operands) const {
    std::pair<size_t, size_t> best{0, 1};
    double least = std::numeric_limits<double>::infinity();
    constexpr size_t kMostCompared = 16;
    const size_t compared = std::min(operands.size(), kMostCompared);
    for (size_t i = 0; i < compared; ++i)
      for (size_t k = i + 1; k < compared; ++k) {
        std::set<int> labels(operands[i].labels.begin(), operands[i].labels.end());
        labels.insert(operands[k].labels.begin(), operands[k].labels.end());
        double cost = 1;
        for (int label : labels) cost *= static_cast<double>(sizes_.at(label));
        if (cost < least) least = cost, best = {i, k};
      }
    return best;
  }

  [[noreturn]] void failEquation(const std::string &term) const {
    n_.fail("attribute equation '{}': cannot read '{}': expected letters and at most one ...", equation_, term);
  }

  Labels labelsOf(const std::string &term, int rank) {
    const size_t dots = term.find("...");
    const int letters = static_cast<int>(term.size()) - (dots == std::string::npos ? 0 : 3), free = rank - letters;
    n_.require(dots == std::string::npos ? free == 0 : free >= 0,
               "attribute equation '{}': term '{}' does not have the dimensions of its input: got {} dimensions",
               equation_, term, rank);
    if (dots != std::string::npos) ellipsis_ = std::max(ellipsis_, free);
    Labels labels;
    for (size_t i = 0; i < term.size(); ++i) {
      if (i == dots) {
        for (int k = free; k > 0; --k) labels.push_back(-k);
        i += 2;
      } else if (std::isalpha(static_cast<unsigned char>(term[i]))) {
        labels.push_back(term[i]);
      } else {
        failEquation(term);
      }
    }
    return labels;
  }

  Labels ellipsisLabels() const {
    Labels labels;
    for (int k = ellipsis_; k > 0; --k) labels.push_back(-k);
    return labels;
  }

  Labels outputLabels(const std::string &term) {
    const size_t dots = term.find("...");
    const int letters = static_cast<int>(term.size()) - (dots == std::string::npos ? 0 : 3);
    const Labels labels = labelsOf(term, letters + (dots == std::string::npos ? 0 : ellipsis_));
    n_.require(std::set<int>(labels.begin(), labels.end()).size() == labels.size(),
               "attribute equation '{}': the output has a label twice", equation_);
    return labels;
  }

  // The dimensions of the ellipsis, then the letters that occur once, in order.
  Labels impliedOutput(const std::string &inputs) const {
    Labels labels = ellipsisLabels();
    std::map<char, int> counts;
    for (char c : inputs)
      if (std::isalpha(static_cast<unsigned char>(c))) ++counts[c];
    for (auto [letter, count] : counts)
      if (count == 1) labels.push_back(letter);
    return labels;
  }

  // A repeated label in a term means the diagonal: the two dimensions become one, with every (size + 1)th element.
  Operand withoutRepeats(Operand o) {
    for (size_t i = 0; i < o.labels.size(); ++i) {
      const auto again = std::find(o.labels.begin() + static_cast<long>(i) + 1, o.labels.end(), o.labels[i]);
      if (again == o.labels.end()) continue;
      const auto k = static_cast<size_t>(again - o.labels.begin());
      const int64_t size = o.value.shape()[i];
      n_.require(size == o.value.shape()[k], "attribute equation '{}': a label has two sizes: got {} and {}", equation_,
                 size, o.value.shape()[k]);
      std::vector<int64_t> order;
      Labels labels;
      Shape shape;
      for (size_t d = 0; d < o.labels.size(); ++d)
        if (d != i && d != k)
          order.push_back(static_cast<int64_t>(d)), labels.push_back(o.labels[d]), shape.push_back(o.value.shape()[d]);
      order.insert(order.end(), {static_cast<int64_t>(i), static_cast<int64_t>(k)});
      shape.push_back(size * size);
      labels.push_back(o.labels[i]);
      using Ints = std::vector<int64_t>;
      const Value diagonal =
          o.value.transpose(order).reshape(shape).op("Slice", {},
                                                     {{"starts", Ints{0}},
                                                      {"ends", Ints{size * size}},
                                                      {"axes", Ints{static_cast<int64_t>(shape.size()) - 1}},
                                                      {"steps", Ints{size + 1}}});
      return withoutRepeats({diagonal, labels});
    }
    for (size_t d = 0; d < o.labels.size(); ++d) {
      const int64_t own = o.value.shape()[d];
      int64_t &size = sizes_.emplace(o.labels[d], own).first->second;
      n_.require(size == own || size == 1 || own == 1, "attribute equation '{}': a label has two sizes: got {} and {}",
                 equation_, size, own);
      if (size == 1) size = own;
    }
    return o;
  }

  Operand expanded(const Operand &o) const {
    Shape shape;
    for (int label : o.labels) shape.push_back(sizes_.at(label));
    return {o.value.expand(shape), o.labels};
  }

  // The sum over the labels that are not kept.
  Operand summed(const Operand &o, const std::set<int> &kept) const {
    Operand result{o.value, {}};
    std::vector<int64_t> axes;
    for (size_t d = 0; d < o.labels.size(); ++d) {
      if (kept.count(o.labels[d]))
        result.labels.push_back(o.labels[d]);
      else
        axes.push_back(static_cast<int64_t>(d));
    }
    if (!axes.empty()) result.value = o.value.sum(axes, false);
    return result;
  }

  Value inOrder(const Operand &o, const Labels &labels) const {
    std::vector<int64_t> order;
    for (int label : labels) order.push_back(std::ranges::find(o.labels, label) - o.labels.begin());
    return o.value.transpose(order);
  }

  int64_t count(const Labels &labels) const {
    int64_t n = 1;
    for (int label : labels) n *= sizes_.at(label);
    return n;
  }

  // A matrix product for each combination of the labels that both operands have and the result keeps.
  Operand product(Operand a, Operand b, std::set<int> kept) const {
    std::set<int> ofA = kept, ofB = kept;
    ofA.insert(b.labels.begin(), b.labels.end());
    ofB.insert(a.labels.begin(), a.labels.end());
    a = summed(a, ofA), b = summed(b, ofB);
    Labels batch, inner, left, right;
    for (int label : a.labels) (has(b.labels, label) ? kept.count(label) ? batch : inner : left).push_back(label);
    for (int label : b.labels)
      if (!has(a.labels, label)) right.push_back(label);
    const auto joined = [](std::initializer_list<Labels> lists) {
      Labels all;
      for (const Labels &l : lists) all.insert(all.end(), l.begin(), l.end());
      return all;
    };
    const Value first = inOrder(a, joined({batch, left, inner})).reshape({count(batch), count(left), count(inner)});
    const Value second = inOrder(b, joined({batch, inner, right})).reshape({count(batch), count(inner), count(right)});
    // Without a label to sum over, elements are multiplied directly.
    Operand result{inner.empty() ? first * second : matmul(first, second), joined({batch, left, right})};
    Shape shape;
    for (int label : result.labels) shape.push_back(sizes_.at(label));
    result.value = result.value.reshape(shape);
    return result;
  }

  NodeContext &n_;
  Composer to_;
  std::string equation_;
  const DataType type_;
  int ellipsis_ = 0;
  std::map<int, int64_t> sizes_;
};

void importEinsum(NodeContext &n) { EinsumNode(n).import(); }

}  // namespace

std::vector<ImportRule> einsumRules() { return {{"ai.onnx", "Einsum", importEinsum}}; }

}  // namespace popart::onnx
