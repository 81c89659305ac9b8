// Passes that are switched off by name, those of a device among them, and what a pass that fails leaves behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "../support/message_of.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/ref/ref.hpp"
#include "pipeline/passes.hpp"
#include "pipeline/passes_off.hpp"

namespace popart {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;
using StringMap = std::map<std::string, std::string>;

constexpr const char *kProgram = R"(main {
  stream %x : float32[8, 48]
  variable %w : float32[48, 32] = 0.5
  %a = HostLoad() {stream = "x"}
  %y = MatMul(%a, %w)
  %z = Relu(%y)
  HostStore(%z) {stream = "z"}
})";

// A variable of the environment for the length of a test.
class Environment {
 public:
  Environment(const char *name, const std::string &value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment &) = delete;
  Environment &operator=(const Environment &) = delete;

 private:
  const char *name_;
};

// The CPU's kernels, and a pass that fails as the test says.
class FailingBackend final : public executable::Backend {
 public:
  std::string name() const override { return "failing"; }
  std::span<const executable::BackendPass> passes() const override {
    static constexpr executable::BackendPass kPasses[] = {
        {"renameRelu", "change the program", [](Ir &ir, const executable::Backend &, int) { rename(ir); }},
        {"failAlways", "change the program and fail", [](Ir &ir, const executable::Backend &, int) {
           rename(ir);
           throw internal_error("the pass is wrong");
         }}};
    return kPasses;
  }
  std::shared_ptr<const executable::Kernel> createKernel(const executable::KernelRequest &request,
                                                         std::string &reason) const override {
    return cpu::backend().createKernel(request, reason);
  }
  bool supports(const Op &op, std::string &reason) const override { return cpu::backend().supports(op, reason); }

 private:
  static void rename(Ir &ir) {
    for (Op *op : ir.getMainGraph().ops()) op->settings.name += "!";
  }
};

lower::LowerOptions optionsFor(const executable::Backend &backend, const Names &off = {}) {
  lower::LowerOptions options;
  options.backends = {&backend, &ref::backend()};
  options.evaluate = ref::evaluate;
  options.passesOff = off;
  return options;
}

std::string lowered(const lower::LowerOptions &options) {
  const lower::Backends backends = lower::remember(options);
  return lower::print(pipeline::lowerProgram(*parseIr(kProgram), options, backends));
}

std::string nameOf(const pipeline::Pass &pass) { return pass.name; }

TEST(PassesOff, PassesOfADeviceRunBeforeConstantsArePacked) {
  const std::vector<pipeline::Pass> passes = pipeline::passesOf(&cpu::backend());
  std::vector<std::string> last;
  for (const pipeline::Pass &pass : passes)
    if (pass.phase == pipeline::Phase::Device) last.push_back(nameOf(pass));
  EXPECT_EQ(last, (std::vector<std::string>{"chainDepthFirst", "packConstants"}));
  EXPECT_EQ(pipeline::passesOf(nullptr).size() + 1, passes.size());
}

TEST(PassesOff, APassThatIsOffDoesNotRun) {
  const std::string all = lowered(optionsFor(cpu::backend()));
  EXPECT_NE(all.find("packed"), std::string::npos);
  const std::string without = lowered(optionsFor(cpu::backend(), {"assignLayouts"}));
  EXPECT_EQ(without.find("packed"), std::string::npos);
  EXPECT_NE(without.find("FusedMatMul"), std::string::npos);
  const FailingBackend failing;
  EXPECT_NE(lowered(optionsFor(failing, {"failAlways"})).find("!"), std::string::npos);
  EXPECT_EQ(lowered(optionsFor(failing, {"failAlways", "renameRelu"})).find("!"), std::string::npos);
}

