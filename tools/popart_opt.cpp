// popart-opt: reads a program (IR text or ONNX), runs named passes over it, and prints, draws, checks or plans the
// result. Values of an ONNX file are printed only with --values.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <popart/error.hpp>
#include <popart/ir.hpp>
#include <popart/patterns/patterns.hpp>
#include <popart/sgd.hpp>

#include "backends/collectives/collectives.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/ref/ref.hpp"
#include "base/byte_size.hpp"
#include "base/nearest.hpp"
#include "fitting/fit.hpp"
#include "onnx/describe.hpp"
#include "onnx/input_sizes.hpp"
#include "onnx/reader.hpp"
#include "patterns/pattern.hpp"
#include "pipeline/passes.hpp"
#include "pipeline/passes_off.hpp"
#include "session/lowered_view.hpp"
#include "shared/command.hpp"
#include "transforms/host_io.hpp"

namespace {

using namespace popart;
using IrPointer = std::unique_ptr<Ir>;

// ---- passes -------------------------------------------------------------------------------------

using Anchors = std::set<TensorId>;

struct Request {
  std::string input;
  std::vector<std::string> shapes, dims;  // of the inputs of an ONNX file
  std::vector<std::string> passes, passesOff, keep;
  std::string output, onnxOutput, device = "cpu", loss;
  float learningRate = 0.1f, momentum = 0;
  std::optional<float> lossScale;
  std::optional<int64_t> ipus;
  bool pipelines = false;
  int64_t lossScalePeriod = 1;
  int64_t batchesPerStep = 1, accumulationFactor = 1, replicas = 1;
  float outlineThreshold = 1;
  transforms::ReturnType returns;  // of all tensors kept
  transforms::RecomputeRule recompute = transforms::RecomputeRule::Marked;
  std::vector<TensorId> chosen;  // of rule Chosen
  std::string maxMemory;         // empty: the program stays as it is
  int threads = 1;
  lower::LaneRule lanes = lower::LaneRule::Auto;
  std::vector<std::string> offChip, sharded;
  int64_t phases = 1;
  DataType precision = DataType::BFLOAT16;
  transforms::UpdateMerging merging;
  transforms::BatchSerialisation batch{.parts = 2, .method = transforms::BatchSerialisation::Method::Static};
  bool print = false, summary = false, values = false, dot = false, schedule = false, memory = false, steps = false,
       verify = false, json = false, lower = false, checkFloats = false, ignoreLabels = false,
       roundStochastically = false, listPasses = false;
};

struct NamedPass {
  std::string name, phase, meaning, needed;
  std::function<void(pipeline::PassContext &)> run;
};

std::vector<NamedPass> namedPasses() {
  std::vector<NamedPass> passes;
  std::set<std::string> names;
  for (const pipeline::Pass &pass : pipeline::passesOf(&cpu::backend()))
    if (names.insert(pass.name).second)
      passes.push_back({pass.name, pipeline::phaseName(pass.phase), pass.meaning, pass.needed,
                        [pass](pipeline::PassContext &c) { pipeline::runPass(c, pass); }});
  for (const patterns::PatternRow &row : patterns::allPatterns()) {
    if (!row.rewrite) continue;  // done by decompose
    const std::string name = row.name;
    passes.push_back({name, "pattern", "", "", [name](pipeline::PassContext &c) {
                        const Patterns only({name});
                        for (Graph *g : c.ir().getAllGraphs()) patterns::applyPatterns(*g, only, c.anchors);
                      }});
  }
  return passes;
}

NamedPass findPass(const std::vector<NamedPass> &passes, const std::string &name) {
  std::vector<std::string> known;
  for (const NamedPass &pass : passes) {
    if (pass.name == name) return pass;
    known.push_back(pass.name);
  }
  throw error("there is no pass '{}'{}. --list-passes names all", name, nearestText(name, known));
}

// Those of the command line, or else of the environment.
std::set<std::string> passesOff(const Request &request) {
  if (request.passesOff.empty()) return pipeline::passesOff({}, cpu::backend());
  return pipeline::passesOff(fmt::format("{}", fmt::join(request.passesOff, ",")), cpu::backend(), "--disable-pass");
}

// The device as a session would have it. Fused operators have no reference kernels.
lower::LowerOptions loweringOptions(const Request &request) {
  lower::LowerOptions options;
  if (request.device == "cpu") options.backends = {&cpu::backend()};
  options.backends.push_back(&collectives::backend());
  options.backends.push_back(&ref::backend());
  options.fuse = request.device == "cpu";
  options.evaluate = ref::evaluate;
  options.threads = request.threads;
  options.lanes = request.lanes;
  options.checkFloats = request.checkFloats;
  options.ignoreLabelsOutOfRange = request.ignoreLabels;
  options.roundStochastically = request.roundStochastically;
  options.passesOff = passesOff(request);
  return options;
}

void checkKept(const Ir &ir, const Anchors &anchors) {
  std::vector<std::string> ids;
  for (const Graph *g : ir.getAllGraphs())
    for (const Tensor *t : g->tensors()) ids.push_back(t->id);
  for (const TensorId &id : anchors)
    check(std::find(ids.begin(), ids.end(), id) != ids.end(),
          "--keep: the program has no tensor '{}'{}. --print shows all", id, nearestText(id, ids));
}

// ---- files --------------------------------------------------------------------------------------

std::string readText(const std::string &path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream file(path, std::ios::binary);
  const bool isFolder = std::filesystem::is_directory(path);
  check(file.good() && !isFolder, "file '{}': {}, expected a file with IR text or an ONNX model (*.onnx)", path,
        isFolder                        ? "it is a folder"
        : std::filesystem::exists(path) ? "it cannot be read"
                                        : "it does not exist");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

bool isOnnxFile(const std::string &path) { return std::filesystem::path(path).extension() == ".onnx"; }

IrPointer readProgram(const Request &request) {
  if (!isOnnxFile(request.input)) {
    check(request.shapes.empty() && request.dims.empty(),
          "--shape and --dim: got IR text, whose shapes are known; they belong to ONNX files (*.onnx)");
    return parseIr(readText(request.input));
  }
  const onnx::Model model = onnx::Model::load(request.input);
  const onnx::InputSizes sizes = onnx::inputSizes(onnx::describeInputs(model), request.shapes, request.dims);
  auto ir = std::make_unique<Ir>();
  onnx::BuildOptions options;
  options.evaluate = ref::evaluate;
  options.replicas = request.replicas;
  for (const auto &input : sizes.inputs)
    options.inputShapeInfo[input.id] = TensorInfo(dataTypeFromString(input.type), input.shape);
  onnx::buildGraph(model, options, *ir);
  for (const std::string &note : sizes.notes) fmt::print(stderr, "popart-opt: {}\n", note);
  return ir;
}

// First written next to the target, so that a failure leaves no partial file.
void writeText(const std::string &option, const std::string &path, const std::string &text) {
  const std::string temporary = path + ".part";
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  check(file.good(), "{}: file '{}' cannot be written. Check the folder and its free space", option, path);
  std::error_code failure;
  std::filesystem::rename(temporary, path, failure);
  check(!failure, "{}: file '{}' cannot be renamed to '{}': {}", option, temporary, path, failure.message());
}

// ---- views --------------------------------------------------------------------------------------

std::string draw(const Ir &ir) {
  std::string text;
  for (const Graph *g : ir.getAllGraphs()) text += toDot(*g);
  return text;
}

std::string scheduleText(const Ir &ir) { return schedule::print(schedule::schedule(ir), ir); }

bool isLowered(const Ir &ir) {
  for (const Graph *g : ir.getAllGraphs())
    for (const Op *op : g->ops())
      if (op->has(Trait::Internal) && op->def().domain() == "popart") return true;
  return false;
}

// Inputs and outputs of the main graph become streams from and to the host, as in a session.
void addHostStreams(Ir &ir) {
  Graph &main = ir.getMainGraph();
  for (TensorIndex t : std::vector<TensorIndex>(main.outputs())) {
    const TensorId id = main.tensor(t).id;
    transforms::storeAnchor(main, id, id);
  }
  transforms::loadStreams(main);
}

// The memory plan and the steps of the program on the device.
std::string compiledText(IrPointer &ir, const Request &request, PrintData values) {
  const lower::LowerOptions options = loweringOptions(request);
  const lower::Backends backends = lower::remember(options);
  lower::Program program;
  if (isLowered(*ir)) {
    program.ir = std::move(ir);
    lower::verify(program);
  } else {
    addHostStreams(*ir);
    program = pipeline::lowerProgram(*ir, options, backends);
  }
  const lower::Compiled compiled = lower::compileInSteps(program, options, backends);
  std::string text;
  if (request.schedule) text += schedule::print(compiled.schedule, *program.ir);
  if (request.memory) {
    text += print(compiled.plan);
    const executable::MemoryReport &m = compiled.executable->memory;
    for (const auto &[name, bytes] : {std::pair{"variables", m.variableBytes}, std::pair{"constants", m.constantBytes},
                                      std::pair{"scratch", m.scratchBytes}, std::pair{"total", m.total()}})
      text += fmt::format("{}: {} bytes\n", name, bytes);
  }
  if (request.steps) text += print(*compiled.executable);
  if (!request.onnxOutput.empty())
    writeText("--onnx", request.onnxOutput,
              session::loweredView(*program.ir, compiled.schedule, *compiled.executable, values));
  return text;
}

// ---- command line -------------------------------------------------------------------------------

transforms::OffChip offChipRules(const std::vector<std::string> &kinds) {
  transforms::OffChip rules;
  for (const std::string &kind : kinds)
    (kind == "weights"           ? rules.weights
     : kind == "optimizer-state" ? rules.optimizerState
     : kind == "accumulators"    ? rules.accumulators
                                 : rules.activations)
        .offChip = true;
  return rules;
}

// However small.
transforms::ShardRules shardRules(const Request &request) {
  transforms::ShardRules rules;
  rules.replicas = request.replicas;
  for (const std::string &kind : request.sharded)
    (kind == "weights"           ? rules.weights
     : kind == "optimizer-state" ? rules.optimizerState
                                 : rules.accumulators) = {true, 2, CommGroup()};
  return rules;
}

pipeline::PrepareSettings settingsOf(const Request &request) {
  const SGD optimizer(std::map<std::string, std::pair<float, bool>>{
      {"defaultLearningRate", {request.learningRate, !request.lossScale}},
      {"defaultMomentum", {request.momentum, true}},
      {"lossScaling", {request.lossScale.value_or(1.0f), !request.lossScale}}});
  pipeline::PrepareSettings settings;
  settings.options.factors.accumulates = request.accumulationFactor > 1;
  settings.options.factors.accumulationFactor = request.accumulationFactor;
  settings.options.factors.replicationFactor = request.replicas;
  settings.batchesPerStep = request.batchesPerStep;
  settings.options.offChip = offChipRules(request.offChip);
  settings.options.sharding = shardRules(request);
  settings.options.recompute = request.recompute;
  settings.options.recomputeChosen.insert(request.chosen.begin(), request.chosen.end());
  settings.loss = request.loss;
  if (!request.loss.empty()) settings.updates = optimizer.updateRules(settings.options.factors);
  for (const std::string &id : request.keep) settings.anchors.push_back({id, request.returns});
  settings.options.verifyEachPass = request.verify;
  settings.options.passesOff = passesOff(request);
  return settings;
}

// Runs the passes of the request; the program stays owned by the result.
IrPointer runPasses(IrPointer ir, const Request &request, const std::vector<NamedPass> &passes) {
  const lower::LowerOptions options = loweringOptions(request);
  const lower::Backends backends = lower::remember(options);
  pipeline::PrepareRequest prepare{settingsOf(request), std::move(ir)};
  prepare.options.decomposeGradSum = prepare.options.floatLossScale = true;  // what is named runs
  prepare.options.listsSpareMemory = prepare.options.stridesGroups = true;
  const auto scalesLoss = [](const NamedPass &pass) { return pass.name == "transformAutomaticLossScale"; };
  if (std::ranges::any_of(passes, scalesLoss))  // which lets updates that overflow be left out
    prepare.options.automaticLossScale.emplace().period = request.lossScalePeriod;
  prepare.options.outlineThreshold = request.outlineThreshold;
  if (request.pipelines) prepare.options.pipelines = transforms::PipelineRules::Form::Implicit;
  prepare.options.virtualGraphs.rule =
      request.ipus ? transforms::VirtualGraphRule::Auto : transforms::VirtualGraphRule::Manual;
  prepare.options.virtualGraphs.ipus = request.ipus.value_or(1);
  prepare.options.executionPhases = request.phases;
  if (request.phases > 1) prepare.options.offChip.phases.emplace().count = request.phases;
  prepare.options.precision = request.precision;
  prepare.options.mergeUpdates = request.merging;
  prepare.options.serialiseForward = prepare.options.serialiseWhole = request.batch;
  pipeline::PassContext context(std::move(prepare), options, backends);
  context.keepOutputs = true;
  if (request.verify) verify(context.ir());
  for (const NamedPass &pass : passes) {
    pass.run(context);
    if (request.verify) verify(context.ir());
  }
  if (request.lower) pipeline::runPasses(context, pipeline::Phase::Flatten, pipeline::Phase::Device);
  return std::move(context.request.ir);
}

// Prepares the whole program and changes it until it fits; `report` says how.
IrPointer fitIntoMemory(const IrPointer &model, const Request &request, std::string &report) {
  fitting::FitRequest fit;
  fit.prepare = [&](const std::set<TensorId> &) {
    return pipeline::PrepareRequest{settingsOf(request), model->clone()};
  };
  fit.lowering = loweringOptions(request);
  const lower::Backends backends = lower::remember(fit.lowering);
  fit.backends = &backends;
  fit.mostBytes = byteSizeFromText(request.maxMemory, "--max-memory");
  const pipeline::Prepared plain = pipeline::prepare(fit.prepare({}));
  const lower::Program lowered = pipeline::lowerProgram(*plain.ir, fit.lowering, backends);
  const int64_t needed = lower::compile(lowered, fit.lowering, backends)->memory.total();
  if (needed <= fit.mostBytes) {
    report = fmt::format("  it fits as it is: {} bytes\n", needed);
    return plain.ir->clone();
  }
  const fitting::Fitted fitted = fitting::fitIntoMemory(fit, lowered);
  report = fitting::toText(fitted.report);
  return fitted.prepared.ir->clone();
}

void runRequest(const Request &request) {
  const std::vector<NamedPass> known = namedPasses();
  if (request.listPasses) {
    for (const NamedPass &pass : known)
      fmt::print("{:<36} {}{}{}\n", pass.name, pass.phase, pass.meaning.empty() ? "" : ": " + pass.meaning,
                 pass.needed.empty() ? "" : " (needed: " + pass.needed + ")");
    return;
  }
  std::vector<NamedPass> passes;
  for (const std::string &name : request.passes) passes.push_back(findPass(known, name));
  IrPointer ir = readProgram(request);
  checkKept(*ir, Anchors(request.keep.begin(), request.keep.end()));
  std::string report;
  ir = request.maxMemory.empty() ? runPasses(std::move(ir), request, passes) : fitIntoMemory(ir, request, report);
  std::cout << report;
  const bool compiles = request.memory || request.steps || !request.onnxOutput.empty();
  const bool onlyText = !(request.dot || request.schedule || compiles || request.json || request.verify) &&
                        request.output.empty() && report.empty();
  const bool full = request.values || (!request.summary && !isOnnxFile(request.input));
  const bool showsValues = request.values && request.onnxOutput.empty();  // else they are for that file
  if (request.print || request.summary || showsValues || onlyText)
    std::cout << popart::print(*ir, full ? PrintData::Full : PrintData::Summary);
  if (request.dot) std::cout << draw(*ir);
  if (request.schedule && !compiles) std::cout << scheduleText(*ir);
  if (request.json) std::cout << serialiseJson(*ir) << "\n";
  if (!request.output.empty()) writeText("--output", request.output, popart::print(*ir));
  const PrintData values = request.values ? PrintData::Full : PrintData::Summary;
  if (compiles) std::cout << compiledText(ir, request, values);  // last: it uses the program up
}

}  // namespace

int main(int argc, char **argv) {
  CLI::App app("Runs compiler passes over a program and shows the result.", "popart-opt");
  Request request;
  auto *input = app.add_option("input", request.input, "IR text, '-' for standard input, or an ONNX file (*.onnx)");
  app.add_option("-p,--pass", request.passes, "pass to run; may be repeated, runs in the order given")
      ->expected(1)
      ->take_all();
  app.add_option("--disable-pass", request.passesOff,
                 "pass that does not run; may be repeated (default: those of POPART_DISABLE_PASSES)")
      ->expected(1)
      ->take_all();
  app.add_option("-k,--keep", request.keep, "tensor whose value passes must keep; may be repeated")
      ->expected(1)
      ->take_all();
  app.add_option("-o,--output", request.output, "write the program as IR text to this file");
  app.add_option("--shape", request.shapes, "INPUT=D,D: shape of an input of an ONNX file; may be repeated")
      ->expected(1)
      ->take_all();
  app.add_option("--dim", request.dims,
                 "NAME=N: size of an open dimension of an ONNX file (default: 1); may be repeated")
      ->expected(1)
      ->take_all();
  app.add_flag("--print", request.print, "print the program as IR text (the default)");
  CLI::Option *summary =
      app.add_flag("--summary", request.summary,
                   "print hashes instead of values of more than 16 elements (the default for ONNX files)");
  app.add_flag("--values", request.values,
               "print all values, as text that popart-opt can read (the default for IR text)")
      ->excludes(summary);
  app.add_flag("--dot", request.dot, "print the graphs for Graphviz");
  app.add_flag("--schedule", request.schedule,
               "print the operators in execution order; with --memory or "
               "--steps that of the device, with what runs at the same time");
  app.add_flag("--memory", request.memory, "print the memory plan on the device");
  app.add_flag("--steps", request.steps, "print the steps of the executable on the device");
  app.add_option("--onnx", request.onnxOutput,
                 "write the program on the device, with its kernels, to this file for Netron; with --values with all "
                 "values");
  app.add_flag("--lower", request.lower, "run all passes of lowering after those named");
  app.add_flag("--ignore-labels", request.ignoreLabels,
               "as with the engine option ignore_out_of_range_labels: losses leave out labels that are no class");
  app.add_flag("--check-floats", request.checkFloats,
               "let runs end at the first operator that makes a NaN or an infinity");
  app.add_flag("--stochastic-rounding", request.roundStochastically, "round 16-bit results at random");
  app.add_option("--device", request.device, "kernels to lower for (default: cpu)")
      ->check(CLI::IsMember({"cpu", "ref"}));
  app.add_option("--threads", request.threads, "threads to plan for (default: 1)")->check(CLI::Range(1, 1024));
  using Lanes = lower::LaneRule;
  tools::addChoice<Lanes>(app, "--lanes", request.lanes,
                          {{"auto", Lanes::Auto}, {"always", Lanes::Always}, {"never", Lanes::Never}},
                          "whether stages of a pipeline's cycle run at the same time (default: auto)");
  app.add_option("--loss", request.loss, "loss of the passes that make a training program, with plain SGD");
  app.add_option("--learning-rate", request.learningRate, "of that SGD (default: 0.1)");
  app.add_option("--momentum", request.momentum, "of that SGD (default: 0)");
  app.add_option("--loss-scale", request.lossScale,
                 "of that SGD, whose values may change then (default: a constant 1)");
  app.add_option("--loss-scale-period", request.lossScalePeriod,
                 "updates between changes of an automatic loss scale (default: 1)")
      ->check(CLI::PositiveNumber);
  app.add_option("--batches-per-step", request.batchesPerStep, "batches of one run (default: 1)")
      ->check(CLI::PositiveNumber);
  app.add_option("--replicas", request.replicas, "replicas that train together (default: 1)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 14));
  app.add_option("--off-chip", request.offChip, "tensors to keep in remote memory; may be repeated")
      ->check(CLI::IsMember({"weights", "optimizer-state", "accumulators", "activations"}));
  app.add_option("--shard", request.sharded, "tensors of which each replica keeps a part; may be repeated")
      ->check(CLI::IsMember({"weights", "optimizer-state", "accumulators"}));
  app.add_option("--outline-threshold", request.outlineThreshold, "value of sequences that become graphs (default: 1)");
  app.add_option("--accumulation-factor", request.accumulationFactor, "micro-batches of one update (default: 1)")
      ->check(CLI::PositiveNumber);
  using Kind = transforms::ReturnType::Kind;
  tools::addChoice<Kind>(app, "--return", request.returns.kind,
                         {{"all", Kind::All}, {"final", Kind::Final}, {"everyn", Kind::EveryN}, {"sum", Kind::Sum}},
                         "values of the tensors to keep that the host gets (default: all)");
  app.add_option("--period", request.returns.period, "of --return everyn, in micro-batches")
      ->check(CLI::PositiveNumber);
  using Rule = transforms::RecomputeRule;
  tools::addChoice<Rule>(app, "--recompute", request.recompute,
                         {{"marked", Rule::Marked},
                          {"chosen", Rule::Chosen},
                          {"standard", Rule::Standard},
                          {"norms", Rule::Norms},
                          {"stages", Rule::Stages},
                          {"all", Rule::All}},
                         "what recomputeActivations computes again (default: marked)");
  tools::addChoice<DataType>(app, "--precision", request.precision,
                             {{"bfloat16", DataType::BFLOAT16}, {"float16", DataType::FLOAT16}},
                             "type that reducePrecision computes in (default: bfloat16)");
  app.add_option("--ipus", request.ipus,
                 "IPUs that placeOnVirtualGraphs cuts the program for; without it, operators must have their IPU")
      ->check(CLI::PositiveNumber);
  app.add_flag("--pipeline", request.pipelines,
               "as with SessionOptions::enablePipelining: for the passes of pipelines");
  app.add_option("--phases", request.phases, "execution phases of the forward pass (default: 1)")
      ->check(CLI::PositiveNumber);
  using Sizes = transforms::UpdateMerging::Sizes;
  tools::addChoice<Sizes>(app, "--merge", request.merging.sizes,
                          {{"all", Sizes::All}, {"exact", Sizes::Exact}, {"loose", Sizes::Loose}},
                          "updates that mergeUpdates puts together (default: all)");
  app.add_option("--merge-bytes", request.merging.bytes, "of one such update, with --merge exact and loose")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch-parts", request.batch.parts, "parts in which a batch runs (default: 2)")
      ->check(CLI::PositiveNumber);
  using Method = transforms::BatchSerialisation::Method;
  tools::addChoice<Method>(app, "--batch-method", request.batch.method,
                           {{"static", Method::Static}, {"dynamic", Method::Dynamic}, {"loop", Method::Loop}},
                           "how parts of a batch are cut (default: static)");
  app.add_option("--choose", request.chosen, "tensor that --recompute chosen computes again; may be repeated")
      ->expected(1)
      ->take_all();
  app.add_option("--max-memory", request.maxMemory,
                 "prepare the whole program and change it until it needs no more bytes (K, M, G); print how");
  app.add_flag("--json", request.json, "print the serialised IR");
  app.add_flag("--verify", request.verify,
               "check the program first and after each pass; prints nothing when it is legal");
  app.add_flag("--list-passes", request.listPasses, "name all passes and stop");
  return tools::runCommand(app, argc, argv, [&] {
    if (request.input.empty() && !request.listPasses) throw CLI::RequiredError(input->get_name());
    runRequest(request);
  });
}
