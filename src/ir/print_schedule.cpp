// The schedule of one graph as popxl prints it. Tensors are numbered from 1 in the order they are first mentioned:
// graph inputs, then the operands and results of each op, then graph outputs; the text depends on nothing else.
#include <popart/ir.hpp>

#include "ir/print_hints.hpp"

namespace popart {
namespace {

std::string shapeTuple(const Shape &shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

class SchedulePrinter {
 public:
  SchedulePrinter(const Graph &graph, const std::map<TensorId, std::string> &names) : graph_(graph), names_(names) {}

  std::string print() {
    std::string text = "Graph : " + graph_.id + "\n  (";
    for (size_t i = 0; i < graph_.inputs().size(); ++i) text += (i ? ", " : "") + input(graph_.inputs()[i]);
    std::string body;
    const std::vector<Op *> ops = graph_.getOpSchedule();
    for (size_t first = 0; first < ops.size();) {
      const size_t last = endOfExchange(ops, first);
      body += (body.empty() ? "" : "\n") + line({ops.data() + first, ops.data() + last});
      first = last;
    }
    if (body.empty()) body = "    ";
    text += ") -> (";
    for (size_t i = 0; i < graph_.outputs().size(); ++i) text += (i ? ", " : "") + number(graph_.outputs()[i]);
    return text + ") {\n" + body + "\n  }";
  }

 private:
  std::string number(TensorIndex t) {
    const auto [it, isNew] = numbers_.try_emplace(t, static_cast<int>(numbers_.size()) + 1);
    (void)isNew;
    return "%" + std::to_string(it->second);
  }

  std::string input(TensorIndex t) {
    const auto named = names_.find(graph_.tensor(t).id);
    return named == names_.end() ? number(t) : named->second + "=" + number(t);
  }

  std::string operands(const std::vector<TensorIndex> &tensors) {
    std::string text;
    for (TensorIndex t : tensors) {
      if (!t.valid()) continue;
      const TensorInfo &info = graph_.info(t);
      text +=
          (text.empty() ? "" : ", ") + number(t) + " [" + shapeTuple(info.shape()) + " " + info.data_type_lcase() + "]";
    }
    return "(" + text + ")";
  }

  // An op, or the ops of one exchange.
  std::string line(const std::vector<Op *> &ops) {
    const Op &op = *ops.front();
    const bool isGradient = op.settings.hints.contains(kGradientCallHint);
    const std::string single = op.is(Role::If) && isGradient ? "IfGrad." + std::to_string(op.id) : op.str();
    std::string text = "    " + (ops.size() > 1 ? "MultiExchange." + exchangeOf(op) : single);
    if ((op.is(Role::Call) && !isGradient) || op.is(Role::Loop))
      for (const Graph *callee : op.getCalledGraphs()) text += "(" + callee->id + ")";
    std::vector<TensorIndex> read, made;
    for (const Op *part : ops) {
      read.insert(read.end(), part->inputs().begin(), part->inputs().end());
      made.insert(made.end(), part->outputs().begin(), part->outputs().end());
    }
    text += " " + operands(read);
    return text + " -> " + operands(made);
  }

  const Graph &graph_;
  const std::map<TensorId, std::string> &names_;
  std::map<TensorIndex, int> numbers_;
};

}  // namespace

std::string printSchedule(const Graph &graph, const std::map<TensorId, std::string> &names) {
  return SchedulePrinter(graph, names).print();
}

}  // namespace popart
