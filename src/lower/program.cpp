#include "lower/program.hpp"

#include <algorithm>
#include <map>

#include "executable/channel_slice.hpp"

namespace popart::lower {
namespace {

constexpr std::string_view kHeader = "program for ";

void verifyTensor(const Graph &graph, const Tensor &tensor) {
  if (tensor.layout.empty()) return;
  const bool border = tensor.isGraphInput() || tensor.isGraphOutput();
  check(tensor.tensorType() != TensorType::Stream && !(border && graph.isMain()),
        "tensor '{}': a stream or an output of the program has layout {}: expected plain memory", tensor.id,
        tensor.layout);
  const int64_t bytes = executable::storageBytes(tensor.info, executable::layoutNamed(tensor.layout));
  check(tensor.tensorType() != TensorType::Const || tensor.tensorData().nbytes() == bytes,
        "constant '{}' is not in its layout {}: got {} bytes of values, expected {}", tensor.id, tensor.layout,
        tensor.tensorData().nbytes(), bytes);
  if (executable::channelsOfWhole(executable::layoutOf(tensor)) == 0) return;
  check(tensor.hasProducer() && !tensor.isGraphOutput(),
        "tensor '{}' has layout {}: expected the result of an op of its graph", tensor.id, tensor.layout);
  executable::wholeOf(tensor);
}

void verifyOp(const Op &op) {
  check(!op.is(Role::Call), "{}: a program has no calls: they are inlined", op.debugName());
  check(!op.def().isInplaceVariant(), "{}: a program has no ops in place: memory is shared by the plan",
        op.debugName());
}

// The waiting step reads the results of the publishing step of its channel.
void verifyChannel(const Graph &graph, const Op &op) {
  if (!op.hasAttr("channel") || op.is(Role::CollectivePublish)) return;
  for (const int i : publishedInputs(op)) {
    const TensorIndex t = op.inputs()[static_cast<size_t>(i)];
    const Op *publishes = graph.tensor(t).getProducerUnsafe();
    check(publishes && publishes->is(Role::CollectivePublish) &&
              publishes->attrInt("channel") == op.attrInt("channel") && graph.tensor(t).uses().size() == 1,
          "{}: tensor '{}' is not the tensor that channel {} publishes for this op only", op.debugName(),
          graph.tensor(t).id, op.attrInt("channel"));
  }
}

}  // namespace

Backends remember(const LowerOptions &options) {
  if (options.backends.empty()) throw internal_error("lower: no backend was given");
  Backends result;
  for (const executable::Backend *backend : options.backends)
    result.push_back(std::make_unique<KernelCache>(*backend, options.threads));
  return result;
}

namespace {

std::string header(const Program &program) {
  std::string text(kHeader);
  for (const std::string &name : program.backends) text += (&name == &program.backends.front() ? "" : ", ") + name;
  return text + "\n";
}

}  // namespace

std::string print(const Program &program, PrintData data) { return header(program) + print(*program.ir, data); }

std::string printWithTable(const Program &program, ValueTable &table) {
  return header(program) + printWithTable(*program.ir, table, false);
}

Program parseProgram(std::string_view text) { return parseProgram(text, {}); }

Program parseProgram(std::string_view text, const FindValues &find, const FirstValues &first) {
  check(text.starts_with(kHeader), "program text: got '{}', expected '{}<backends>' in the first line",
        text.substr(0, std::min<size_t>(text.find('\n'), 40)), kHeader);
  Program program;
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view names = text.substr(kHeader.size(), end - kHeader.size());
  while (!names.empty()) {
    const size_t comma = std::min(names.find(", "), names.size());
    program.backends.emplace_back(names.substr(0, comma));
    names.remove_prefix(std::min(comma + 2, names.size()));
  }
  // The header line is replaced by an empty comment, so that messages have the line numbers of the text.
  std::unique_ptr<Ir> ir = parseWithTable("//" + std::string(text), find);
  for (Tensor *variable : ir->getMainGraph().tensorsOfType(TensorType::Variable))
    if (TensorData values = first ? first(variable->id) : TensorData(); !values.empty())
      variable->setTensorData(std::move(values));
  program.ir = std::move(ir);
  verify(program);
  return program;
}

void verify(const Program &program) {
  std::map<const Graph *, const Op *> callers;
  for (const Graph *graph : schedule::programGraphs(*program.ir)) {
    for (const Tensor *t : graph->tensors()) verifyTensor(*graph, *t);
    for (const Op *op : graph->ops()) {
      verifyOp(*op);
      verifyChannel(*graph, *op);
      if (op->has(Trait::Internal)) continue;
      for (const Graph *body : op->getCalledGraphs()) {
        const auto [it, fresh] = callers.emplace(body, op);
        check(fresh, "{}: {} runs its graph too: got two callers of {}, expected one", op->debugName(),
              it->second->debugName(), body->getGraphString());
      }
    }
  }
}

}  // namespace popart::lower
