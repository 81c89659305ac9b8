// Random graphs over the operator rows. Each is built in float32 and float64 and checked:
//   text       verify passes; print → parse gives an equal program
//   backends   the CPU backend, fused, gives what the reference gives op by op; 1 = 2 = 3 = 8 threads to the bit
//   onnx       written as an ONNX model and read again it gives the same numbers, where every op has an ONNX form
//   gradient   autodiff agrees with central differences in float64, where every op has a gradient
#include <cmath>
#include <iostream>
#include <map>
#include <set>

#include <popart/error.hpp>

#include "../support/host.hpp"
#include "api/compile_options.hpp"
#include "autodiff/autodiff.hpp"
#include "backends/ref/ref.hpp"
#include "fuzz.hpp"
#include "graph_plan.hpp"
#include "guard.hpp"
#include "onnx/graph_writer.hpp"
#include "onnx/reader.hpp"
#include "pipeline/passes.hpp"
#include "runtime/engine.hpp"

namespace popart::fuzz {
namespace {

using Values = std::map<TensorId, std::vector<double>>;

// Numbers in (-1, 1) for every input, by name.
Values randomInputs(const Instance &instance, Random &random) {
  Values values;
  std::uniform_real_distribution<double> uniform(-1, 1);
  const Graph &graph = instance.ir->getMainGraph();
  for (TensorIndex t : instance.inputs) {
    std::vector<double> &numbers = values[graph.tensor(t).id];
    numbers.resize(static_cast<size_t>(graph.info(t).nelms()));
    for (double &n : numbers) n = uniform(random);
  }
  return values;
}

TensorData toTensor(const TensorInfo &info, const std::vector<double> &numbers) {
  if (info.dataType() == DataType::DOUBLE) return TensorData::of<double>(info.shape(), numbers);
  return TensorData::of<float>(info.shape(), std::vector<float>(numbers.begin(), numbers.end()));
}

struct Streams final : runtime::StreamSource {
  Streams(const executable::Executable &executable, const Values &values) {
    for (const auto &input : executable.inputs) inputs.push_back(toTensor(input.info, values.at(input.id)));
    for (const auto &output : executable.outputs) outputs.emplace_back(output.info);
  }
  const void *input(int stream, int64_t) override { return inputs.at(static_cast<size_t>(stream)).data(); }
  void *output(int stream, int64_t) override { return outputs.at(static_cast<size_t>(stream)).mutableData(); }
  std::vector<TensorData> inputs, outputs;
};

enum class Device { ReferenceOpByOp, Cpu };

// The program with host streams around it, compiled once, run any number of times.
class Program {
 public:
  Program(const Ir &ir, const std::vector<TensorId> &results, Device device, int threads) {
    const std::unique_ptr<Ir> copy = ir.clone();
    addHostIo(copy->getMainGraph(), results);
    lower::LowerOptions options;
    options.backends = device == Device::Cpu ? deviceFor(DeviceType::Cpu).backends()
                                             : std::vector<const executable::Backend *>{&ref::backend()};
    options.fuse = device == Device::Cpu;
    options.threads = threads;
    executable_ = pipeline::lower(*copy, options);
    engine_ = std::make_unique<runtime::Engine>(executable_, test::host(),
                                                runtime::RunSettings{threads, runtime::WakePolicy::Always});
    count_ = results.size();
  }

  std::vector<TensorData> run(const Values &values) {
    Streams streams(*executable_, values);
    engine_->run(streams);
    std::vector<TensorData> ordered(count_);
    for (size_t i = 0; i < executable_->outputs.size(); ++i)
      ordered.at(std::stoul(executable_->outputs[i].id)) = streams.outputs[i];
    return ordered;
  }

