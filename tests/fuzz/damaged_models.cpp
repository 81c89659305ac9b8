// Thousands of mutations of a few models take the whole way of a model: reader, importer, verifier, text form, session,
// compilation for the CPU device, and, when their work is bounded, a run on arbitrary input. Each must be taken or
// refused with popart::error; nothing may crash, hang, allocate without bound, read outside the model's folder, or say
// that the fault is ours (internal_error).
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include <popart/devicemanager.hpp>
#include <popart/error.hpp>
#include <popart/ir.hpp>
#include <popart/opdef.hpp>
#include <popart/session.hpp>
#include <popart/sgd.hpp>
#include <popart/stepio.hpp>

#include "backends/ref/ref.hpp"
#include "fuzz.hpp"
#include "guard.hpp"
#include "models.hpp"
#include "mutate.hpp"
#include "onnx/importer.hpp"
#include "onnx/operator_table.hpp"
#include "onnx/reader.hpp"
#include "onnx_proto/onnx.pb.h"
#include "work.hpp"

namespace popart::fuzz {
namespace {

namespace fs = std::filesystem;

// How far a model came. `finding` is empty when all is well.
struct Outcome {
  enum Stage { Reader, Importer, Session, Compiler, TooLarge, Run, Done, kStages };
  Stage refusedBy = Done;
  bool training = false;
  std::string finding, refusal;
};
constexpr const char *kStageNames[] = {"reader", "importer", "session", "compiler", "(large)", "run", "done"};

constexpr double kMostCpuSeconds = 30;      // of one model, under sanitizers on a slow machine
constexpr unsigned kMostWallSeconds = 300;  // a hang
constexpr const char *kSecret = "../secret.bin";

// The folder that models' external data is looked for in, with traps around it. The current folder while it lives.
class ModelFolder {
 public:
  ModelFolder() : before_(fs::current_path()) {
    std::string pattern = (fs::temp_directory_path() / "popart-fuzz-XXXXXX").string();
    check(mkdtemp(pattern.data()) != nullptr, "Folder '{}': cannot be made", pattern);
    root_ = pattern;
    fs::create_directories(root_ / "models" / "folder");
    fs::current_path(root_ / "models");
    std::ofstream(kExternalFile, std::ios::binary) << externalFileContent();
    std::ofstream(kSecret, std::ios::binary) << std::string(256, 's');
    std::ofstream("empty.bin", std::ios::binary).flush();
    fs::create_symlink(kSecret, "link.bin");
    check(mkfifo("pipe", 0600) == 0, "Folder '{}': a pipe cannot be made in it", pattern);
  }
  ~ModelFolder() {
    std::error_code ignored;
    fs::current_path(before_, ignored);
    fs::remove_all(root_, ignored);
  }
  ModelFolder(const ModelFolder &) = delete;
  ModelFolder &operator=(const ModelFolder &) = delete;

 private:
  fs::path before_, root_;
};

// Whether values of the file outside the folder came into the model.
bool holdsSecret(const Ir &ir) {
  for (const Graph *graph : ir.getAllGraphs())
    for (const Tensor *tensor : graph->tensors()) {
      if (!tensor->hasTensorData() || tensor->tensorData().nbytes() < 16) continue;
      const std::string_view bytes(static_cast<const char *>(tensor->tensorData().data()), 16);
      if (bytes == std::string(16, 's')) return true;
    }
  return false;
}

// The same program when printed and read again.
bool survivesText(const Ir &ir) { return structurallyEqual(*parseIr(print(ir)), ir); }

// Arbitrary bytes for inputs, kept outputs: half of the models get numbers that no index may have.
class AnyData {
 public:
  AnyData(const popart::Session &session, uint64_t seed) : session_(session), random_(seed), wild_(seed % 2 == 0) {}

  void run(popart::Session &session) {
    StepIOCallback io([this](TensorId id, bool) { return input(id); }, [](TensorId) {},
                      [this](TensorId id) { return output(id); }, [](TensorId) {});
    session.run(io);
  }

 private:
  ConstVoidData input(const TensorId &id) {
    const TensorInfo info = session_.getInfo(id);
    std::vector<char> &bytes = buffers_[id];
    bytes.resize(static_cast<size_t>(info.nbytes()));
    const bool isBool = info.dataType() == DataType::BOOL;
    for (char &byte : bytes) byte = static_cast<char>(wild_ && !isBool ? random_() : random_() % 2);
    return {bytes.data(), info};
  }
  MutableVoidData output(const TensorId &id) {
    const TensorInfo info = session_.getInfo(id);
    std::vector<char> &bytes = buffers_[id];
    bytes.resize(static_cast<size_t>(info.nbytes()));
    return {bytes.data(), info};
  }

