// Damaged IR text. The texts are programs with every gradient op that autodiff emits, what lowering makes of them, and
// an optimizer step. Each goes the way of a text: parser, verifier, print and parse, compilation for the reference
// alone and for the CPU backend, and a run on arbitrary values when its work is bounded. It must be taken or refused
// with popart::error, as damaged models are.
#include <iostream>
#include <map>
#include <regex>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "../unit/support/any_run.hpp"
#include "../unit/support/gradient_cases.hpp"
#include "autodiff/autodiff.hpp"
#include "fuzz.hpp"
#include "guard.hpp"
#include "lower/decompose.hpp"
#include "lower/flatten.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/fuse_epilogue.hpp"
#include "mutate_text.hpp"
#include "work.hpp"

namespace popart::fuzz {
namespace {

constexpr unsigned kMostWallSeconds = 120;  // a hang

// Updates, accumulators, tensors from nowhere: what programs hold that optimizers and PopXL make.
constexpr const char *kOptimizerStep = R"(main {
  variable %w : float32[3, 4] = 1
  variable %m : float32[3, 4] = 0
  variable %v : float32[3, 4] = 0
  variable %t : float32[] = 0
  stream %g : float32[3, 4]
  stream %rows : int64[2]
  stream %part : float32[2, 4]
  stream %rate : float32[]
  %m1 = Accumulate(%m, %g, %rate) {accumulation_type = "MovingAverage"}
  %v1 = Accumulate(%v, %g, %rate) {accumulation_type = "MovingAverageSquare"}
  %x, %t1 = AdamUpdater(%w, %m1, %v1, %t) {beta1 = 0.9f, beta2 = 0.99f, epsilon = 0.001f, mode = "Adam"}
  %r1 = LambSquare(%w)
  %r2 = LambSquare(%x)
  %w1 = AdamVarUpdate(%w, %x, %r1, %r2, %rate)
  %n = SGD1Nesterov(%g, %w1, %m1) {ils = 1f, mm = 0.5f, ngsf = 1f, wd = 0f}
  %u = RMSPropUpdater(%g, %v1) {epsilon = 0.001f}
  %w2 = ScaledVarUpdate(%w1, %u, %rate)
  %w3 = SGD0VarUpdate(%w2, %n) {slr0 = 0.1f, wdsf0 = 1f}
  %a = PopartSparseAccumulate(%v1, %part, %rows, %rate)
  %z = AccumulatorScale(%a) {factor = 0f}
  %i = Init() {dtype = 1, shape = [3, 4]}
  %d = DynamicUpdate(%i, %rows, %part) {axes = [0, 1], sizes = [2, 4]}
  %s = DynamicSlice(%d, %rows) {axes = [0, 1], sizes = [1, 4]}
  %p = SliceUpdate(%d, %s) {axes = [0], ends = [2], starts = [1]}
  %c = CopyVarUpdate(%w3, %p)
  %o = ReplicatedReduceScatter(%c)
  %q = ReplicatedAllGather(%o) {shape = [3, 4]}
  return %q, %z
}
)";

// The text without the types of results, which the parser infers.
std::string withoutResultTypes(const std::string &text) {
  static const std::regex kType(" : [a-z0-9]+\\[[^\\]]*\\]");
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) + 1;
    std::string line = text.substr(at, end - at);
    const size_t equals = line.find(" = ");
    if (line.rfind("  %", 0) == 0 && equals != std::string::npos)
      line = std::regex_replace(line.substr(0, equals), kType, "") + line.substr(equals);
    out += line;
    at = end;
  }
  return out;
}

std::string fused(const Ir &program) {
  const std::unique_ptr<Ir> flat = lower::flatten(program);
  lower::simplify(*flat);
  lower::decompose(*flat, cpu::backend());
  lower::fuseElementwise(*flat, cpu::backend());
  lower::fuseEpilogues(*flat, cpu::backend());
  return print(*flat);
}

// A network that every kind of fusion finds something in.
constexpr const char *kNetwork = R"(main {
  variable %k : float32[4, 3, 3, 3] = 0.1
  variable %w : float32[64, 5] = 0.1
  variable %b : float32[5] = 0
  stream %x : float32[2, 3, 6, 6]
  %c = Conv(%x, %k)
  %r = Relu(%c)
  %f = Reshape(%r) {shape = [2, 64]}
  %m = MatMul(%f, %w)
  %a = Add(%m, %b)
  %g = GeluErf(%a)
  %s = Mul(%g, %g)
  %e = Exp(%s)
  %loss = ReduceSum(%e) {keepdims = 0}
}
)";