 private:
  static void addHostIo(Graph &graph, const std::vector<TensorId> &results) {
    for (Tensor *stream : graph.tensorsOfType(TensorType::Stream)) {
      const std::vector<Use> uses = stream->uses();
      const Op *load = graph.addConnectedOp(opDef("HostLoad"), {stream->index()}, {stream->id + "/loaded"},
                                            {{"stream", stream->id}}, Op::Settings(graph));
      for (const Use &use : uses) graph.replaceUse(use, load->outputs()[0]);
    }
    for (size_t i = 0; i < results.size(); ++i)
      graph.addConnectedOp(opDef("HostStore"), {graph.find(results[i])}, {}, {{"stream", std::to_string(i)}},
                           Op::Settings(graph));
  }

  std::shared_ptr<const executable::Executable> executable_;
  std::unique_ptr<runtime::Engine> engine_;
  size_t count_ = 0;
};

std::vector<TensorId> idsOf(const Graph &graph, const std::vector<TensorIndex> &tensors) {
  std::vector<TensorId> ids;
  for (TensorIndex t : tensors) ids.push_back(graph.tensor(t).id);
  return ids;
}

// Empty when every element agrees within `tolerance` of the largest in its tensor, or of 1.
std::string difference(const std::vector<TensorData> &got, const std::vector<TensorData> &expected, double tolerance) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (got[i].info() != expected[i].info()) return "result " + std::to_string(i) + ": " + got[i].info().str();
    const std::vector<double> a = got[i].asDoubles(), b = expected[i].asDoubles();
    double size = 1;
    for (double v : b)
      if (std::isfinite(v)) size = std::max(size, std::abs(v));
    for (size_t k = 0; k < a.size(); ++k) {
      const bool same =
          a[k] == b[k] || (std::isnan(a[k]) && std::isnan(b[k])) || std::abs(a[k] - b[k]) <= tolerance * size;
      if (!same)
        return "result " + std::to_string(i) + " element " + std::to_string(k) + ": got " + toText(a[k]) +
               ", expected " + toText(b[k]);
    }
  }
  return {};
}

// ---- the checks. Each returns what is wrong, empty when nothing is.

std::string checkText(const Ir &ir) {
  verify(ir);
  const std::unique_ptr<Ir> again = parseIr(print(ir));
  if (!structurallyEqual(*again, ir)) return "text: print and parse give another program";
  return print(*again) == print(ir) ? "" : "text: the second print differs from the first";
}

std::string checkBackends(const Instance &instance, const Values &inputs, const std::vector<TensorData> &expected) {
  const std::vector<TensorId> results = idsOf(instance.ir->getMainGraph(), instance.results);
  const std::vector<TensorData> one = Program(*instance.ir, results, Device::Cpu, 1).run(inputs);
  // Two chains of float32 roundings, amplified by what comes after them.
  const std::string wrong = difference(one, expected, 2e-4);
  if (!wrong.empty()) return "backends: cpu differs from ref: " + wrong;
  for (int threads : {2, 3, 8})
    if (Program(*instance.ir, results, Device::Cpu, threads).run(inputs) != one)
      return "backends: 1 and " + std::to_string(threads) + " threads give different bits";
  return "";
}

// The graph as a model; nullopt when an op has no ONNX form.
std::optional<std::string> asModel(const Instance &instance) {
  const Graph &graph = instance.ir->getMainGraph();
  onnx::ModelBuilder builder{ref::evaluate};
  std::map<TensorIndex, TensorId> ids;
  for (const Tensor *tensor : graph.tensors()) {
    if (tensor->tensorType() == TensorType::Stream)
      ids[tensor->index()] = builder.addInputTensor(tensor->info, tensor->id);
    if (tensor->tensorType() == TensorType::Const)
      ids[tensor->index()] = builder.addInitializedInputTensor(tensor->tensorData(), tensor->id);
  }
  for (const Op *op : graph.getOpSchedule()) {
    std::vector<TensorId> inputs;
    for (TensorIndex t : op->inputs()) inputs.push_back(ids.at(t));
    if (!onnx::addNodeOf(builder, *op, inputs)) return std::nullopt;
    for (TensorIndex t : op->outputs()) ids[t] = graph.tensor(t).id;
  }
  for (TensorIndex t : instance.results) builder.addOutputTensor(ids.at(t));
  return builder.getModelProto();
}