  const popart::Session &session_;
  Random random_;
  bool wild_;
  std::map<TensorId, std::vector<char>> buffers_;
};

std::vector<TensorId> distinctOutputs(const Graph &graph) {
  const std::vector<TensorId> ids = graph.getOutputIds();
  const std::set<TensorId> distinct(ids.begin(), ids.end());
  return {distinct.begin(), distinct.end()};
}

std::unique_ptr<popart::Session> makeSession(const std::string &bytes, const Graph &graph, bool training) {
  SessionOptions options;
  options.engineOptions["max_memory"] = "64M";
  const std::vector<TensorId> outputs = distinctOutputs(graph);
  const DataFlow flow(1, outputs);
  const auto device = DeviceManager::createDeviceManager().createCpuDevice();
  if (!training) return InferenceSession::createFromOnnxModel(bytes, flow, device, InputShapeInfo(), options);
  check(!outputs.empty(), "the model has no output to make a loss of");
  const LossObject loss{"L1", {outputs.front()}, "fuzz_loss", 0.5f, ReductionType::Sum};
  return TrainingSession::createFromOnnxModel(bytes, flow, std::vector<LossObject>{loss}, ConstSGD(0.01f), device,
                                              InputShapeInfo(), options);
}

// Walks all stages; `stage` says which one is at work when something is thrown.
void takeTheWay(const std::string &bytes, uint64_t seed, Outcome &outcome, Outcome::Stage &stage) {
  stage = Outcome::Reader;
  const onnx::Model model = onnx::Model::parse(bytes);
  stage = Outcome::Importer;
  onnx::BuildOptions build;
  build.evaluate = ref::evaluate;
  Ir ir;
  onnx::buildGraph(model, build, ir);
  verify(ir);
  if (holdsSecret(ir)) outcome.finding = "a file outside the model's folder was read";
  const bool bounded = work(ir.getMainGraph()) <= kMostWork;
  if (bounded && !survivesText(ir)) outcome.finding = "print and parse give another program";
  stage = Outcome::Session;
  outcome.training = seed % 4 == 0;
  const auto session = makeSession(bytes, ir.getMainGraph(), outcome.training);
  stage = Outcome::TooLarge;
  if (!bounded || work(session->getIr().getMainGraph()) > kMostWork) {
    outcome.refusedBy = Outcome::TooLarge;
    return;
  }
  stage = Outcome::Compiler;
  session->prepareDevice();
  if (outcome.training) session->weightsFromHost();
  stage = Outcome::Run;
  AnyData(*session, seed).run(*session);
}

double cpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Outcome outcomeOf(const std::string &bytes, uint64_t seed, const std::string &what) {
  Outcome outcome;
  Outcome::Stage stage = Outcome::Reader;
  const double start = cpuSeconds();
  Guarded guarded(what, bytes, kMostWallSeconds);
  try {
    takeTheWay(bytes, seed, outcome, stage);
  } catch (const internal_error &e) {
    outcome.finding = std::string(kStageNames[stage]) + ": internal_error: " + e.what();
  } catch (const error &e) {
    outcome.refusedBy = stage;
    outcome.refusal = e.what();
    if (std::string_view(e.what()).empty()) outcome.finding = "a refusal without a reason";
  } catch (const std::exception &e) {
    outcome.finding = std::string(kStageNames[stage]) + ": std::exception: " + e.what();
  }
  const double seconds = cpuSeconds() - start;
  if (outcome.finding.empty() && seconds > kMostCpuSeconds)
    outcome.finding = std::string(kStageNames[stage]) + " took " + toText(seconds) + " s";
  return outcome;
}

class Table {
 public:
  void count(const std::string &model, const Outcome &outcome) {
    std::vector<int64_t> &row = rows_[model];
    row.resize(Outcome::kStages);
    ++row[outcome.refusedBy];
    trained_ += outcome.training && outcome.refusedBy == Outcome::Done;
  }
  int64_t total(Outcome::Stage stage) const {
    int64_t sum = 0;
    for (const auto &entry : rows_) sum += entry.second[stage];
    return sum;
  }
  void print() const {
    const auto cell = [](const std::string &text) {
      std::cout << std::string(10 - std::min<size_t>(9, text.size()), ' ') << text;
    };
    std::cout << "refused by ";
    for (const char *name : kStageNames) cell(name);
    for (const auto &[model, row] : rows_) {
      std::cout << "\n" << model << std::string(12 - std::min<size_t>(11, model.size()), ' ');
      for (int64_t n : row) cell(std::to_string(n));
    }
    std::cout << "\nall        ";
    for (int stage = 0; stage < Outcome::kStages; ++stage) cell(std::to_string(total(Outcome::Stage(stage))));
    std::cout << "\n(" << trained_ << " of those done ran a training step)" << std::endl;
  }

