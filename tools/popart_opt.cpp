// popart-opt: reads a program (IR text or ONNX), runs named passes over it, and prints, draws, checks or plans the
// result. Exit codes: 0 done, 1 the program or a file was refused, 2 wrong command line, 3 an internal error.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <span>

#include <fmt/format.h>
#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "backends/ref/ref.hpp"
#include "base/nearest.hpp"
#include "lower/decompose.hpp"
#include "lower/flatten.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/fuse_epilogue.hpp"
#include "lower/lower.hpp"
#include "onnx/reader.hpp"
#include "transforms/constant_folding.hpp"

namespace {

using namespace popart;
using IrPointer = std::unique_ptr<Ir>;

// ---- passes
// --------------------------------------------------------------------------------------------------------------

struct Pass {
  const char *name;
  const char *meaning;
  void (*run)(IrPointer &ir);
};

void foldAll(IrPointer &ir) {
  for (Graph *g : ir->getAllGraphs()) transforms::foldConstants(*g, ref::evaluate);
}

const Pass kPasses[] = {
    {"foldConstants", "compute what depends on constants and shapes only", foldAll},
    {"flatten", "inline calls, replace in-place operators by functional ones",
     [](IrPointer &ir) { ir = lower::flatten(*ir); }},
    {"simplify", "remove what computes nothing (flat programs)", [](IrPointer &ir) { lower::simplify(*ir); }},
    {"decompose", "expand operators without a reference kernel (flat programs)",
     [](IrPointer &ir) { lower::decompose(*ir, ref::backend()); }},
    {"fuseElementwise", "cluster element-wise operators (flat programs)",
     [](IrPointer &ir) { lower::fuseElementwise(*ir, ref::backend()); }},
    {"fuseEpilogues", "let products absorb transposes and element-wise operators (flat programs)",
     [](IrPointer &ir) { lower::fuseEpilogues(*ir, ref::backend()); }},
};

const Pass &findPass(const std::string &name) {
  std::vector<std::string> known;
  for (const Pass &pass : kPasses) {
    if (pass.name == name) return pass;
    known.push_back(pass.name);
  }
  throw error("pass '{}' does not exist. Nearest names: {}; --list-passes names all", name, nearest(name, known));
}

// ---- files
// ---------------------------------------------------------------------------------------------------------------

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

// ---- views
// ---------------------------------------------------------------------------------------------------------------

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

// Plan of the program on the reference backend: every buffer of the arena, and the totals.
std::string memoryText(const Ir &ir) {
  lower::LowerOptions options;
  options.backends = {&ref::backend()};
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

// ---- command line
// --------------------------------------------------------------------------------------------------------

struct Request {
  std::string input;
  std::vector<std::string> passes;
  std::string output;
  bool print = false, summary = false, dot = false, schedule = false, memory = false, verify = false, json = false,
       listPasses = false;
};

int runRequest(const Request &request) {
  if (request.listPasses) {
    for (const Pass &pass : kPasses) fmt::print("{:<18}{}\n", pass.name, pass.meaning);
    return 0;
  }
  std::vector<const Pass *> passes;
  for (const std::string &name : request.passes) passes.push_back(&findPass(name));
  IrPointer ir = readProgram(request.input);
  if (request.verify) verify(*ir);
  for (const Pass *pass : passes) {
    pass->run(ir);
    if (request.verify) verify(*ir);
  }
  const bool onlyText =
      !(request.dot || request.schedule || request.memory || request.json || request.verify) && request.output.empty();
  if (request.print || request.summary || onlyText)
    std::cout << popart::print(*ir, request.summary ? PrintData::Summary : PrintData::Full);
  if (request.dot) std::cout << draw(*ir);
  if (request.schedule) std::cout << scheduleText(*ir);
  if (request.memory) std::cout << memoryText(*ir);
  if (request.json) std::cout << serialiseJson(*ir) << "\n";
  if (!request.output.empty()) writeText(request.output, popart::print(*ir));
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
