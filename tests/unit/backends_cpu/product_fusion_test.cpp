// Element-wise operators behind a product: every row of the element table becomes part of the product's kernel, and
// gives the bits that it gives on its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../support/program.hpp"
#include "backends/cpu/cpu.hpp"
#include "backends/cpu/element_table.hpp"
#include "backends/cpu/epilogue_match.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"

namespace popart {
namespace {

using cpu::ElementRow;
using test::numbers;
using test::ProgramRun;

constexpr int64_t kRows = 6, kInner = 37, kCols = 29;

// Every attribute of the row as 0.75, or 1 where it is an integer.
Attributes attributesOf(const OpDef &def) {
  Attributes given;
  for (const AttributeDef &a : def.attributes()) {
    if (a.type == AttributeType::Float) given.set(a.name, 0.75f);
    if (a.type == AttributeType::Int) given.set(a.name, int64_t{1});
  }
  return given;
}

enum class Product { kReadOnce, kKept };

void addResult(test::GraphBuilder &b, TensorIndex t, const std::string &stream) {
  b.graph().addConnectedOp(opDef("HostStore"), {t}, {}, {{"stream", stream}}, Op::Settings(b.graph()));
}

// y = op(x·w + b), or op(x·w + b, other); with kKept the product itself is a result too, so nothing joins it.
void build(Ir &ir, const ElementRow &row, Product product) {
  test::GraphBuilder b(ir.getMainGraph());
  const auto x = b.stream("x", DataType::FLOAT, {kRows, kInner});
  const auto p = b.op("MatMul", {x, b.variable("w", {kInner, kCols}, numbers(kInner * kCols, 2))}, "p");
  std::vector<TensorIndex> inputs{b.op("Add", {p, b.variable("b", {kCols}, numbers(kCols, 3))}, "s")};
  if (row.operands == 2) inputs.push_back(b.stream("other", DataType::FLOAT, {kRows, kCols}));
  addResult(b, b.op(row.type, inputs, "y", attributesOf(opDef(row.type))), "y");
  if (product == Product::kKept) addResult(b, p, "p");
}

std::vector<float> result(ProgramRun &run) {
  run.feed<float>("x", numbers(kRows * kInner, 4));
  run.feed<float>("other", numbers(kRows * kCols, 5));
  run.run();
  return run.anchor("y");
}

const ProgramRun::Backends kBackends = {&cpu::backend(), &ref::backend()};

bool hasElementwiseStep(const ProgramRun &run) {
  const auto &steps = run.executable().main.steps;
  return std::any_of(steps.begin(), steps.end(), [](const executable::Step &s) {
    return s.kernel && s.kernel->name().find("elementwise") != std::string::npos;
  });
}

bool isContinuous(const std::string &type) {
  return type != "Ceil" && type != "Floor" && type != "Round" && type != "NearbyInt" && type != "Sign" &&
         type != "IncrementMod" && type != "Fmod" && type != "Remainder" && type != "ReluGrad";
}

TEST(ProductFusion, every_float_row_joins_a_product_and_keeps_its_bits) {
  int joined = 0;
  for (const ElementRow &row : cpu::elementRows()) {
    if (row.form != cpu::RegisterForm::kFloat) continue;
    Ir together, apart;
    build(together, row, Product::kReadOnce);
    build(apart, row, Product::kKept);
    if (together.getMainGraph().getTensor("y")->info.dataType() != DataType::FLOAT) continue;
    ProgramRun fused(together, kBackends), separate(apart, kBackends), meaning(together);
    EXPECT_FALSE(hasElementwiseStep(fused)) << row.type << fused.executable().loweredText;
    EXPECT_TRUE(hasElementwiseStep(separate)) << row.type;
    const auto got = result(fused), want = result(separate), exact = result(meaning);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << row.type << " [" << i << "]";
      if (got[i] == exact[i] || (std::isnan(exact[i]) && std::isnan(got[i]))) continue;
      if (isContinuous(row.type)) {
        ASSERT_NEAR(got[i], exact[i], 2e-5 * std::max(1.0f, exact[i] * exact[i])) << row.type << " [" << i << "]";
      }
    }
    ++joined;
  }
  EXPECT_GT(joined, 50);
}

// A sum of gradients and the same sum with the product kept apart. `next` makes %next of the variable %sum, the product
// %dw and the number %f; the sum is packed, because it is the weight of a product.
std::string sums(int64_t rows, const std::string &next, Product product) {
  const std::string k = std::to_string(rows);
  return "main {\n  stream %x : float32[" + k + ", 37]\n  stream %dy : float32[" + k + R"(, 29]
  variable %sum : float32[37, 29] = 0
  const %f : float32[] = 0.3
  %a = HostLoad() {stream = "x"}
  %b = HostLoad() {stream = "dy"}
  %y = MatMul(%a, %sum)
  %t = Transpose(%a) {perm = [1, 0]}
  %dw = MatMul(%t, %b)
)" + next +
         R"(  VariableAssign(%sum, %next)
  HostStore(%y) {stream = "y"}
)" + (product == Product::kKept ? "  HostStore(%dw) {stream = \"dw\"}\n" : "") +
         "}\n";
}