std::unique_ptr<Ir> trainingStep() {
  std::unique_ptr<Ir> ir = parseIr(kNetwork);
  Graph &graph = ir->getMainGraph();
  const TensorIndex one = graph.addConstant("one", TensorData::scalar(1.0f));
  for (const auto &[weight, gradient] : autodiff::growBackward(graph, "loss", one, {"k", "w", "b"}))
    graph.addConnectedOp(opDef("SGD0VarUpdate"), {graph.find(weight), graph.find(gradient)}, {weight + "/updated"},
                         {{"slr0", 0.1f}, {"wdsf0", 1.0f}}, Op::Settings(graph, weight));
  graph.markOutput(graph.find("loss"));
  return ir;
}

std::vector<std::string> programTexts() {
  std::vector<std::string> texts;
  for (int i = 0; i < 12; ++i) {
    texts.emplace_back(kOptimizerStep);
    texts.push_back(withoutResultTypes(print(*trainingStep())));
    texts.push_back(withoutResultTypes(fused(*trainingStep())));
  }
  for (const test::GradientCase &c : test::gradientCases()) {
    const std::unique_ptr<Ir> ir = test::gradientProgram(c);
    texts.push_back(withoutResultTypes(print(*ir)));
  }
  return texts;
}

enum Stage { Parser, Compiler, TooLarge, Done, kStages };
constexpr const char *kStageNames[] = {"parser", "compiler", "(large)", "done"};

// Walks all stages; `stage` says which one is at work when something is thrown. Returns what is wrong.
std::string takeTheWay(const std::string &text, uint64_t seed, Stage &stage) {
  stage = Parser;
  const std::unique_ptr<Ir> ir = parseIr(text);
  verify(*ir);
  if (!structurallyEqual(*parseIr(print(*ir)), *ir)) return "print and parse give another program";
  stage = TooLarge;
  if (work(ir->getMainGraph()) > kMostWork) return {};
  stage = Compiler;
  Graph &main = ir->getMainGraph();
  test::addHostIo(main, main.outputs());
  test::runOnBothBackends(*ir, seed);
  stage = Done;
  return {};
}

std::string findingOf(const std::string &text, uint64_t seed, const std::string &what, Stage &stage) {
  Guarded guarded(what, text, kMostWallSeconds);
  try {
    return takeTheWay(text, seed, stage);
  } catch (const internal_error &e) {
    return std::string(kStageNames[stage]) + ": internal_error: " + e.what();
  } catch (const error &e) {
    return std::string_view(e.what()).empty() ? "a refusal without a reason" : "";
  } catch (const std::exception &e) {
    return std::string(kStageNames[stage]) + ": std::exception: " + e.what();
  }
}

// Programs run to the end, lowered ones are refused by the compiler alone.
int64_t undamagedTexts(const std::vector<std::string> &texts) {
  int64_t findings = 0;
  for (const std::string &text : texts) {
    Stage stage = Parser;
    std::string finding = findingOf(text, 1, "an undamaged text", stage);
    const Stage expected = text.find("Fused") == std::string::npos ? Done : Compiler;
    if (finding.empty() && stage != expected) finding = std::string("it stopped at ") + kStageNames[stage];
    if (finding.empty()) continue;
    ++findings;
    std::cout << "FINDING: undamaged text: " << finding << "\n" << text << std::endl;
  }
  return findings;
}

}  // namespace

int64_t damagedTexts(const Settings &settings) {
  const std::vector<std::string> texts = programTexts();
  int64_t findings = undamagedTexts(texts);
  std::map<Stage, int64_t> stages;
  for (int64_t i = settings.first; i < settings.first + settings.texts; ++i) {
    const auto seed = static_cast<uint64_t>(settings.seed) * 2'000'029 + static_cast<uint64_t>(i);
    Random random(seed);
    const std::string &source = texts[static_cast<size_t>(below(random, static_cast<int64_t>(texts.size())))];
    const std::string text = damagedText(source, random);
    const std::string what = "damaged text " + std::to_string(i) + " of seed " + std::to_string(settings.seed);
    Stage stage = Parser;
    const std::string finding = findingOf(text, seed, what, stage);
    ++stages[stage];
    if (finding.empty()) continue;
    ++findings;
    keepInput(text);
    std::cout << "FINDING: " << what << " (texts --seed " << settings.seed << " --first " << i
              << " --texts 1): " << finding << std::endl;
  }
  std::cout << "damaged texts: " << settings.texts << ", refused by parser " << stages[Parser] << ", compiler "
            << stages[Compiler] << "; too large " << stages[TooLarge] << "; done " << stages[Done] << std::endl;
  // The mutations must reach every depth, or they test nothing.
  for (Stage stage : {Parser, Done})
    if (settings.texts >= 300 && stages[stage] < settings.texts / 20) {
      ++findings;
      std::cout << "FINDING: too few texts reach '" << kStageNames[stage] << "'" << std::endl;
    }
  return findings;
}

}  // namespace popart::fuzz
