// One-op programs. Inputs become stream tensors loaded by HostLoad, results are stored by HostStore, so that the whole
// path of a real program is taken: inference, decomposition, kernel choice, memory plan, engine.
#include "api/run_op.hpp"

#include <cstring>
#include <map>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "api/session_impl.hpp"
#include "api/virtual_ipus.hpp"
#include "backends/ref/ref.hpp"
#include "lower/lower.hpp"
#include "runtime/engine.hpp"

namespace popart {
namespace {

struct Program {
  std::unique_ptr<Ir> ir = std::make_unique<Ir>();
  std::vector<TensorIndex> inputs;
  std::map<std::string, TensorData> streams;
  Op *op = nullptr;
  Graph &graph() { return ir->getMainGraph(); }
};

TensorIndex addInput(Program &p, const std::string &name, const TensorData &value) {
  if (value.empty()) return {};
  p.graph().addStream(name, value.info());
  p.streams[name] = value;
  return p.graph().find(name);
}

int outputCount(const SingleOp &op) {
  if (op.outputs >= 0) return op.outputs;
  int count = 0;
  for (const OutputDef &output : opDef(op.type).outputs()) count += output.arity != Arity::Optional;
  return count;
}

Program build(const SingleOp &request) {
  const OpDef *def = findOpDef(request.type);
  if (!def) throw error("operator '{}': there is no such row in the catalog", request.type);
  Program p;
  for (size_t i = 0; i < request.inputs.size(); ++i)
    p.inputs.push_back(addInput(p, "in" + std::to_string(i), request.inputs[i]));
  std::vector<TensorId> outputs;
  for (int i = 0; i < outputCount(request); ++i) outputs.push_back("out" + std::to_string(i));
  const Attributes attributes = def->completeAttributes(request.attributes, request.type);
  p.op = p.graph().addConnectedOp(*def, p.inputs, outputs, attributes, Op::Settings(p.graph(), request.type));
  return p;
}

// Loads every stream, stores the given tensors under "result<i>".
void addHostIo(Program &p, const std::vector<TensorIndex> &results) {
  Graph &graph = p.graph();
  for (const auto &[name, value] : p.streams) {
    const TensorIndex stream = graph.find(name);
    const std::vector<Use> uses = graph.tensor(stream).uses();
    Op *load = graph.addConnectedOp(opDef("HostLoad"), {stream}, {name + "_loaded"}, Attributes{{"stream", name}},
                                    Op::Settings(graph, "load"));
    for (const Use &use : uses) graph.replaceUse(use, load->outTensor(0)->index());
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].valid()) continue;
    const std::string name = "result" + std::to_string(i);
    Attributes attributes{{"stream", name}, {"return", std::string("final")}};
    graph.addConnectedOp(opDef("HostStore"), {results[i]}, {}, opDef("HostStore").completeAttributes(attributes, name),
                         Op::Settings(graph, "store"));
  }
}

class Streams : public runtime::StreamSource {
 public:
  Streams(const executable::Executable &executable, const std::map<std::string, TensorData> &values)
      : executable_(executable), values_(values) {
    for (const auto &stream : executable.outputs) results.push_back(TensorData(stream.info));
  }
  const void *input(int stream, int64_t) override {
    return values_.at(executable_.inputs[static_cast<size_t>(stream)].id).data();
  }
  void *output(int stream, int64_t) override { return results[static_cast<size_t>(stream)].mutableData(); }
  std::vector<TensorData> results;

 private:
  const executable::Executable &executable_;
  const std::map<std::string, TensorData> &values_;
};

std::shared_ptr<const executable::Executable> compile(Program &p, const std::vector<TensorIndex> &results,
                                                      OpBackend backend) {
  addHostIo(p, results);
  lower::LowerOptions options;
  options.backends = backend == OpBackend::Reference ? std::vector<const executable::Backend *>{&ref::backend()}
                                                     : backendsFor(DeviceType::Cpu);
  options.threads = computeThreadCount();
  return lower::lower(*p.ir, options);
}

std::vector<TensorData> execute(Program &p, const std::vector<TensorIndex> &results, OpBackend backend) {
  const auto executable = compile(p, results, backend);
  runtime::Engine engine(executable, computeThreadCount());
  Streams streams(*executable, p.streams);
  engine.run(streams);
  std::vector<TensorData> values(results.size());
  for (size_t i = 0; i < executable->outputs.size(); ++i)
    values[static_cast<size_t>(std::stoi(executable->outputs[i].id.substr(6)))] = streams.results[i];
  return values;
}

// Adds the gradient ops; returns the gradients of `wanted`.
std::vector<TensorIndex> differentiate(Program &p, const SingleOp &op, const std::vector<TensorData> &gradOutputs,
                                       const std::vector<int> &wanted) {
  std::vector<TensorIndex> gradOuts;
  for (size_t i = 0; i < gradOutputs.size(); ++i)
    gradOuts.push_back(addInput(p, "grad" + std::to_string(i), gradOutputs[i]));
  std::vector<bool> wants(p.inputs.size(), false);
  for (int i : wanted) {
    if (i < 0 || i >= static_cast<int>(wants.size()))
      throw error("operator '{}': there is no input {}: expected 0 to {}", op.type, i, wants.size() - 1);
    wants[static_cast<size_t>(i)] = true;
  }
  const OpDef &def = p.op->def();
  if (!def.noGradReason().empty()) throw error("operator '{}': no gradient: {}", op.type, def.noGradReason());
  if (!def.vjpRule()) throw error("operator '{}': the row has no gradient rule", op.type);
  VjpBuilder builder(
      p.graph(), *p.op, [](TensorIndex forward) { return forward; }, gradOuts, wants);
  def.vjpRule()(builder);
  std::vector<TensorIndex> results;
  for (int i : wanted) results.push_back(builder.grads()[static_cast<size_t>(i)]);
  return results;
}

}  // namespace

std::vector<TensorData> runOp(const SingleOp &op, OpBackend backend) {
  Program p = build(op);
  const std::vector<TensorIndex> outputs = p.op->outputs();
  return execute(p, outputs, backend);
}

std::vector<TensorInfo> inferOp(const SingleOp &op) {
  Program p = build(op);
  std::vector<TensorInfo> infos;
  for (int i = 0; i < p.op->outputCount(); ++i) infos.push_back(p.op->outInfo(i));
  return infos;
}

std::vector<TensorData> gradOp(const SingleOp &op, const std::vector<TensorData> &gradOutputs,
                               const std::vector<int> &wanted, OpBackend backend) {
  Program p = build(op);
  return execute(p, differentiate(p, op, gradOutputs, wanted), backend);
}

std::vector<executable::Fallback> opFallbacks(const SingleOp &op) {
  Program p = build(op);
  const std::vector<TensorIndex> outputs = p.op->outputs();
  return compile(p, outputs, OpBackend::Best)->fallbacks;
}

std::vector<executable::Fallback> gradFallbacks(const SingleOp &op, const std::vector<TensorData> &gradOutputs,
                                                const std::vector<int> &wanted) {
  Program p = build(op);
  return compile(p, differentiate(p, op, gradOutputs, wanted), OpBackend::Best)->fallbacks;
}

}  // namespace popart