TEST(ProductFusion, sums_of_gradients_keep_their_bits) {
  for (const std::string next :
       {"  %next = Add(%sum, %dw)\n", "  %next = Add(%dw, %sum)\n", "  %next = Sub(%sum, %dw)\n",
        "  %g = Mul(%dw, %f)\n  %next = Add(%sum, %g)\n", "  %g = Mul(%f, %dw)\n  %next = Sub(%sum, %g)\n",
        "  %s = Mul(%f, %sum)\n  %next = Add(%s, %dw)\n",
        "  %s = Mul(%sum, %f)\n  %g = Mul(%dw, %f)\n  %next = Add(%g, %s)\n"})
    for (int64_t rows : {8, 100}) {
      ProgramRun fused(*parseIr(sums(rows, next, Product::kReadOnce)), kBackends),
          separate(*parseIr(sums(rows, next, Product::kKept)), kBackends);
      EXPECT_FALSE(hasElementwiseStep(fused)) << fused.executable().loweredText;
      EXPECT_TRUE(hasElementwiseStep(separate));
      for (ProgramRun *run : {&fused, &separate}) {
        run->write("sum", numbers(37 * 29, 7));
        run->feed<float>("x", numbers(rows * 37, 4));
        run->feed<float>("dy", numbers(rows * 29, 5));
        for (int i = 0; i < 3; ++i) run->run();
      }
      EXPECT_EQ(fused.variable("sum"), separate.variable("sum")) << next;
    }
}

// The windows of a convolution of 63 pixels.
struct Kernel {
  const char *size = "1, 1", *attributes = "", *pixels = "9, 7", *ones = "1, 1";
  int64_t columns = 24;
};

// A convolution of %t, which `made` computes of %x (2 images, 40 channels) and operands. With kKept, %t is a result
// too, so nothing takes it away.
std::string convolutionOf(const std::string &made, Product product, const Kernel &kernel = {}) {
  const std::string pixels = kernel.pixels, ones = kernel.ones;
  return "main {\n  stream %x : float32[2, 40, " + pixels + "]\n  stream %r : float32[2, 40, " + pixels +
         "]\n  stream %g : float32[2, 40, " + ones + "]\n  const %scale : float32[1, 40, " + ones +
         "] = 0.75\n  variable %shift : float32[40, " + ones + R"(] = -0.25
  variable %n : float32[] = 0.3
  variable %w : float32[)" +
         std::to_string(kernel.columns) + ", 40, " + kernel.size + R"(] = 0.5
  %a = HostLoad() {stream = "x"}
  %o = HostLoad() {stream = "r"}
  %gate = HostLoad() {stream = "g"}
)" + made +
         "  %c = Conv(%t, %w)" + kernel.attributes + "\n  %y = Relu(%c)\n  HostStore(%y) {stream = \"y\"}\n" +
         (product == Product::kKept ? "  HostStore(%t) {stream = \"t\"}\n" : "") + "}\n";
}

struct ConvolutionRun : ProgramRun {
  ConvolutionRun(const std::string &program, int threads) : ProgramRun(*parseIr(program), kBackends, threads) {
    write("w", numbers(elements("w"), 7));
    write("shift", numbers(40, 8));
    feed<float>("x", numbers(2 * 40 * 63, 4));
    feed<float>("r", numbers(2 * 40 * 63, 5));
    feed<float>("g", numbers(2 * 40, 6));
    run();
  }
  int64_t elements(const std::string &name) { return static_cast<int64_t>(variable(name).size()); }
  bool hasPrologue() const { return executable().loweredText.find("prologue = ") != std::string::npos; }
};