 private:
  std::map<std::string, std::vector<int64_t>> rows_;
  int64_t trained_ = 0;
};

using Operators = std::set<std::pair<std::string, std::string>>;  // domain and type

void addOperators(const onnx_proto::GraphProto &graph, Operators &to) {
  for (const auto &node : graph.node()) {
    to.emplace(node.domain().empty() ? "ai.onnx" : node.domain(), node.op_type());
    for (const auto &attribute : node.attribute())
      if (attribute.has_g()) addOperators(attribute.g(), to);
  }
}

// Operators of ONNX and those with rules of their own that the importer knows and no model has.
int64_t missingOperators(const std::vector<SmallModel> &models) {
  Operators drawn, known;
  for (const SmallModel &model : models) {
    onnx_proto::ModelProto message;
    check(message.ParseFromString(model.bytes), "model '{}' cannot be read", model.name);
    addOperators(message.graph(), drawn);
  }
  for (const auto &[name, rule] : onnx::importRules()) known.insert(name);
  const int64_t newest = onnx::newestOnnxOpset();
  for (const auto &op : onnx::onnxOperators(newest))
    if (findOnnxOp("ai.onnx", op.type, static_cast<OpVersion>(newest))) known.emplace("ai.onnx", op.type);
  int64_t findings = 0;
  for (const auto &[domain, type] : known) {
    if (drawn.contains({domain, type})) continue;
    ++findings;
    std::cout << "FINDING: no model has operator " << domain << "." << type << std::endl;
  }
  return findings;
}

int64_t undamagedModels(const std::vector<SmallModel> &models) {
  int64_t findings = 0;
  for (const SmallModel &model : models) {
    const Outcome outcome = outcomeOf(model.bytes, 1, "the undamaged model " + model.name);
    if (outcome.finding.empty() && outcome.refusedBy == Outcome::Done) continue;
    ++findings;
    std::cout << "FINDING: undamaged model " << model.name << " stopped at " << kStageNames[outcome.refusedBy] << ": "
              << outcome.finding << outcome.refusal << std::endl;
  }
  return findings;
}

}  // namespace

int64_t damagedModels(const Settings &settings) {
  const std::vector<SmallModel> models = smallModels();
  const ModelFolder folder;
  int64_t findings = missingOperators(models) + undamagedModels(models);
  const auto start = std::chrono::steady_clock::now();
  Table table;
  for (int64_t i = settings.first; i < settings.first + settings.runs; ++i) {
    const auto seed = static_cast<uint64_t>(settings.seed) * 1'000'003 + static_cast<uint64_t>(i);
    Random random(seed);
    const SmallModel &model = models[static_cast<size_t>(below(random, static_cast<int64_t>(models.size())))];
    const SmallModel &other = models[static_cast<size_t>(below(random, static_cast<int64_t>(models.size())))];
    const std::string bytes = damaged(model.bytes, other.bytes, random);
    const std::string what = "damaged model " + std::to_string(i) + " of seed " + std::to_string(settings.seed) +
                             " (made from " + model.name + ")";
    const Outcome outcome = outcomeOf(bytes, seed, what);
    table.count(model.name, outcome);
    if (!outcome.finding.empty()) {
      ++findings;
      keepInput(bytes);
      std::cout << "FINDING: " << what << ": " << outcome.finding << std::endl;
    }
    const int64_t done = i - settings.first + 1;
    if (done % std::max<int64_t>(1, settings.runs / 10) == 0)
      std::cout << "damaged models: " << done << " of " << settings.runs << ", "
                << std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start).count()
                << " s" << std::endl;
  }
  table.print();
  // The mutations must reach every depth, or they test nothing.
  for (Outcome::Stage stage : {Outcome::Reader, Outcome::Importer, Outcome::Done})
    if (settings.runs >= 500 && table.total(stage) < settings.runs / 50) {
      ++findings;
      std::cout << "FINDING: too few models reach '" << kStageNames[stage] << "'" << std::endl;
    }
  return findings;
}

}  // namespace popart::fuzz