std::string checkOnnx(const Instance &instance, const Values &inputs, const std::vector<TensorData> &expected,
                      int64_t &written) {
  const std::optional<std::string> model = asModel(instance);
  if (!model) return {};
  ++written;
  onnx::BuildOptions options;
  options.evaluate = ref::evaluate;
  Ir ir;
  onnx::buildGraph(onnx::Model::parse(*model), options, ir);
  verify(ir);
  Values used;
  for (Tensor *stream : ir.getMainGraph().tensorsOfType(TensorType::Stream)) {
    auto found = inputs.find(stream->id);
    if (found == inputs.end()) return "onnx: an input has another name: " + stream->id;
    used.insert(*found);
  }
  const std::vector<TensorData> got =
      Program(ir, idsOf(ir.getMainGraph(), ir.getMainGraph().outputs()), Device::ReferenceOpByOp, 1).run(used);
  const std::string wrong = difference(got, expected, 1e-5);
  return wrong.empty() ? "" : "onnx: written and read again: " + wrong;
}

// A scalar of all results: sum over results r of sum(r * w) with fixed numbers w.
TensorIndex addLoss(Instance &instance, Random &random) {
  Graph &graph = instance.ir->getMainGraph();
  const auto emit = [&](const char *type, const std::vector<TensorIndex> &inputs, Attributes attributes = {}) {
    return graph
        .addConnectedOp(opDef(type), inputs, {graph.freeId("loss")}, std::move(attributes), Op::Settings(graph, "loss"))
        ->outputs()[0];
  };
  std::vector<TensorIndex> parts;
  std::uniform_real_distribution<double> uniform(0.5, 1);
  for (TensorIndex t : instance.results) {
    std::vector<double> weights(static_cast<size_t>(graph.info(t).nelms()));
    for (double &w : weights) w = uniform(random);
    const TensorIndex w = graph.addConstant(graph.freeId("weights"), toTensor(graph.info(t), weights));
    parts.push_back(emit("ReduceSum", {emit("Mul", {t, w})}, {{"keepdims", int64_t{0}}}));
  }
  return emit("Sum", parts);
}

std::string checkGradient(const Plan &plan, Random &random, int64_t &differentiated) {
  Instance instance = instantiate(plan, DataType::DOUBLE);
  Graph &graph = instance.ir->getMainGraph();
  const TensorId loss = graph.tensor(addLoss(instance, random)).id;
  Program forward(*instance.ir, {loss}, Device::ReferenceOpByOp, 1);
  const TensorIndex one = graph.addConstant("one", TensorData::scalar<double>(1.0));
  const std::vector<TensorId> inputs = idsOf(graph, instance.inputs);
  const std::map<TensorId, TensorId> gradients = autodiff::growBackward(graph, loss, one, inputs);
  verify(*instance.ir);
  std::vector<TensorId> targets, results;
  for (const auto &[target, gradient] : gradients) targets.push_back(target), results.push_back(gradient);
  if (targets.empty()) return {};
  ++differentiated;
  Values values = randomInputs(instance, random);
  const std::vector<TensorData> got = Program(*instance.ir, results, Device::ReferenceOpByOp, 1).run(values);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::string wrong;
  // A step may cross a kink (of Relu, a maximum, an order): then a smaller one along another direction does not.
  for (const double step : {1e-5, 1e-6, 1e-6}) {
    Values plus = values, minus = values;
    double slope = 0, scale = 1;
    for (size_t i = 0; i < targets.size(); ++i) {
      const std::vector<double> gradient = got[i].asDoubles();
      for (size_t k = 0; k < gradient.size(); ++k) {
        const double direction = uniform(random);
        plus[targets[i]][k] += step * direction;
        minus[targets[i]][k] -= step * direction;
        slope += gradient[k] * direction;
        scale = std::max(scale, std::abs(gradient[k]));
      }
    }
    const double high = forward.run(plus).front().asDoubles().front(),
                 low = forward.run(minus).front().asDoubles().front();
    const double expected = (high - low) / (2 * step);
    // Truncation grows with the third derivative, rounding with the loss over the step.
    const double tolerance = 1e-5 * scale + 1e-15 * std::max(std::abs(high), 1.0) / step * 10;
    if (std::abs(slope - expected) <= tolerance) return {};
    wrong = "gradient: got slope " + toText(slope) + ", expected " + toText(expected);
  }
  return wrong;
}