TEST(ProductFusion, what_comes_before_a_convolution_joins_it_and_keeps_its_bits) {
  const std::string kMade[] = {
      "  %s = Mul(%a, %scale)\n  %b = Add(%s, %shift)\n  %t = Relu(%b)\n",  // a normalisation
      "  %t = Mul(%gate, %a)\n",                                            // a gate for each channel of an image
      "  %t = Add(%o, %a)\n",
      "  %b = Sub(%a, %o)\n  %e = Mul(%b, %n)\n  %t = Max(%e, %gate)\n",
      "  %t = Sigmoid(%a)\n",
  };
  const Kernel kKernels[] = {
      {},
      {.size = "3, 3"},
      {.size = "2, 3", .attributes = " {pads = [0, 1, 1, 1], strides = [2, 1]}"},  // beyond the border it is zero
      {.size = "3, 2", .attributes = " {dilations = [2, 3]}"},
      {.size = "1, 1", .attributes = " {strides = [2, 2]}"},
      {.size = "3, 3", .columns = 2},  // as dot products
      {.size = "5", .attributes = " {strides = [3]}", .pixels = "63", .ones = "1"},
      {.size = "1, 2, 2", .attributes = " {pads = [0, 0, 0, 0, 0, 1]}", .pixels = "3, 3, 7", .ones = "1, 1, 1"},
  };
  for (const Kernel &kernel : kKernels)
    for (const std::string &made : kMade)
      for (int threads : {1, 2}) {
        ConvolutionRun together(convolutionOf(made, Product::kReadOnce, kernel), threads),
            apart(convolutionOf(made, Product::kKept, kernel), threads);
        EXPECT_TRUE(together.hasPrologue()) << together.executable().loweredText;
        EXPECT_FALSE(hasElementwiseStep(together)) << made;
        EXPECT_FALSE(apart.hasPrologue()) << made;
        EXPECT_EQ(together.anchor("y"), apart.anchor("y")) << made << kernel.size << kernel.attributes;
      }
}

TEST(ProductFusion, windows_that_overlap_much_read_their_operand_from_memory) {
  const std::string made = "  %s = Mul(%a, %scale)\n  %t = Relu(%s)\n";
  const Kernel kernel{.size = "7, 7", .attributes = " {pads = [3, 3, 3, 3]}"};
  EXPECT_FALSE(ConvolutionRun(convolutionOf(made, Product::kReadOnce, kernel), 2).hasPrologue());
}

// A depthwise convolution, an activation, the mean of each channel, which a gate would read, and a product, which has
// the channels last.
struct Depthwise {
  int64_t images = 1, channels = 40;
  std::string pixels = "9, 7", axes = "2, 3", attributes = "pads = [1, 1, 1, 1]", size = "3, 3", ones = "1, 1";
  int64_t pixelCount = 63;
};

std::string meansOf(const Depthwise &d, const std::string &activation, int keepdims) {
  const std::string channels = std::to_string(d.channels);
  return "main {\n  stream %x : float32[" + std::to_string(d.images) + ", " + channels + ", " + d.pixels +
         "]\n  variable %w : float32[" + channels + ", 1, " + d.size + "] = 0.5\n  variable %v : float32[8, " +
         channels + ", " + d.ones + "] = 0.5\n  %a = HostLoad() {stream = \"x\"}\n" +
         "  %c = Conv(%a, %w) {group = " + channels + ", " + d.attributes + "}\n" + activation +
         "  %m = ReduceMean(%y) {axes = [" + d.axes + "], keepdims = " + std::to_string(keepdims) +
         "}\n  %p = Conv(%y, %v)\n  HostStore(%p) {stream = \"p\"}\n  HostStore(%y) {stream = \"y\"}\n"
         "  HostStore(%m) {stream = \"m\"}\n}\n";
}

struct MeansRun : ProgramRun {
  MeansRun(const Depthwise &d, const std::string &program, int threads, std::set<std::string> passesOff = {})
      : ProgramRun(*parseIr(program), kBackends, threads, lower::LaneRule::Auto, std::move(passesOff)) {
    write("w", numbers(static_cast<int64_t>(variable("w").size()), 7));
    feed<float>("x", numbers(d.images * d.channels * d.pixelCount, 4));
    run();
  }
  bool hasMeans() const { return executable().loweredText.find("means_of = ") != std::string::npos; }
};

