// Parts of concatenations that are written in place: the bits of copied parts with every number of threads, the numbers
// of the reference backend, no copies where there are kernels for rows with gaps, and no more memory.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "../support/random_floats.hpp"
#include "../support/random_streams.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/ref/ref.hpp"
#include "lower/program.hpp"
#include "pipeline/passes.hpp"
#include "runtime/engine.hpp"
#include "support/host.hpp"

namespace popart {
namespace {

using Values = std::map<std::string, std::vector<float>>;  // by stream

enum class Parts { InPlace, Copied };

lower::LowerOptions optionsOf(Parts parts, int threads) {
  lower::LowerOptions options;
  options.backends = {&cpu::backend(), &ref::backend()};
  options.threads = threads;
  if (parts == Parts::Copied) options.passesOff = {"joinInPlace"};
  return options;
}

Values valuesOf(std::shared_ptr<const executable::Executable> executable, int threads) {
  runtime::Engine engine(executable, test::host(), {threads, runtime::WakePolicy::Always});
  test::RandomStreams streams(*executable);
  engine.run(streams);
  engine.run(streams);  // what another run left in the arena changes nothing
  return streams.outputs;
}

// What a program copies, how many tensors are slices, and its text.
struct Found {
  int copies = 0, slices = 0;
  std::string text;
};

int countOf(const std::string &text, const std::string &what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

int copiesOf(const executable::Program &program) {
  int n = 0;
  for (const executable::Step &step : program.steps) {
    n += step.kernel && step.kernel->name() == "concat channels";
    for (const auto &inner : step.programs) n += copiesOf(*inner);
  }
  return n;
}

// Runs the program with parts in place and copied, and on the reference backend.
Found check(const std::string &text) {
  const auto ir = parseIr(text);
  lower::LowerOptions reference;
  reference.backends = {&ref::backend()};
  const Values numbers = valuesOf(pipeline::lower(*ir, reference), 1);
  Found found;
  for (const int threads : {1, 3}) {
    const lower::LowerOptions options = optionsOf(Parts::InPlace, threads);
    const lower::Backends backends = lower::remember(options);
    const lower::Program program = pipeline::lowerProgram(*ir, options, backends);
    found.text = lower::print(program);
    const lower::Compiled compiled = lower::compileInSteps(program, options, backends);
    memory::verify(compiled.plan);
    const auto copied = pipeline::lower(*ir, optionsOf(Parts::Copied, threads));
    const Values got = valuesOf(compiled.executable, threads);
    EXPECT_EQ(got, valuesOf(copied, threads)) << threads << " threads";
    EXPECT_EQ(got, valuesOf(lower::compile(lower::parseProgram(found.text), options), threads)) << "read from its text";
    EXPECT_LE(compiled.executable->arenaBytes, copied->arenaBytes);
    found.copies = copiesOf(compiled.executable->main);
    for (const auto &[id, values] : numbers)
      for (size_t i = 0; i < values.size(); ++i) {
        const float value = got.at(id)[i];
        if (std::abs(value - values[i]) <= 1e-4f * (1 + std::abs(values[i]))) continue;
        ADD_FAILURE() << id << "[" << i << "]: got " << value << ", expected " << values[i];
        break;
      }
  }
  found.slices = countOf(found.text, "channels_last_of");
  return found;
}

std::string weights(const std::string &id, const Shape &shape, unsigned seed) {
  std::string list;
  for (const float v : test::randomFloats(elementCount(shape), seed))
    list += (list.empty() ? "" : ", ") + std::to_string(v / 4);
  return "  const %" + id + " : float32" + toText(shape) + " = [" + list + "]\n";
}

std::string host(const std::string &shape, const std::string &constants, const std::string &body) {
  return "main {\n  stream %in : float32[" + shape + "]\n" + constants + "  %x = HostLoad() {stream = \"in\"}\n" +
         body + "  HostStore(%y) {stream = \"out\"}\n}";
}

const std::string kSame = " {pads = [1, 1, 1, 1]}\n";

TEST(JoinInPlace, convolutions_write_where_they_are_joined) {
  const Found found = check(host("2, 3, 9, 7",
                                 weights("v", {20, 3, 3, 3}, 1) + weights("w", {36, 3, 1, 1}, 2) +
                                     weights("u", {5, 56, 3, 3}, 3) + weights("b", {20}, 4),
                                 "  %a = Conv(%x, %v, %b)" + kSame + "  %r = Relu(%a)\n  %c = Conv(%x, %w)\n" +
                                     "  %j = Concat(%r, %c) {axis = 1}\n  %y = Conv(%j, %u)" + kSame));
  EXPECT_EQ(found.copies, 0);
  EXPECT_EQ(found.slices, 2) << found.text;
  EXPECT_NE(found.text.find("channels_last_of56"), std::string::npos) << found.text;
}

TEST(JoinInPlace, other_readers_of_a_part_read_rows_with_gaps) {
  const Found found = check(host(
      "1, 4, 8, 8",
      weights("v", {24, 4, 3, 3}, 1) + weights("w", {16, 24, 1, 1}, 2) + weights("z", {40, 24, 3, 3}, 5) +
          weights("g", {24, 12, 3, 3}, 6) + weights("s", {1, 24, 1, 1}, 7) + weights("u", {4, 40, 1, 1}, 3),
      "  %a = Conv(%x, %v)" + kSame + "  %b = Conv(%a, %w)\n  %j = Concat(%a, %b) {axis = 1}\n" +
          "  %m = MaxPool(%a) {kernel_shape = [2, 2], strides = [2, 2]}\n" +
          "  %n = AveragePool(%a) {kernel_shape = [2, 2], strides = [2, 2]}\n  %c = Conv(%a, %z)" + kSame +
          "  %d = Conv(%a, %g) {group = 2, pads = [1, 1, 1, 1]}\n  %e = Mul(%a, %s)\n  %f = Relu(%e)\n" +
          "  %h = Conv(%f, %w)\n  %k = Conv(%j, %u)\n" +
          "  HostStore(%m) {stream = \"m\"}\n  HostStore(%n) {stream = \"n\"}\n  HostStore(%c) {stream = \"c\"}\n" +
          "  HostStore(%d) {stream = \"d\"}\n  HostStore(%h) {stream = \"h\"}\n  %y = Add(%k, %x)\n"));
  EXPECT_EQ(found.copies, 0) << found.text;
  EXPECT_EQ(found.slices, 2) << found.text;
}

// A block in which each layer reads all that were made before.
std::string dense(int layers, bool isFlat, bool newFirst) {
  std::string constants = weights("w", {12, 3, 3, 3}, 9), body = "  %f0 = Conv(%x, %w)" + kSame, all = "%f0",
              last = "%f0";
  for (int i = 1; i <= layers; ++i) {
    const std::string n = std::to_string(i);
    const int channels = 12 + 8 * (i - 1);
    constants += weights("s" + n, {1, channels, 1, 1}, 10 * i) + weights("v" + n, {16, channels, 1, 1}, 10 * i + 1) +
                 weights("w" + n, {8, 16, 3, 3}, 10 * i + 2);
    body += "  %a" + n + " = Mul(" + last + ", %s" + n + ")\n  %r" + n + " = Relu(%a" + n + ")\n  %c" + n +
            " = Conv(%r" + n + ", %v" + n + ")\n  %n" + n + " = Relu(%c" + n + ")\n  %f" + n + " = Conv(%n" + n +
            ", %w" + n + ")" + kSame;
    const std::string before = isFlat ? all : last, made = "%f" + n;
    all = newFirst ? made + ", " + all : all + ", " + made;
    body += "  %j" + n + " = Concat(" + (newFirst ? made + ", " + before : before + ", " + made) + ") {axis = 1}\n";
    last = "%j" + n;
  }
  constants += weights("u", {4, 12 + 8 * layers, 1, 1}, 8);
  return host("2, 3, 8, 6", constants, body + "  %y = Conv(" + last + ", %u)\n");
}

TEST(JoinInPlace, dense_blocks_have_one_memory) {
  for (const bool isFlat : {false, true})
    for (const bool newFirst : {false, true}) {
      const Found found = check(dense(4, isFlat, newFirst));
      EXPECT_EQ(found.copies, 0) << found.text;
      EXPECT_EQ(found.slices, countOf(found.text, "channels_last_of44")) << found.text;
      EXPECT_EQ(found.slices, 8) << "five layers and three inner results:\n" << found.text;
    }
}

TEST(JoinInPlace, parts_without_a_kernel_are_copied) {
  // Depthwise convolutions and element-wise operators write no rows with gaps.
  const Found found = check(host(
      "1, 16, 6, 6", weights("v", {16, 1, 3, 3}, 1) + weights("w", {8, 16, 3, 3}, 2) + weights("u", {4, 40, 3, 3}, 3),
      "  %d = Conv(%x, %v) {group = 16, pads = [1, 1, 1, 1]}\n  %e = Add(%d, %x)\n  %a = Conv(%e, %w)" + kSame +
          "  %j = Concat(%a, %d, %e) {axis = 1}\n  %y = Conv(%j, %u)" + kSame));
  EXPECT_EQ(found.copies, 1);
  EXPECT_EQ(found.slices, 1) << found.text;
}

// The same part twice, a constant, and a part of two results.
TEST(JoinInPlace, what_is_needed_elsewhere_is_copied) {
  const std::string constants = weights("v", {8, 4, 3, 3}, 1) + weights("w", {8, 8, 1, 1}, 2) +
                                weights("k", {1, 8, 6, 6}, 4) + weights("u", {4, 40, 3, 3}, 3) +
                                weights("t", {4, 16, 3, 3}, 5);
  const Found found =
      check(host("1, 4, 6, 6", constants,
                 "  %a = Conv(%x, %v)" + kSame + "  %c = Conv(%a, %w)\n  %b = Conv(%c, %w)\n" +
                     "  %j = Concat(%a, %a, %k, %b, %c) {axis = 1}\n  %g = Conv(%j, %u)" + kSame +
                     "  %i = Concat(%c, %a) {axis = 1}\n  %h = Conv(%i, %t)" + kSame + "  %y = Add(%g, %h)\n"));
  EXPECT_EQ(found.copies, 2) << found.text;
  EXPECT_EQ(found.slices, 1) << found.text;
}

TEST(JoinInPlace, empty_parts_and_empty_images) {
  check(host("1, 4, 6, 6",
             weights("v", {8, 4, 3, 3}, 1) + weights("w", {8, 8, 1, 1}, 2) + weights("u", {4, 16, 3, 3}, 3),
             "  %a = Conv(%x, %v)" + kSame + "  %b = Conv(%a, %w)\n" +
                 "  %none = Slice(%a) {axes = [1], starts = [3], ends = [3]}\n" +
                 "  %j = Concat(%a, %none, %b) {axis = 1}\n  %y = Conv(%j, %u)" + kSame));
  check(host("0, 4, 6, 6",
             weights("v", {8, 4, 3, 3}, 1) + weights("w", {8, 8, 1, 1}, 2) + weights("u", {4, 16, 3, 3}, 3),
             "  %a = Conv(%x, %v)" + kSame + "  %b = Conv(%a, %w)\n  %j = Concat(%a, %b) {axis = 1}\n" +
                 "  %y = Conv(%j, %u)" + kSame));
}

TEST(JoinInPlace, outputs_of_the_program_are_whole) {
  const Found found = check(
      host("1, 4, 6, 6", weights("v", {8, 4, 3, 3}, 1) + weights("w", {8, 4, 1, 1}, 2) + weights("u", {4, 16, 3, 3}, 3),
           "  %a = Conv(%x, %v)" + kSame + "  %b = Conv(%x, %w)\n  %j = Concat(%a, %b) {axis = 1}\n" +
               "  HostStore(%a) {stream = \"a\"}\n  HostStore(%j) {stream = \"j\"}\n" + "  %y = Conv(%j, %u)" + kSame));
  EXPECT_LE(found.copies, 1) << found.text;
}

TEST(JoinInPlace, transposed_convolutions_and_lines_and_volumes) {
  const std::string gradient = "{strides = [2, 2], kernel_shape = [2, 2], fwd_shape = [1, 12, 8, 8]}\n";
  Found found =
      check(host("1, 4, 8, 8",
                 weights("v", {12, 4, 3, 3}, 1) + weights("w", {8, 12, 3, 3}, 2) + weights("t", {8, 12, 2, 2}, 4) +
                     weights("u", {4, 24, 3, 3}, 3),
                 "  %a = Conv(%x, %v)" + kSame + "  %m = MaxPool(%a) {kernel_shape = [2, 2], strides = [2, 2]}\n" +
                     "  %d = Conv(%m, %w)" + kSame + "  %b = ConvDataGrad(%d, %t) " + gradient +
                     "  %j = Concat(%a, %b) {axis = 1}\n  %y = Conv(%j, %u)" + kSame));
  EXPECT_EQ(found.copies, 0) << found.text;
  EXPECT_EQ(found.slices, 2) << found.text;
  found = check(host("2, 4, 11", weights("v", {12, 4, 3}, 1) + weights("w", {8, 4, 1}, 2) + weights("u", {4, 20, 3}, 3),
                     "  %a = Conv(%x, %v) {pads = [1, 1]}\n  %b = Conv(%x, %w)\n  %j = Concat(%a, %b) {axis = -2}\n"
                     "  %y = Conv(%j, %u)\n"));
  EXPECT_EQ(found.copies, 0);
  found = check(
      host("1, 2, 4, 5, 3",
           weights("v", {12, 2, 1, 3, 3}, 1) + weights("w", {8, 2, 1, 1, 1}, 2) + weights("u", {4, 20, 1, 3, 3}, 3),
           "  %a = Conv(%x, %v) {pads = [0, 1, 1, 0, 1, 1]}\n  %b = Conv(%x, %w)\n"
           "  %j = Concat(%a, %b) {axis = 1}\n  %y = Conv(%j, %u)\n"));
  EXPECT_EQ(found.copies, 0);
}

TEST(JoinInPlace, bodies_of_loops) {
  const Found found = check("main {\n  stream %in : float32[1, 8, 6, 6]\n  %x = HostLoad() {stream = \"in\"}\n" +
                            std::string("  %y = Loop(_, _, %x) {body = @body, carried = 1, trip_count = 3}\n") +
                            "  HostStore(%y) {stream = \"out\"}\n}\n\ngraph @body {\n  input %body/i : int64[]\n" +
                            "  input %body/cond : bool[]\n  input %body/x : float32[1, 8, 6, 6]\n" +
                            weights("body/v", {16, 8, 3, 3}, 1) + weights("body/w", {8, 8, 1, 1}, 2) +
                            weights("body/u", {8, 24, 3, 3}, 3) + "  %body/a = Conv(%body/x, %body/v)" + kSame +
                            "  %body/b = Conv(%body/x, %body/w)\n  %body/j = Concat(%body/a, %body/b) {axis = 1}\n" +
                            "  %body/y = Conv(%body/j, %body/u)" + kSame + "  return %body/cond, %body/y\n}\n");
  EXPECT_EQ(found.copies, 0) << found.text;
  EXPECT_EQ(found.slices, 2) << found.text;
}

// A part that is made long before the others. `q`: kernel size of the last part's convolution, with its padding.
Found earlyPart(int64_t q, const std::string &padding) {
  std::string body = "  %a = Conv(%x, %w)\n  %h0 = Conv(%x, %v)" + kSame;
  for (int i = 0; i < 4; ++i)
    body += "  %h" + std::to_string(i + 1) + " = Conv(%h" + std::to_string(i) + ", %z)" + kSame;
  body += "  %s = MaxPool(%h4) {kernel_shape = [16, 16]}\n  %b = Conv(%x, %t)\n  %g = Add(%b, %s)\n";
  body += "  %c = Conv(%g, %q)" + padding + "  %j = Concat(%a, %c) {axis = 1}\n  %y = Conv(%j, %u)\n";
  return check(host("1, 4, 16, 16",
                    weights("w", {8, 4, 1, 1}, 1) + weights("v", {64, 4, 3, 3}, 2) + weights("z", {64, 64, 3, 3}, 3) +
                        weights("t", {64, 4, 1, 1}, 4) + weights("q", {72, 64, q, q}, 5) +
                        weights("u", {4, 80, 1, 1}, 6),
                    body));
}

// It does not take the memory of the whole result for so long.
TEST(JoinInPlace, memory_does_not_grow) {
  const Found found = earlyPart(1, "\n");
  EXPECT_EQ(found.slices, 1) << found.text;
}

// The convolution of the last part uses the most memory. The whole result is in memory then anyway.
TEST(JoinInPlace, memory_includes_what_kernels_use_while_they_run) {
  const Found found = earlyPart(3, kSame);
  EXPECT_EQ(found.slices, 2) << found.text;
}

TEST(JoinInPlace, programs_whose_slices_have_no_place_are_refused) {
  const std::string text =
      check(host("1, 3, 6, 6",
                 weights("v", {8, 3, 3, 3}, 1) + weights("w", {8, 3, 1, 1}, 2) + weights("u", {4, 16, 3, 3}, 3),
                 "  %a = Conv(%x, %v)" + kSame + "  %b = Conv(%x, %w)\n" +
                     "  %j = Concat(%a, %b) {axis = 1}\n  %y = Conv(%j, %u)" + kSame))
          .text;
  const auto changed = [&](const std::string &from, const std::string &to) {
    std::string other = text;
    const size_t at = other.find(from);
    return at == std::string::npos ? other : other.replace(at, from.size(), to);
  };
  const auto refusal = [](const std::string &program) {
    try {
      lower::parseProgram(program);
    } catch (const popart::error &e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(text), "");
  EXPECT_NE(refusal(changed("channels_last_of16", "channels_last_of17")).find("expected rows 16 elements apart"),
            std::string::npos);
  EXPECT_NE(refusal(changed("Concat(%a, %b)", "Concat(%a, %a)")).find("got 2 operands"), std::string::npos);
}

}  // namespace
}  // namespace popart
