// popart-onnx-test: runs ONNX models on stored data and compares. Each folder holds model.onnx, input_<i>.pb and
// output_<i>.pb (TensorProto), as ONNX's own test suites do (also in a folder test_data_set_0), and optionally a file
// `tol` with relative and absolute tolerance. Prints one line per folder: PASS, DIFFERS, REFUSED (popart::error) or
// ERROR, and the reason.
#include <CLI/CLI.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include <popart/ir.hpp>

#include "backends/ref/ref.hpp"
#include "onnx/reader.hpp"
#include "pipeline/passes.hpp"
#include "runtime/engine.hpp"
#include "runtime/host_device.hpp"

namespace {
namespace fs = std::filesystem;
using popart::TensorData;

std::string readFile(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  popart::check(in.good(), "File '{}': cannot be read", path.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<TensorData> readTensors(const fs::path &folder, const std::string &kind) {
  std::vector<TensorData> tensors;
  for (int i = 0;; ++i) {
    const fs::path path = folder / (kind + "_" + std::to_string(i) + ".pb");
    if (!fs::exists(path)) return tensors;
    tensors.push_back(popart::onnx::parseTensor(readFile(path), path.string()));
  }
}

// Feeds stored inputs, one micro-batch, and keeps the outputs.
struct StoredStreams final : popart::runtime::StreamSource {
  std::vector<TensorData> inputs, outputs;
  const void *input(int stream, int64_t) override { return inputs.at(stream).data(); }
  void *output(int stream, int64_t) override { return outputs.at(stream).mutableData(); }
};

void addHostStreams(popart::Graph &graph) {
  for (popart::Tensor *stream : graph.tensorsOfType(popart::TensorType::Stream)) {
    const std::vector<popart::Use> uses = stream->uses();
    popart::Op *load = graph.addConnectedOp(popart::opDef("HostLoad"), {}, {graph.freeId(stream->id + "/loaded")},
                                            {{"stream", stream->id}}, popart::Op::Settings(graph));
    for (const popart::Use &use : uses) graph.replaceUse(use, load->outputs()[0]);
    graph.replaceOutputs(stream->index(), load->outputs()[0]);
  }
  int i = 0;
  for (popart::TensorIndex output : graph.outputs())
    graph.addConnectedOp(popart::opDef("HostStore"), {output}, {}, {{"stream", "output " + std::to_string(i++)}},
                         popart::Op::Settings(graph));
}

std::vector<TensorData> runModel(const fs::path &file, const std::vector<TensorData> &inputs,
                                 const popart::onnx::BuildOptions &base) {
  popart::onnx::BuildOptions options = base;
  const popart::onnx::Model model = popart::onnx::Model::load(file.string());
  const std::vector<std::string> inputIds = model.inputIds();
  popart::check(inputs.size() <= inputIds.size(), "Model '{}': more stored inputs than graph inputs", file.string());
  for (size_t i = 0; i < inputs.size(); ++i) options.inputShapeInfo[inputIds[i]] = inputs[i].info();
  popart::Ir ir;
  popart::onnx::buildGraph(model, options, ir);
  addHostStreams(ir.getMainGraph());
  popart::lower::LowerOptions lowering;
  lowering.backends = {&popart::ref::backend()};
  lowering.fuse = false;  // the reference backend has no fused kernels
  const auto executable = popart::pipeline::lower(ir, lowering);
  const popart::runtime::HostDevice host("host", {});
  popart::runtime::Engine engine(executable, host);
  StoredStreams streams;
  for (const auto &input : executable->inputs) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputIds[i] == input.id) streams.inputs.push_back(inputs[i]);
  }
  popart::check(streams.inputs.size() == executable->inputs.size(), "Model '{}': an input has no stored value",
                file.string());
  for (const auto &output : executable->outputs) streams.outputs.emplace_back(output.info);
  engine.run(streams);
  std::vector<TensorData> ordered(executable->outputs.size());
  for (size_t i = 0; i < ordered.size(); ++i)
    ordered.at(std::stoul(executable->outputs[i].id.substr(7))) = streams.outputs[i];
  return ordered;
}

std::string difference(const TensorData &got, const TensorData &expected, double relative, double absolute) {
  if (got.info() != expected.info()) return "got " + got.info().str() + ", expected " + expected.info().str();
  const std::vector<double> a = got.asDoubles(), b = expected.asDoubles();
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                      std::abs(a[i] - b[i]) <= absolute + relative * std::abs(b[i]);
    if (!same)
      return "element " + std::to_string(i) + ": got " + popart::toText(a[i]) + ", expected " + popart::toText(b[i]);
  }
  return {};
}

std::string testFolder(const fs::path &folder, const popart::onnx::BuildOptions &options) {
  const fs::path data = fs::exists(folder / "test_data_set_0") ? folder / "test_data_set_0" : folder;
  double relative = 1e-3, absolute = 1e-7;
  if (fs::exists(folder / "tol")) std::istringstream(readFile(folder / "tol")) >> relative >> absolute;
  try {
    const std::vector<TensorData> expected = readTensors(data, "output");
    const std::vector<TensorData> got = runModel(folder / "model.onnx", readTensors(data, "input"), options);
    if (got.size() < expected.size()) return "DIFFERS: too few outputs";
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::string text = difference(got[i], expected[i], relative, absolute);
      if (!text.empty()) return "DIFFERS: output " + std::to_string(i) + ": " + text;
    }
    return "PASS";
  } catch (const popart::internal_error &e) {
    return std::string("ERROR: ") + e.what();
  } catch (const popart::error &e) {
    return std::string("REFUSED: ") + e.what();
  } catch (const std::exception &e) {
    return std::string("ERROR: ") + e.what();
  }
}

}  // namespace

int main(int argc, char **argv) {
  CLI::App app{"Runs ONNX models on stored inputs and compares with stored outputs."};
  std::vector<std::string> folders;
  bool lenient = false;
  app.add_option("folders", folders, "Folders with model.onnx, input_<i>.pb, output_<i>.pb")->required();
  app.add_flag("--lenient", lenient, "Accept operator sets newer than this library");
  CLI11_PARSE(app, argc, argv);
  popart::onnx::BuildOptions options;
  options.weights = popart::onnx::WeightRole::Constant;
  options.versions = lenient ? popart::onnx::OpVersionRule::Lenient : popart::onnx::OpVersionRule::Strict;
  options.evaluate = popart::ref::evaluate;
  int failures = 0;
  for (const auto &folder : folders) {
    const std::string result = testFolder(folder, options);
    failures += result != "PASS";
    std::cout << fs::path(folder).filename().string() << " " << result << std::endl;
  }
  return failures == 0 ? 0 : 1;
}