TEST(ProductFusion, means_join_a_depthwise_convolution_and_keep_their_bits) {
  const Depthwise kConvolutions[] = {
      {},
      {.images = 6, .channels = 37},
      {.channels = 128, .pixels = "16, 16", .pixelCount = 256},  // several leaves
      {.images = 6, .channels = 100, .pixels = "15, 14", .attributes = "strides = [2, 2]", .pixelCount = 210},
      {.images = 6,
       .channels = 48,
       .pixels = "101",
       .axes = "2",
       .attributes = "pads = [2, 2]",
       .size = "5",
       .ones = "1",
       .pixelCount = 101},
      {.channels = 33,
       .pixels = "4, 5, 6",
       .axes = "2, 3, 4",
       .attributes = "dilations = [1, 1, 1]",
       .size = "2, 3, 2",
       .ones = "1, 1, 1",
       .pixelCount = 120},
  };
  const std::string kActivations[] = {
      "  %y = Relu(%c)\n", "  %s = Sigmoid(%c)\n  %y = Mul(%c, %s)\n",
      "  %t = Tanh(%c)\n  %e = Exp(%t)\n  %y = Add(%e, %c)\n",                    // a program
      "  %s = Tanh(%c)\n  %y = Mul(%c, %s)\n  HostStore(%s) {stream = \"s\"}\n",  // two results
  };
  for (const Depthwise &d : kConvolutions)
    for (const std::string &activation : kActivations)
      for (int threads : {1, 2}) {
        const std::string program = meansOf(d, activation, threads % 2);
        const MeansRun together(d, program, threads), apart(d, program, threads, {"fuseMeans"});
        EXPECT_TRUE(together.hasMeans()) << together.executable().loweredText;
        EXPECT_FALSE(apart.hasMeans());
        EXPECT_EQ(together.anchor("y"), apart.anchor("y")) << program;
        EXPECT_EQ(together.anchor("m"), apart.anchor("m")) << program;
      }
}

TEST(ProductFusion, means_stay_apart_where_that_is_faster_or_they_are_others) {
  const auto joins = [](const Depthwise &d, int threads) {
    return MeansRun(d, meansOf(d, "  %y = Relu(%c)\n", 1), threads).hasMeans();
  };
  EXPECT_TRUE(joins({}, 2));
  const Depthwise image{.channels = 256, .pixels = "14, 14", .pixelCount = 196};
  EXPECT_TRUE(joins(image, 2));
  EXPECT_FALSE(joins(image, 64)) << "one image has fewer vectors of channels than threads";
  EXPECT_FALSE(joins({.axes = "2"}, 2));
  EXPECT_FALSE(joins({.axes = "0, 2, 3"}, 2));
  const Depthwise large{.channels = 32, .pixels = "300, 300", .pixelCount = 90000};
  EXPECT_FALSE(joins(large, 2)) << "the results of a task do not stay in the second level cache";
}

// The same of a stack of products that is no gradient.
TEST(ProductFusion, a_scaled_tensor_joins_a_stack_of_products) {
  const auto program = [](Product product) {
    return std::string(R"(main {
  stream %x : float32[3, 20, 37]
  stream %w : float32[3, 37, 29]
  stream %r : float32[3, 20, 29]
  const %f : float32[] = 0.3
  %a = HostLoad() {stream = "x"}
  %b = HostLoad() {stream = "w"}
  %c = HostLoad() {stream = "r"}
  %p = MatMul(%a, %b)
  %s = Mul(%c, %f)
  %y = Add(%s, %p)
  HostStore(%y) {stream = "y"}
)") + (product == Product::kKept ? "  HostStore(%p) {stream = \"p\"}\n" : "") +
           "}\n";
  };
  ProgramRun fused(*parseIr(program(Product::kReadOnce)), kBackends),
      separate(*parseIr(program(Product::kKept)), kBackends);
  EXPECT_FALSE(hasElementwiseStep(fused)) << fused.executable().loweredText;
  EXPECT_TRUE(hasElementwiseStep(separate));
  for (ProgramRun *run : {&fused, &separate}) {
    run->feed<float>("x", numbers(3 * 20 * 37, 4));
    run->feed<float>("w", numbers(3 * 37 * 29, 5));
    run->feed<float>("r", numbers(3 * 20 * 29, 6));
    run->run();
  }
  EXPECT_EQ(fused.anchor("y"), separate.anchor("y"));
}

