// The runner of the pass table.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "base/environment.hpp"
#include "pipeline/custom_transforms.hpp"

namespace popart::pipeline {
namespace {

constexpr const char *kPhaseNames[] = {"Fwd0",    "Fwd1", "Bwd0",   "PreAlias", "MainLoops", "Final",
                                       "Flatten", "Fuse", "Layout", "Order",    "Device",    "OnRequest"};

#ifdef NDEBUG
constexpr bool kVerifyAlways = false;
#else
constexpr bool kVerifyAlways = true;
#endif

bool wantsDot(const PipelineOptions &options, const std::string &checkpoint) {
  return std::any_of(options.dotChecks.begin(), options.dotChecks.end(), [&](std::string name) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char ch) { return std::tolower(ch); });
    std::string wanted = checkpoint;
    std::transform(wanted.begin(), wanted.end(), wanted.begin(), [](unsigned char ch) { return std::tolower(ch); });
    return name == wanted || name == "all";
  });
}

void writeDot(const PassContext &c, const std::string &checkpoint) {
  if (!wantsDot(c.request.options, checkpoint)) return;
  for (Graph *graph : c.ir().getAllGraphs()) {
    std::string name = graph->isMain() ? "main" : graph->id;
    for (char &ch : name)
      if (!std::isalnum(static_cast<unsigned char>(ch)) && ch != '_' && ch != '-') ch = '_';
    const std::string path = c.request.options.logDir + "/" + checkpoint + "_" + name + ".dot";
    std::ofstream file(path);
    file << toDot(*graph);
    file.close();
    check(static_cast<bool>(file), "SessionOptions::dotChecks: the file '{}' cannot be written. Check logDir", path);
  }
}

bool isPreparation(Phase phase) { return phase <= Phase::Final; }

void finishPhase(PassContext &c, Phase phase) {
  if (!isPreparation(phase)) return;
  applyCustomTransforms(c, phase);
  verify(c.ir());
  writeDot(c, phaseName(phase));
}

// Writes a program to the folder of POPART_PASS_DUMP and returns the path. Numbers continue over preparation and
// lowering in one process, so that the files sort in the order of the passes.
std::string dump(const std::string &folder, const Ir &ir, const std::string &name, PrintData data) {
  static std::atomic<int> number{0};
  std::string path = fmt::format("{}/{:05}-{}.ir", folder, number++, name);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  std::ofstream file(path);
  file << print(ir, data);
  file.close();
  if (!file) logging::transform::warn("POPART_PASS_DUMP: the file '{}' cannot be written", path);
  return path;
}

// Throws the exception of `pass` that is handled again, with more information. `before`: the program before the pass;
// null: not recorded.
[[noreturn]] void rethrow(const Pass &pass, const Ir *before, const std::string &folder) {
  std::string hint = "Set POPART_PASS_DUMP to a folder to get the program before it";
  if (before) {
    const std::string path = dump(folder, *before, std::string("before-") + pass.name, PrintData::Full);
    logging::transform::warn("pass '{}' failed; the program before it is in '{}'", pass.name, path);
    hint = "The program before it is in '" + path + "'";
  }
  try {
    throw;
  } catch (const internal_error &e) {
    throw internal_error("{}: while pass '{}' ran. {}", e.what(), pass.name, hint);
  }
}

}  // namespace

const char *phaseName(Phase phase) { return kPhaseNames[static_cast<int>(phase)]; }

PassContext::PassContext(PrepareRequest r) : request(std::move(r)) {
  for (const Anchor &anchor : request.anchors) anchors.insert(anchor.id);
}
PassContext::PassContext(const Ir &source, const lower::LowerOptions &options, const lower::Backends &providers)
    : lowering(options), backends(&providers), source_(&source) {}
PassContext::PassContext(PrepareRequest r, const lower::LowerOptions &options, const lower::Backends &providers)
    : PassContext(std::move(r)) {
  lowering = options;
  backends = &providers;
}

