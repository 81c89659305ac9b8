// Kernels of spatial operators that exist twice, for plain memory and for channels last: both give the reference's
// numbers, and pools and response normalisations the same bits.
#include <gtest/gtest.h>

#include <atomic>

#include "../support/against_reference.hpp"
#include "../support/instruction_sets.hpp"
#include "executable/host_kernel.hpp"

namespace popart {
namespace {

using executable::Layout;
using test::floats;
using Ints = std::vector<int64_t>;

// Memory at 64 bytes.
class Memory {
 public:
  explicit Memory(int64_t bytes) : lines_(static_cast<size_t>(bytes / 64 + 1)) {}
  void *data() { return lines_.data(); }

 private:
  struct alignas(64) Line {
    char bytes[64];
  };
  std::vector<Line> lines_;
};

// The op's results from the CPU kernel whose first `activations` inputs and first output have the layout.
std::vector<TensorData> runIn(const Layout *layout, size_t activations, const SingleOp &op) {
  Ir ir;
  Graph &graph = ir.getMainGraph();
  std::vector<TensorIndex> inputs;
  std::vector<TensorId> outputs;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    inputs.push_back(graph.addStream("in" + std::to_string(i), op.inputs[i].info()));
  for (int i = 0; i < op.outputs; ++i) outputs.push_back("out" + std::to_string(i));
  const Op *added = graph.addConnectedOp(
      opDef(op.type), inputs, outputs, opDef(op.type).completeAttributes(op.attributes, op.type), Op::Settings(graph));
  executable::KernelRequest request = executable::requestOf(*added);
  for (size_t i = 0; i < activations; ++i) request.inputs[i].layout = layout;
  request.outputs[0].layout = layout;
  std::string reason;
  const auto kernel = cpu::backend().createKernel(request, reason);
  if (!kernel) throw error("{}: {}", op.type, reason);
  std::vector<Memory> memory;
  std::vector<const void *> in;
  std::vector<void *> out;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    memory.emplace_back(op.inputs[i].info().nbytes());
    executable::pack(op.inputs[i].info(), request.inputs[i].layout, op.inputs[i].data(), memory.back().data());
    in.push_back(memory.back().data());
  }
  for (const auto &o : request.outputs) {
    memory.emplace_back(o.info.nbytes());
    out.push_back(memory.back().data());
  }
  Memory scratch(kernel->scratchBytes()), shared(kernel->sharedBytes());
  std::atomic<bool> failed = false;
  executable::RunContext context(failed);
  for (int task = 0; task < kernel->tasks(); ++task)
    static_cast<const executable::HostKernel &>(*kernel).run(
        {in.data(), out.data(), scratch.data(), context, shared.data()}, task);
  std::vector<TensorData> results;
  for (size_t i = 0; i < out.size(); ++i) {
    results.emplace_back(request.outputs[i].info);
    executable::unpack(request.outputs[i].info, request.outputs[i].layout, out[i], results.back().mutableData());
  }
  return results;
}

void expectNear(const std::vector<TensorData> &got, const std::vector<TensorData> &want, double tolerance,
                const std::string &what) {
  for (size_t o = 0; o < want.size(); ++o) {
    const auto a = got[o].asDoubles(), b = want[o].asDoubles();
    for (size_t i = 0; i < b.size(); ++i)
      ASSERT_TRUE((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i] ||
                  std::fabs(a[i] - b[i]) <= tolerance * std::max(1.0, std::fabs(b[i])))
          << what << " output " << o << " [" << i << "]: got " << a[i] << ", expected " << b[i];
  }
}

enum class Bits { Same, Near };
void compare(const SingleOp &op, size_t activations, Bits bits, double tolerance = 2e-5) {
  const auto plain = runIn(nullptr, activations, op), last = runIn(executable::channelsLast(), activations, op);
  const auto want = runOp(op, OpBackend::Reference);
  expectNear(plain, want, tolerance, op.type + " of plain memory");
  expectNear(last, want, tolerance, op.type + " of channels last");
  if (bits == Bits::Same) expectNear(plain, last, 0, op.type + " of plain memory against channels last");
}

struct Window {
  Shape x;
  Ints kernel, strides, pads, dilations;
  int64_t ceil = 0;
};

// Every way in which a row is read: as it is, with padding, split by strides of up to four and of more; rows of one
// vector, of several and of parts of one; windows that skip rows, and that lie outside the input.
const std::vector<Window> &windows() {
  static const std::vector<Window> all = {{{2, 3, 12, 40}, {3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
                                          {{2, 3, 12, 70}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
                                          {{1, 5, 56, 56}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
                                          {{1, 2, 9, 131}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
                                          {{1, 2, 9, 131}, {2, 2}, {2, 2}, {0, 0, 0, 1}, {1, 1}, 1},
                                          {{1, 2, 20, 100}, {4, 5}, {3, 3}, {2, 1, 0, 3}, {1, 1}},
                                          {{1, 2, 20, 100}, {2, 3}, {4, 4}, {0, 1, 1, 1}, {1, 2}},
                                          {{1, 2, 21, 103}, {3, 7}, {7, 5}, {1, 3, 1, 3}, {2, 1}, 1},
                                          {{1, 2, 7, 7}, {7, 7}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
                                          {{2, 3, 60, 71}, {60, 71}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
                                          {{1, 3, 6, 5}, {9, 6}, {4, 3}, {2, 0, 3, 1}, {1, 1}},
                                          {{2, 40, 4, 5}, {2, 2}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
                                          {{2, 40, 8, 8}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
                                          {{1, 2, 200, 90}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
                                          {{1, 2, 13, 300}, {13, 13}, {1, 1}, {6, 6, 6, 6}, {1, 1}},
                                          {{1, 3, 9, 9}, {1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
                                          {{1, 3, 11, 67}, {2, 2}, {3, 3}, {1, 0, 1, 0}, {1, 2}},
                                          {{1, 3, 16, 64}, {2, 3}, {4, 4}, {0, 0, 0, 0}, {1, 1}},
                                          {{1, 2, 5, 6}, {3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}},
                                          {{3, 2, 40}, {3}, {2}, {1, 1}, {1}},
                                          {{3, 2, 40}, {40}, {2}, {0, 1}, {1}},
                                          {{1, 2, 3, 4, 50}, {3, 4, 50}, {1, 1, 1}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}},
                                          {{1, 2, 3000}, {5}, {1}, {2, 2}, {1}},
                                          {{1, 2, 3000}, {5}, {2}, {2, 2}, {3}},
                                          {{1, 2, 9, 6, 20}, {5, 1, 1}, {1, 1, 1}, {2, 0, 0, 2, 0, 0}, {1, 1, 1}},
                                          {{1, 2, 6, 7, 19}, {3, 2, 3}, {2, 1, 2}, {1, 0, 1, 1, 1, 0}, {1, 2, 1}},
                                          {{1, 2, 6, 7, 19}, {3, 3, 3}, {1, 2, 1}, {1, 1, 1, 1, 1, 1}, {2, 1, 1}}};
  return all;
}

Attributes attributesOf(const Window &w) {
  return {{"kernel_shape", w.kernel},
          {"strides", w.strides},
          {"pads", w.pads},
          {"dilations", w.dilations},
          {"ceil_mode", w.ceil}};
}

TensorData gradientFor(const SingleOp &forward, int seed) { return floats(inferOp(forward)[0].shape(), seed); }

TEST(PlainLayout, maxima_of_windows) {
  for (const Window &w : windows()) {
    TensorData x = floats(w.x, 1);
    const SingleOp forward{"MaxPool", attributesOf(w), {x}, 1};
    compare(forward, 1, Bits::Same, 0);
    compare({"MaxPoolGrad", attributesOf(w), {gradientFor(forward, 2), x}, 1}, 2, Bits::Same);
  }
}

TEST(PlainLayout, maxima_of_what_is_no_number_or_not_finite) {
  for (const Window &w : {Window{{1, 2, 9, 37}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
                          Window{{1, 2, 9, 37}, {3, 2}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
                          Window{{1, 2, 9, 37}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
                          Window{{1, 2, 9, 37}, {1, 3}, {1, 1}, {0, 1, 0, 1}, {1, 1}},
                          Window{{5, 2, 5, 14}, {5, 14}, {1, 1}, {0, 0, 0, 0}, {1, 1}}}) {
    TensorData x = floats(w.x, 1);
    auto *values = static_cast<float *>(x.mutableData());
    std::fill_n(values, 150, -INFINITY);
    values[400] = values[403] = NAN;
    values[500] = INFINITY;
    const SingleOp forward{"MaxPool", attributesOf(w), {x}, 1};
    compare(forward, 1, Bits::Same, 0);
    compare({"MaxPoolGrad", attributesOf(w), {gradientFor(forward, 2), x}, 1}, 2, Bits::Same);
  }
}

// Zeros of both signs are equal: the first one stays.
TEST(PlainLayout, maxima_of_signed_zeros) {
  for (const Window &w : windows()) {
    TensorData x = floats(w.x, 1);
    auto *values = static_cast<float *>(x.mutableData());
    for (int64_t i = 0; i < x.info().nelms(); ++i)
      values[i] = values[i] > 0.1f ? 0.0f : values[i] > -0.1f ? -0.0f : -1.0f;
    const SingleOp forward{"MaxPool", attributesOf(w), {x}, 1};
    EXPECT_TRUE(runIn(nullptr, 1, forward)[0] == runIn(executable::channelsLast(), 1, forward)[0]);
  }
}

// Numbers of taps are floats: more of them than floats tell apart go to another kernel.
TEST(PlainLayout, maxima_of_more_taps_than_have_numbers) {
  for (const int64_t side : {4096, 4097}) {
    Ir ir;
    Graph &graph = ir.getMainGraph();
    const TensorInfo result(DataType::FLOAT, {1, 2, 1, 2}), image(DataType::FLOAT, {1, 2, side, side + 1});
    const Op *gradient = graph.addConnectedOp(
        opDef("MaxPoolGrad"), {graph.addStream("g", result), graph.addStream("x", image)}, {"dx"},
        opDef("MaxPoolGrad").completeAttributes({{"kernel_shape", Ints{side, side}}}, "MaxPoolGrad"),
        Op::Settings(graph));
    std::string reason;
    const auto kernel = cpu::backend().createKernel(executable::requestOf(*gradient), reason);
    EXPECT_EQ(kernel != nullptr, side == 4096) << reason;
  }
}

// Scratch memory is a vector for each row and column that a window spans.
TEST(PlainLayout, windows_that_span_much_are_left_to_others) {
  const auto fits = [](int64_t width, int64_t kernel, int64_t stride) {
    Ir ir;
    Graph &graph = ir.getMainGraph();
    const Op *pool = graph.addConnectedOp(
        opDef("MaxPool"), {graph.addStream("x", TensorInfo(DataType::FLOAT, {1, 2, 3, width}))}, {"y"},
        opDef("MaxPool").completeAttributes({{"kernel_shape", Ints{1, kernel}}, {"strides", Ints{1, stride}}},
                                            "MaxPool"),
        Op::Settings(graph));
    std::string reason;
    return cpu::backend().createKernel(executable::requestOf(*pool), reason) != nullptr;
  };
  EXPECT_TRUE(fits(100'000, 4096, 1));
  EXPECT_TRUE(fits(100'000, 5, 4096));
  EXPECT_FALSE(fits(100'000, 4097, 1));
  EXPECT_FALSE(fits(100'000, 5, 4097));
  EXPECT_FALSE(fits(9, 5, int64_t{1} << 30));
}

TEST(PlainLayout, averages_of_windows) {
  for (const Window &w : windows())
    for (const int64_t counts : {0, 1}) {
      Attributes a = attributesOf(w);
      a.set("count_include_pad", counts);
      const SingleOp forward{"AveragePool", a, {floats(w.x, 1)}, 1};
      compare(forward, 1, Bits::Same);
      a.set("fwd_shape", w.x);
      compare({"AveragePoolGrad", a, {gradientFor(forward, 2)}, 1}, 1, Bits::Same);
    }
}

TEST(PlainLayout, pools_with_every_instruction_set) {
  test::forAllInstructionSets([] {
    for (const Window &w : windows()) {
      const TensorData x = floats(w.x, 1);
      for (const char *type : {"MaxPool", "AveragePool"}) {
        const SingleOp forward{type, attributesOf(w), {x}, 1};
        compare(forward, 1, Bits::Same);
      }
      const SingleOp forward{"MaxPool", attributesOf(w), {x}, 1};
      compare({"MaxPoolGrad", attributesOf(w), {gradientFor(forward, 2), x}, 1}, 2, Bits::Same);
    }
  });
}

TEST(PlainLayout, response_normalisation) {
  for (const Shape &x : {Shape{2, 7, 5, 9}, Shape{1, 70, 20, 20}, Shape{3, 2, 300}})
    for (const int64_t size : {1, 4, 5, 9})
      for (const float beta : {0.75f, 0.5f, 1.0f, 0.6f}) {
        const Attributes a{{"size", size}, {"alpha", 0.3f}, {"beta", beta}, {"bias", 1.5f}};
        compare({"LRN", a, {floats(x, 1)}, 1}, 1, Bits::Same);
        compare({"LRNGrad", a, {floats(x, 2), floats(x, 1)}, 1}, 2, Bits::Same);
      }
}

TensorData positive(const Shape &shape, int seed) {
  std::vector<float> values = test::numbers(elementCount(shape), seed);
  for (float &v : values) v = std::fabs(v) + 0.5f;
  return TensorData::of<float>(shape, values);
}

TEST(PlainLayout, batch_normalisation) {
  for (const Shape &x : {Shape{3, 7, 5, 9}, Shape{2, 70, 40}, Shape{1, 3, 200, 201}}) {
    const Shape c{x[1]};
    const std::vector<TensorData> inputs{floats(x, 1), floats(c, 2), floats(c, 3), floats(c, 4), positive(c, 5)};
    compare({"BatchNormalization", {}, inputs, 1}, 1, Bits::Near);
    for (const int64_t unbiased : {0, 1})
      compare({"BatchNormalization",
               {{"training_mode", int64_t{1}}, {"unbiased_variance", unbiased}, {"momentum", 0.7f}},
               inputs,
               5},
              1, Bits::Near);
    compare({"BatchNormalizationGrad", {}, {floats(x, 6), inputs[0], inputs[1], inputs[3], inputs[4]}, 3}, 2,
            Bits::Near, 3e-4);  // sums of up to 40,200 terms
  }
}

TEST(PlainLayout, gradient_of_group_normalisation) {
  for (const auto &[x, groups] : std::vector<std::pair<Shape, int64_t>>{
           {{1, 6, 129, 130}, 1}, {{2, 12, 37, 50}, 3}, {{3, 70, 7, 5}, 70}, {{5, 8, 3}, 4}}) {
    const Shape sets{x[0] * groups}, c{x[1]};
    compare({"GroupNormalizationGrad",
             {{"num_groups", groups}},
             {floats(x, 1), floats(x, 2), floats(c, 3), floats(sets, 4), positive(sets, 5)},
             3},
            2, Bits::Near, 3e-4);  // sums of up to 100,620 terms
  }
}

// Runs of neighbours, every other channel, backwards, and one that comes twice.
TEST(PlainLayout, channels_that_are_picked) {
  for (const Shape &spatial : {Shape{5}, Shape{13, 11}, Shape{40, 41}, Shape{2, 3, 7}}) {
    Shape x{2, 37}, y{2, 50};
    for (Shape *shape : {&x, &y}) shape->insert(shape->end(), spatial.begin(), spatial.end());
    Ints inputs, channels;
    const auto pick = [&](int64_t input, int64_t channel) { inputs.push_back(input), channels.push_back(channel); };
    for (int64_t c = 0; c < 19; ++c) pick(0, c);
    for (int64_t c = 0; c < 20; ++c) pick(1, 25 + c), pick(0, c + 17);
    for (int64_t c = 36; c >= 0; c -= 3) pick(0, c);
    pick(1, 0), pick(1, 0), pick(1, 49);
    compare({"PickChannels", {{"inputs", inputs}, {"channels", channels}}, {floats(x, 1), floats(y, 2)}, 1}, 2,
            Bits::Same, 0);
  }
}

}  // namespace
}  // namespace popart