struct Counts {
  int64_t text = 0, onnx = 0, gradients = 0;
  std::map<std::string, int64_t> types;
};

std::string checkGraph(const Plan &plan, bool differentiable, Random &random, Counts &counts) {
  const Instance instance = instantiate(plan, DataType::FLOAT);
  if (instance.results.empty()) return {};
  ++counts.text;
  for (const Plan::Step &step : plan.steps) ++counts.types[step.type];
  const Values inputs = randomInputs(instance, random);
  std::string wrong = checkText(*instance.ir);
  if (!wrong.empty()) return wrong;
  const std::vector<TensorId> results = idsOf(instance.ir->getMainGraph(), instance.results);
  const std::vector<TensorData> expected = Program(*instance.ir, results, Device::ReferenceOpByOp, 1).run(inputs);
  wrong = checkBackends(instance, inputs, expected);
  if (!wrong.empty()) return wrong;
  wrong = checkOnnx(instance, inputs, expected, counts.onnx);
  if (!wrong.empty() || !differentiable) return wrong;
  return checkGradient(plan, random, counts.gradients);
}

void printCounts(const Counts &counts) {
  std::cout << "random graphs: " << counts.text << " checked as text and on both backends, " << counts.onnx
            << " through ONNX, " << counts.gradients << " differentiated" << std::endl;
  std::string missed;
  int64_t met = 0;
  for (const std::string &type : plannedTypes()) {
    met += counts.types.count(type) != 0;
    if (!counts.types.count(type)) missed += " " + type;
  }
  std::cout << "operators met: " << met << (missed.empty() ? "" : "; not met:" + missed) << std::endl;
}

}  // namespace

int64_t randomGraphs(const Settings &settings) {
  int64_t findings = 0;
  Counts counts;
  for (int64_t i = settings.first; i < settings.first + settings.graphs; ++i) {
    Random random(static_cast<uint64_t>(settings.seed) * 7'000'003 + static_cast<uint64_t>(i));
    const bool differentiable = i % 2 == 0;
    const Plan plan = randomPlan(random, 2 + static_cast<int>(below(random, 12)), differentiable);
    const std::string what = "random graph " + std::to_string(i) + " of seed " + std::to_string(settings.seed);
    const std::string text = plan.text();
    std::string wrong;
    {
      Guarded guarded(what, text, 300);
      try {
        wrong = checkGraph(plan, differentiable, random, counts);
      } catch (const std::exception &e) {
        wrong = std::string("exception: ") + e.what();
      }
    }
    if (!wrong.empty()) {
      ++findings;
      std::cout << "FINDING: " << what << " (--seed " << settings.seed << " --first " << i << " --graphs 1): " << wrong
                << "\n  " << text << std::endl;
    }
  }
  printCounts(counts);
  if (settings.graphs >= 100 && (counts.onnx < settings.graphs / 10 || counts.gradients < settings.graphs / 4)) {
    ++findings;
    std::cout << "FINDING: too few graphs reach every check" << std::endl;
  }
  return findings;
}

}  // namespace popart::fuzz