// A layer in BFLOAT16, its data gradient and weight gradients (by sample, and of rows that are widened before they are
// reshaped): all read 16 bits where the processor multiplies them, transposes are strides, and results are those of the
// reference but for one rounding.
TEST(ProductFusion, products_read_bfloat16_where_the_processor_multiplies_it) {
  const auto program = parseIr(R"(main {
  stream %x : float32[2, 20, 37]
  stream %dy : float32[2, 20, 29]
  variable %w : float32[29, 37] = 0.5
  %a = HostLoad() {stream = "x"}
  %b = HostLoad() {stream = "dy"}
  %h = Cast(%a) {to = 16}
  %g = Cast(%b) {to = 16}
  %v = Cast(%w) {to = 16}
  %t = Transpose(%v) {perm = [1, 0]}
  %p = MatMul(%h, %t)
  %y = Cast(%p) {to = 1}
  %q = MatMul(%g, %v)
  %dx = Cast(%q) {to = 1}
  %wide = Cast(%h) {to = 1}
  %rows = Reshape(%wide) {shape = [40, 37]}
  %n = Transpose(%rows) {perm = [1, 0]}
  %wideG = Cast(%g) {to = 1}
  %rowsG = Reshape(%wideG) {shape = [40, 29]}
  %sum = MatMul(%n, %rowsG)
  %u = Transpose(%g) {perm = [0, 2, 1]}
  %r = MatMul(%u, %h)
  %dw = Cast(%r) {to = 1}
  HostStore(%y) {stream = "y"}
  HostStore(%dx) {stream = "dx"}
  HostStore(%dw) {stream = "dw"}
  HostStore(%sum) {stream = "sum"}
}
)");
  ProgramRun fast(*program, kBackends), parallel(*program, kBackends, 3), meaning(*program);
  for (ProgramRun *run : {&fast, &parallel, &meaning}) {
    run->write("w", numbers(29 * 37, 7));
    run->feed<float>("x", numbers(2 * 20 * 37, 4));
    run->feed<float>("dy", numbers(2 * 20 * 29, 5));
    run->run();
  }
  const auto &steps = fast.executable().main.steps;
  const auto native = std::count_if(steps.begin(), steps.end(), [](const executable::Step &s) {
    return s.kernel && s.kernel->name().starts_with("matmul bfloat16");
  });
  EXPECT_EQ(native, 4) << fast.executable().loweredText;
  for (const char *result : {"y", "dx", "dw", "sum"}) {
    const std::vector<float> got = fast.anchor(result), exact = meaning.anchor(result);
    EXPECT_EQ(got, parallel.anchor(result)) << result;
    ASSERT_EQ(got.size(), exact.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], exact[i], std::abs(exact[i]) / 128 + 1e-5f) << result << " [" << i << "]";
  }
}

// The register form, without scratch, takes sums and differences; a square is compiled.
TEST(ProductFusion, sums_of_gradients_are_steps_in_registers) {
  const auto match = [](const std::string &body) {
    const auto ir = parseIr("main {\n}\n\ngraph @e {\n  input %e/g : float32[4, 8]\n  input %e/w : float32[4, 8]\n" +
                            body + "  return %e/n\n}\n");
    std::string reason;
    return cpu::matchDescent(ir->getGraph(GraphId("e")), reason);
  };
  for (const std::string body : {"  %e/n = Add(%e/w, %e/g)\n", "  %e/n = Add(%e/g, %e/w)\n"}) {
    const auto sum = match(body);
    ASSERT_TRUE(sum) << body;
    EXPECT_EQ(sum->parameter, 0);
    EXPECT_EQ(sum->rate.value, -1);
    EXPECT_EQ(sum->decay.value, 1);
  }
  const auto difference = match("  const %e/f : float32[] = 0.5\n  %e/m = Mul(%e/w, %e/f)\n  %e/n = Sub(%e/m, %e/g)\n");
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->rate.value, 1);
  EXPECT_EQ(difference->decay.value, 0.5f);
  EXPECT_FALSE(match("  %e/n = Sub(%e/g, %e/w)\n"));
  EXPECT_FALSE(match("  %e/n = Add(%e/g, %e/g)\n"));
  EXPECT_FALSE(match("  %e/m = Mul(%e/g, %e/g)\n  %e/n = Add(%e/w, %e/m)\n"));
}

}  // namespace
}  // namespace popart
