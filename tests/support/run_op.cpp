// One-op programs. Inputs become stream tensors loaded by HostLoad, results are stored by HostStore, so that the whole
// path of a real program is taken: inference, decomposition, kernel choice, memory plan, engine.
#include "support/run_op.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "api/compile_options.hpp"
#include "api/virtual_ipus.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/ref/ref.hpp"
#include "onnx/graph_writer.hpp"
#include "onnx/reader.hpp"
#include "pipeline/passes.hpp"
#include "runtime/host_device.hpp"
#include "support/counting_device/counting_device.hpp"

namespace popart {
namespace {

// The elements with all dimensions reversed.
TensorData transposed(const TensorData &value) {
  const Shape &shape = value.info().shape();
  Shape reversed(shape.rbegin(), shape.rend());
  TensorData result(TensorInfo(value.info().dataType(), reversed));
  if (value.info().nelms() == 0) return result;
  const auto bytes = static_cast<size_t>(value.nbytes() / value.info().nelms());
  const char *from = static_cast<const char *>(value.data());
  char *to = static_cast<char *>(result.mutableData());
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < value.info().nelms(); ++i) {
    int64_t at = 0;
    for (size_t d = shape.size(); d-- > 0;) at = at * shape[d] + index[d];
    std::memcpy(to + static_cast<size_t>(at) * bytes, from + static_cast<size_t>(i) * bytes, bytes);
    for (size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
  }
  return result;
}

struct Program {
  std::unique_ptr<Ir> ir = std::make_unique<Ir>();
  std::vector<TensorIndex> inputs;
  std::map<std::string, TensorData> streams;
  Op *op = nullptr;
  Graph &graph() const { return ir->getMainGraph(); }
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
    graph.addConnectedOp(opDef("HostStore"), {results[i]}, {}, {{"stream", name}}, Op::Settings(graph, "store"));
  }
}

// Every stream of rank 2 and more changes places with a Transpose of a stream of reversed dimensions.
void transposeInputs(Program &p) {
  Graph &graph = p.graph();
  for (auto &[name, value] : p.streams) {
    const TensorIndex stream = graph.find(name);
    Shape reversed = value.info().shape();
    if (reversed.size() < 2) continue;
    std::reverse(reversed.begin(), reversed.end());
    const std::vector<Use> uses = graph.tensor(stream).uses();
    value = transposed(value);
    graph.tensor(stream).info = TensorInfo(value.info().dataType(), reversed);
    Op *op = graph.addConnectedOp(opDef("Transpose"), {stream}, {name + "_transposed"}, {}, Op::Settings(graph));
    for (const Use &use : uses) graph.replaceUse(use, op->outputs()[0]);
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

const runtime::Device &deviceOf(OpBackend backend) {
  static const runtime::HostDevice reference("ref", {&ref::backend()});
  static const test::CountingDevice counting(cpu::backend(), ref::backend());
  switch (backend) {
    case OpBackend::Reference:
      return reference;
    case OpBackend::Counting:
      return counting;
    case OpBackend::Best:
      break;
  }
  return deviceFor(DeviceType::Cpu);
}

session::CompileOptions compileOptions(OpBackend backend, int threads) {
  const int count = threads > 0 ? threads : computeThreadCount();
  session::CompileOptions options = compileOptionsFor(DeviceType::Cpu, count);
  options.device = &deviceOf(backend);
  options.passesOff = passesOff({}, DeviceType::Cpu);
  options.evaluate = {};  // what the op is given is computed when it runs
  options.wakePolicy = runtime::WakePolicy::Always;
  return options;
}

std::unique_ptr<session::CompiledProgram> compile(Program &p, const std::vector<TensorIndex> &results,
                                                  OpBackend backend, int threads) {
  addHostIo(p, results);
  auto compiled = std::make_unique<session::CompiledProgram>("single op");
  compiled->compile(*p.ir, compileOptions(backend, threads));
  return compiled;
}

std::vector<TensorData> execute(Program &p, const std::vector<TensorIndex> &results, const OpRun &run) {
  const auto compiled = compile(p, results, run.backend, run.threads);
  compiled->load(*DeviceManager::createDeviceManager().createCpuDevice());
  const size_t count = results.size();
  p.ir.reset();  // nothing that runs needs the graph
  const auto executable = compiled->executable();
  const auto runOnce = [&](Streams &streams) { compiled->run([&]() -> runtime::StreamSource & { return streams; }); };
  Streams streams(*executable, p.streams);
  runOnce(streams);
  for (int i = 1; i < run.repetitions; ++i) {
    Streams again(*executable, p.streams);
    runOnce(again);
    if (again.results != streams.results)
      throw internal_error("single op: run {} gives other bits than the first", i + 1);
  }
  std::vector<TensorData> values(count);
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

std::set<std::string> passesThatChange(Program &p, const std::vector<TensorIndex> &results) {
  addHostIo(p, results);
  const lower::LowerOptions lowering = session::lowerOptions(compileOptions(OpBackend::Best, 0));
  const lower::Backends backends = lower::remember(lowering);
  pipeline::PassContext context(*p.ir, lowering, backends);
  std::set<std::string> names;
  std::string before;
  for (const pipeline::Pass &pass : pipeline::passesOf(&context.device())) {
    if (pass.phase < pipeline::Phase::Flatten || pass.phase > pipeline::Phase::Device || !pass.applies(context))
      continue;
    pipeline::runPass(context, pass);
    std::string after = print(context.ir());
    if (after != before && !*pass.needed) names.insert(pass.name);
    before = std::move(after);
  }
  return names;
}

}  // namespace

std::vector<TensorData> runOp(const SingleOp &op, const OpRun &run) {
  Program p = build(op);
  const std::vector<TensorIndex> outputs = p.op->outputs();
  if (run.operands == OpOperands::Transposed) transposeInputs(p);
  return execute(p, outputs, run);
}

std::string textOfOp(const SingleOp &op) {
  const Program p = build(op);
  verify(*p.ir);
  const std::string text = print(*p.ir);
  const std::unique_ptr<Ir> again = parseIr(text);
  if (!structurallyEqual(*again, *p.ir) || print(*again) != text)
    throw internal_error("operator '{}': print and parse give another program:\n{}", op.type, text);
  return text;
}

std::optional<std::vector<TensorData>> runOpAsOnnx(const SingleOp &op) {
  const Program p = build(op);
  onnx::ModelBuilder builder{ref::evaluate};
  std::vector<TensorId> inputs;
  for (TensorIndex t : p.op->inputs())
    inputs.push_back(t.valid() ? builder.addInputTensor(p.graph().info(t), p.graph().tensor(t).id) : TensorId());
  if (!onnx::addNodeOf(builder, *p.op, inputs)) return std::nullopt;
  for (int i = 0; i < p.op->outputCount(); ++i) builder.addOutputTensor(p.op->outId(i));
  Program read;
  onnx::BuildOptions options;
  options.evaluate = ref::evaluate;
  onnx::buildGraph(onnx::Model::parse(builder.getModelProto()), options, *read.ir);
  verify(*read.ir);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].empty()) read.streams[inputs[i]] = p.streams.at(p.op->inId(static_cast<InIndex>(i)));
  return execute(read, read.graph().outputs(), OpRun());
}

std::vector<TensorInfo> inferOp(const SingleOp &op) {
  Program p = build(op);
  std::vector<TensorInfo> infos;
  for (int i = 0; i < p.op->outputCount(); ++i) infos.push_back(p.op->outInfo(i));
  return infos;
}

Cost costOfOp(const SingleOp &op) { return costOf(*build(op).op); }

std::vector<TensorData> gradOp(const SingleOp &op, const std::vector<TensorData> &gradOutputs,
                               const std::vector<int> &wanted, OpBackend backend) {
  Program p = build(op);
  OpRun run;
  run.backend = backend;
  return execute(p, differentiate(p, op, gradOutputs, wanted), run);
}

std::vector<executable::Fallback> opFallbacks(const SingleOp &op) {
  Program p = build(op);
  const std::vector<TensorIndex> outputs = p.op->outputs();
  return compile(p, outputs, OpBackend::Best, 0)->executable()->fallbacks;
}

std::vector<executable::Fallback> gradFallbacks(const SingleOp &op, const std::vector<TensorData> &gradOutputs,
                                                const std::vector<int> &wanted) {
  Program p = build(op);
  return compile(p, differentiate(p, op, gradOutputs, wanted), OpBackend::Best, 0)->executable()->fallbacks;
}

std::set<std::string> passesOfOp(const SingleOp &op) {
  Program p = build(op);
  const std::vector<TensorIndex> outputs = p.op->outputs();
  return passesThatChange(p, outputs);
}

std::set<std::string> passesOfGradient(const SingleOp &op, const std::vector<TensorData> &gradOutputs,
                                       const std::vector<int> &wanted) {
  Program p = build(op);
  return passesThatChange(p, differentiate(p, op, gradOutputs, wanted));
}

}  // namespace popart