TEST(PassesOff, NamesComeFromTheOptionAndElseFromTheEnvironment) {
  const executable::Backend &device = cpu::backend();
  EXPECT_EQ(pipeline::passesOff(StringMap{}, device), Names());
  const Environment variable("POPART_DISABLE_PASSES", " prune, chainDepthFirst,");
  EXPECT_EQ(pipeline::passesOff(StringMap{}, device), (Names{"chainDepthFirst", "prune"}));
  EXPECT_EQ(pipeline::passesOff(StringMap{{"disable_passes", "simplify"}}, device), Names{"simplify"});
  EXPECT_EQ(pipeline::passesOff(StringMap{{"disable_passes", ""}}, device), Names());
}

TEST(PassesOff, UnknownAndNeededPassesAreRefused) {
  const executable::Backend &device = cpu::backend();
  const auto refusal = [&](const std::string &name) {
    return test::messageOf([&] { pipeline::passesOff(StringMap{{"disable_passes", name}}, device); });
  };
  const std::string unknown = refusal("fuseEpilogue");
  EXPECT_TRUE(
      unknown.starts_with("engineOptions: bad disable_passes: there is no pass 'fuseEpilogue'. Nearest names: "
                          "fuseEpilogues"))
      << unknown;
  EXPECT_TRUE(unknown.ends_with(". popart-opt --list-passes names all")) << unknown;
  EXPECT_EQ(refusal("flatten"),
            "engineOptions: bad disable_passes: pass 'flatten' cannot be switched off: kernels exist only for flat "
            "functional programs. Leave it out");
  const Environment variable("POPART_DISABLE_PASSES", "flatten");
  EXPECT_TRUE(test::messageOf([&] {
                pipeline::passesOff(StringMap{}, device);
              }).starts_with("environment variable POPART_DISABLE_PASSES: pass 'flatten' cannot be"));
}

// What a lowering that fails throws and leaves in the folder of POPART_PASS_DUMP: text of the file named as given.
std::string textOf(const fs::path &folder, const std::string &ending) {
  for (const auto &entry : fs::directory_iterator(folder))
    if (entry.path().string().ends_with(ending)) {
      std::ifstream file(entry.path());
      return std::string(std::istreambuf_iterator<char>(file), {});
    }
  return "no file " + ending;
}

std::vector<std::string> sortedLines(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::ranges::sort(lines);
  return lines;
}

TEST(PassesOff, TheProgramBeforeAPassThatFailsIsWritten) {
  const FailingBackend failing;
  const fs::path folder = fs::temp_directory_path() / "popart_failing_pass";
  fs::remove_all(folder);
  const std::string hint = "the pass is wrong: while pass 'failAlways' ran. ";
  EXPECT_EQ(test::messageOf([&] { lowered(optionsFor(failing)); }),
            hint + "Set POPART_PASS_DUMP to a folder to get the program before it");
  {
    const Environment variable("POPART_PASS_DUMP", folder.string());
    const std::string message = test::messageOf([&] { lowered(optionsFor(failing)); });
    EXPECT_TRUE(message.starts_with(hint + "The program before it is in '" + folder.string())) << message;
  }
  const std::string before = textOf(folder, "-before-failAlways.ir");
  EXPECT_EQ(before.find("!!"), std::string::npos);  // what the pass did before it failed
  EXPECT_EQ(print(*parseIr(before)), before);
  // A text is printed in the order of its lines when it is read, a program in the order in which it runs.
  EXPECT_EQ(sortedLines(print(*parseIr(before), PrintData::Summary)), sortedLines(textOf(folder, "-renameRelu.ir")));
  fs::remove_all(folder);
}

TEST(PassesOff, AnErrorOfTheProgramKeepsItsText) {
  const auto ir = parseIr(kProgram);
  const lower::LowerOptions options = optionsFor(cpu::backend());
  const lower::Backends backends = lower::remember(options);
  const lower::Program program = pipeline::lowerProgram(*ir, options, backends);
  const std::string again = test::messageOf([&] { pipeline::lowerProgram(*program.ir, options, backends); });
  EXPECT_TRUE(again.ends_with("Give the program before lowering")) << again;
}

}  // namespace
}  // namespace popart