Ir &PassContext::ir() const {
  if (!request.ir) throw internal_error("passes: the program is read only until it is flat");
  return *request.ir;
}

void PassContext::noteInfos() {
  for (const Tensor *t : main().tensors()) result.infos.emplace(t->id, t->info);
}

void PassContext::replaceIr(std::unique_ptr<Ir> ir) {
  request.ir = std::move(ir);
  source_ = nullptr;
}

namespace {

// Runs the pass and logs its milliseconds, which are returned; 0 if it is switched off.
double runTimed(PassContext &c, const Pass &pass) {
  check(pass.applies(c), "pass '{}' does not apply: it belongs to {}", pass.name,
        isPreparation(pass.phase) ? "training, or to an option. Give a loss, or the option"
                                  : "devices with fused kernels, or to an option. Choose another device, or give "
                                    "the option");
  if (c.isOff(pass.name)) {
    logging::transform::debug("{}: switched off", pass.name);
    return 0;
  }
  const std::optional<std::string> folder = environment::passDump();
  const std::unique_ptr<const Ir> before = folder ? c.source().clone() : nullptr;
  std::chrono::duration<double, std::milli> took{};
  try {
    const auto start = std::chrono::steady_clock::now();
    if (pass.ofDevice) {
      pass.ofDevice->run(c.ir(), c.device(), c.lowering.threads);
    } else {
      pass.run(c);
    }
    const auto end = std::chrono::steady_clock::now();
    took = end - start;
    if (CompileTimes *times = isPreparation(pass.phase) ? c.request.times.get() : c.lowering.times.get())
      times->spans.push_back({phaseName(pass.phase), pass.name, start, end});
    if (c.request.options.verifyEachPass || kVerifyAlways) verify(c.ir());
  } catch (...) {
    rethrow(pass, before.get(), folder.value_or(""));
  }
  logging::transform::debug("{}: {} ms, {} ops", pass.name, took.count(), c.main().opCount());
  if (folder) dump(*folder, c.ir(), pass.name, PrintData::Summary);
  return took.count();
}

void logPhases(const std::map<Phase, double> &milliseconds) {
  if (!logging::shouldLog(logging::Module::transform, logging::Level::Info)) return;
  std::string text;
  for (const auto &[phase, took] : milliseconds)
    text += (text.empty() ? "" : ", ") + logging::format("{} {} ms", phaseName(phase), took);
  logging::transform::info("compile time by phase: {}", text);
}

}  // namespace

void runPass(PassContext &c, const Pass &pass) { runTimed(c, pass); }

void runPasses(PassContext &c, Phase first, Phase last) {
  Phase phase = first;
  std::map<Phase, double> milliseconds;
  for (const Pass &pass : passesOf(c.backends ? &c.device() : nullptr)) {
    if (pass.phase < first || pass.phase > last) continue;
    if (pass.phase != phase) finishPhase(c, phase);
    phase = pass.phase;
    if (pass.applies(c)) milliseconds[phase] += runTimed(c, pass);
  }
  finishPhase(c, phase);
  logPhases(milliseconds);
}

lower::Program lowerProgram(const Ir &ir, const lower::LowerOptions &options, const lower::Backends &backends) {
  PassContext context(ir, options, backends);
  runPasses(context, Phase::Flatten, Phase::Device);
  lower::Program program{std::shared_ptr<const Ir>(std::move(context.request.ir)), {}};
  for (const auto &backend : backends) program.backends.push_back(backend->name());
#ifndef NDEBUG
  lower::verify(program);
#endif
  return program;
}

std::shared_ptr<const executable::Executable> lower(const Ir &ir, const lower::LowerOptions &options) {
  const lower::Backends backends = lower::remember(options);
  return lower::compile(lowerProgram(ir, options, backends), options, backends);
}

}  // namespace popart::pipeline
