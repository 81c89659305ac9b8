// popart-opt: reads a program (IR text or ONNX), runs named passes over it, and prints, draws, checks or plans the
// result. Exit codes: 0 done, 1 the program or a file was refused, 2 wrong command line, 3 an internal error.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <popart/error.hpp>
#include <popart/ir.hpp>
#include <popart/patterns/patterns.hpp>

#include "backends/ref/ref.hpp"
#include "base/nearest.hpp"
#include "lower/decompose.hpp"
#include "lower/flatten.hpp"
#include "lower/fold_batch_norm.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/fuse_epilogue.hpp"
#include "lower/lower.hpp"
#include "lower/order_updates.hpp"
#include "onnx/reader.hpp"
#include "patterns/pattern.hpp"
#include "transforms/constant_folding.hpp"
#include "transforms/decompose_sums.hpp"
#include "transforms/host_io.hpp"
#include "transforms/prune.hpp"
#include "transforms/random_setup.hpp"

namespace {

using namespace popart;
using IrPointer = std::unique_ptr<Ir>;

// ---- passes -------------------------------------------------------------------------------------

using Anchors = std::set<TensorId>;

struct Pass {
  std::string name, meaning;
  std::function<void(IrPointer &ir, const Anchors &anchors)> run;
};

template <class Work>
void eachGraph(const Ir &ir, Work work) {
  for (Graph *g : ir.getAllGraphs()) work(*g);
}

std::vector<Pass> graphPasses() {
  return {
      {"foldConstants", "compute what depends on constants and shapes only",
       [](IrPointer &ir, const Anchors &) {
         eachGraph(*ir, [](Graph &g) { transforms::foldConstants(g, ref::evaluate); });
       }},
      {"prune", "remove what leads to no output, kept tensor or effect",
       [](IrPointer &ir, const Anchors &anchors) { eachGraph(*ir, [&](Graph &g) { transforms::prune(g, anchors); }); }},
      {"decomposeSums", "make sums of gradients additions into one accumulator",
       [](IrPointer &ir, const Anchors &) { eachGraph(*ir, transforms::decomposeSums); }},
      {"decomposeGradientSums", "make sums of gradients a chain of additions",
       [](IrPointer &ir, const Anchors &) { eachGraph(*ir, transforms::decomposeGradientSums); }},
      {"setUpRandomSeeds", "give every random operator a seed of its own",
       [](IrPointer &ir, const Anchors &) { transforms::setUpRandomSeeds(*ir); }},
  };
}

std::vector<Pass> loweringPasses() {
  return {
      {"flatten", "inline calls, replace in-place operators by functional ones",
       [](IrPointer &ir, const Anchors &) { ir = lower::flatten(*ir, lower::MainOutputs::Keep); }},
      {"simplify", "remove what computes nothing (flat programs)",
       [](IrPointer &ir, const Anchors &) { lower::simplify(*ir); }},
      {"decompose", "expand operators without a reference kernel (flat programs)",
       [](IrPointer &ir, const Anchors &) { lower::decompose(*ir, ref::backend()); }},
      {"foldBatchNorms", "fold normalisations with known parameters into convolutions (flat programs)",
       [](IrPointer &ir, const Anchors &) { lower::foldBatchNorms(*ir); }},
      {"orderUpdates", "read old values of variables before their updates (flat programs)",
       [](IrPointer &ir, const Anchors &) { lower::orderUpdates(*ir); }},
      {"runUpdatesEarly", "update variables right after their gradients (flat programs)",
       [](IrPointer &ir, const Anchors &) { lower::runUpdatesEarly(*ir); }},
      {"fuseElementwise", "cluster element-wise operators (flat programs)",
       [](IrPointer &ir, const Anchors &) { lower::fuseElementwise(*ir, ref::backend()); }},
      {"fuseEpilogues", "let products absorb transposes and element-wise operators (flat programs)",
       [](IrPointer &ir, const Anchors &) { lower::fuseEpilogues(*ir, ref::backend()); }},
  };
}

std::vector<Pass> allPasses() {
  std::vector<Pass> passes = graphPasses();
  for (Pass &pass : loweringPasses()) passes.push_back(std::move(pass));
  for (const patterns::PatternRow &row : patterns::allPatterns()) {
    if (!row.rewrite) continue;  // done by decompose
    const std::string name = row.name;
    passes.push_back({name, "pattern", [name](IrPointer &ir, const Anchors &anchors) {
                        const Patterns only({name});
                        eachGraph(*ir, [&](Graph &g) { patterns::applyPatterns(g, only, anchors); });
                      }});
  }
  return passes;
}

Pass findPass(const std::vector<Pass> &passes, const std::string &name) {
  std::vector<std::string> known;
  for (const Pass &pass : passes) {
    if (pass.name == name) return pass;
    known.push_back(pass.name);
  }
  throw error("pass '{}' does not exist. Nearest names: {}; --list-passes names all", name, nearest(name, known));
}

void checkKept(const Ir &ir, const Anchors &anchors) {
  std::vector<std::string> ids;
  for (const Graph *g : ir.getAllGraphs())
    for (const Tensor *t : g->tensors()) ids.push_back(t->id);
  for (const TensorId &id : anchors)
    check(std::find(ids.begin(), ids.end(), id) != ids.end(),
          "tensor '{}' to keep does not exist. Nearest names: {}; --print shows all", id, nearest(id, ids));
}

// ---- files --------------------------------------------------------------------------------------

std::string readText(const std::string &path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream file(path, std::ios::binary);
  check(file.good() && !std::filesystem::is_directory(path), "input file '{}': cannot be read. Check the name", path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

IrPointer readProgram(const std::string &path) {
  if (std::filesystem::path(path).extension() != ".onnx") return parseIr(readText(path));
  auto ir = std::make_unique<Ir>();
  onnx::BuildOptions options;
  options.evaluate = ref::evaluate;
  onnx::buildGraph(onnx::Model::load(path), options, *ir);
  return ir;
}

// Written beside the target first, so that a failure leaves no half file.
void writeText(const std::string &path, const std::string &text) {
  const std::string temporary = path + ".part";
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  check(file.good(), "output file '{}': cannot be written. Check the folder and its free space", path);
  std::error_code failure;
  std::filesystem::rename(temporary, path, failure);
  check(!failure, "output file '{}': cannot be put in place: {}", path, failure.message());
}

// ---- views --------------------------------------------------------------------------------------

std::string draw(const Ir &ir) {
  std::string text;
  for (const Graph *g : ir.getAllGraphs()) text += toDot(*g);
  return text;
}

std::string scheduleText(const Ir &ir) {
  std::string text;
  for (const Graph *g : ir.getAllGraphs()) {
    text += g->getGraphString() + ":\n";
    for (const Op *op : g->getOpSchedule())
      text += "  " + op->str() + (op->name().empty() ? "" : "  " + op->name()) + "\n";
  }
  return text;
}

// Plan of the program on the reference backend: every buffer of the arena, and the totals. Inputs and outputs of the
// main graph become streams from and to the host, as in a session.
std::string memoryText(Ir &ir) {
  Graph &main = ir.getMainGraph();
  for (TensorIndex t : std::vector<TensorIndex>(main.outputs())) {
    const TensorId id = main.tensor(t).id;
    transforms::storeAnchor(main, id, id, "all", 1);
  }
  transforms::loadStreams(main);
  lower::LowerOptions options;
  options.backends = {&ref::backend()};
  options.fuse = false;  // fused operators have no reference kernels
  const auto executable = lower::lower(ir, options);
  std::string text = fmt::format("{:>12} {:>12}  {}\n", "offset", "bytes", "value");
  for (const auto &b : executable->buffers)
    if (b.place == executable::Buffer::Place::Arena)
      text += fmt::format("{:>12} {:>12}  {}\n", b.offset, b.bytes, b.name);
  const executable::MemoryReport &m = executable->memory;
  for (const auto &[name, bytes] :
       {std::pair{"arena", m.arenaBytes}, std::pair{"largest live set", m.largestLiveSetBytes},
        std::pair{"variables", m.variableBytes}, std::pair{"constants", m.constantBytes},
        std::pair{"scratch", m.scratchBytes}, std::pair{"total", m.total()}})
    text += fmt::format("{:>12} {:>12}  {}\n", "", bytes, name);
  return text;
}

// ---- command line -------------------------------------------------------------------------------

struct Request {
  std::string input;
  std::vector<std::string> passes, keep;
  std::string output;
  bool print = false, summary = false, dot = false, schedule = false, memory = false, verify = false, json = false,
       listPasses = false;
};

int runRequest(const Request &request) {
  if (request.listPasses) {
    for (const Pass &pass : allPasses()) fmt::print("{:<36}{}\n", pass.name, pass.meaning);
    return 0;
  }
  const std::vector<Pass> known = allPasses();
  std::vector<Pass> passes;
  for (const std::string &name : request.passes) passes.push_back(findPass(known, name));
  const Anchors anchors(request.keep.begin(), request.keep.end());
  IrPointer ir = readProgram(request.input);
  checkKept(*ir, anchors);
  if (request.verify) verify(*ir);
  for (const Pass &pass : passes) {
    pass.run(ir, anchors);
    if (request.verify) verify(*ir);
  }
  const bool onlyText =
      !(request.dot || request.schedule || request.memory || request.json || request.verify) && request.output.empty();
  if (request.print || request.summary || onlyText)
    std::cout << popart::print(*ir, request.summary ? PrintData::Summary : PrintData::Full);
  if (request.dot) std::cout << draw(*ir);
  if (request.schedule) std::cout << scheduleText(*ir);
  if (request.json) std::cout << serialiseJson(*ir) << "\n";
  if (!request.output.empty()) writeText(request.output, popart::print(*ir));
  if (request.memory) std::cout << memoryText(*ir);  // last: it adds the host's streams to the program
  std::cout.flush();
  check(std::cout.good(), "standard output: cannot be written");
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  CLI::App app("Runs compiler passes over a program and shows the result.", "popart-opt");
  Request request;
  auto *input = app.add_option("input", request.input, "IR text, '-' for standard input, or an ONNX file (*.onnx)");
  app.add_option("-p,--pass", request.passes, "pass to run; may be repeated, runs in the order given")
      ->expected(1)
      ->take_all();
  app.add_option("-k,--keep", request.keep, "tensor whose value passes must keep; may be repeated")
      ->expected(1)
      ->take_all();
  app.add_option("-o,--output", request.output, "write the program as IR text to this file");
  app.add_flag("--print", request.print, "print the program as IR text (the default)");
  app.add_flag("--summary", request.summary, "print the program with hashes in the place of large values");
  app.add_flag("--dot", request.dot, "print the graphs for Graphviz");
  app.add_flag("--schedule", request.schedule, "print the operators in execution order");
  app.add_flag("--memory", request.memory, "print the memory plan on the reference backend");
  app.add_flag("--json", request.json, "print the serialised IR");
  app.add_flag("--verify", request.verify,
               "check the program first and after each pass; prints nothing when it is legal");
  app.add_flag("--list-passes", request.listPasses, "name all passes and stop");
  app.footer("Exit codes: 0 done, 1 program or file refused, 2 wrong command line, 3 internal error.");
  try {
    app.parse(argc, argv);
    if (request.input.empty() && !request.listPasses) throw CLI::RequiredError(input->get_name());
  } catch (const CLI::ParseError &e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    return runRequest(request);
  } catch (const internal_error &e) {
    fmt::print(stderr, "popart-opt: internal error: {}\n", e.what());
    return 3;
  } catch (const error &e) {
    fmt::print(stderr, "popart-opt: {}\n", e.what());
    return 1;
  } catch (const std::exception &e) {
    fmt::print(stderr, "popart-opt: internal error: {}\n", e.what());
    return 3;
  }
}
