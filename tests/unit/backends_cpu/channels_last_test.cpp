// Kernels of channels-last activations, and of packed matrices, with any number of threads: the numbers of the
// reference in plain memory, and the same bits. Tasks run one after the other, in both directions within a round.
#include <gtest/gtest.h>

#include <atomic>

#include "../support/against_reference.hpp"
#include "backends/cpu/layouts/panels.hpp"
#include "executable/host_kernel.hpp"

namespace popart {
namespace {

using executable::Layout;
using test::floats;

std::vector<float> stored(const TensorData &plain, const Layout *layout) {
  std::vector<float> bytes(static_cast<size_t>(executable::storageBytes(plain.info(), layout)) / sizeof(float));
  executable::pack(plain.info(), layout, plain.data(), bytes.data());
  return bytes;
}

// One op whose first operand, and first result if it has as many dimensions, are stored in a layout.
struct LayoutOp {
  SingleOp op;
  const Layout *in, *out;

  // The results as they are stored.
  std::vector<std::vector<float>> run(const std::vector<TensorInfo> &results, int threads, bool backwards) const {
    Ir ir;
    Graph &graph = ir.getMainGraph();
    std::vector<TensorIndex> inputs;
    std::vector<std::vector<float>> memory;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Layout *layout = op.inputs[i].info().rank() == op.inputs[0].info().rank() ? in : nullptr;
      inputs.push_back(graph.addStream("in" + std::to_string(i), op.inputs[i].info()));
      executable::setLayout(graph.tensor(inputs.back()), layout);
      memory.push_back(stored(op.inputs[i], layout));
    }
    std::vector<TensorId> names;
    for (int i = 0; i < op.outputs; ++i) names.push_back("out" + std::to_string(i));
    const OpDef &def = opDef(op.type);
    Op *added =
        graph.addConnectedOp(def, inputs, names, def.completeAttributes(op.attributes, op.type), Op::Settings(graph));
    std::vector<std::vector<float>> out;
    for (int i = 0; i < op.outputs; ++i) {
      const TensorInfo &info = results[static_cast<size_t>(i)];
      const Layout *layout = i == 0 && info.rank() == op.inputs[0].info().rank() ? this->out : nullptr;
      executable::setLayout(*added->outTensor(i), layout);
      out.emplace_back(static_cast<size_t>(executable::storageBytes(info, layout)) / sizeof(float), -7.0f);
    }
    executable::KernelRequest request = executable::requestOf(*added);
    request.threads = threads;
    std::string reason;
    const auto kernel =
        std::dynamic_pointer_cast<const executable::HostKernel>(cpu::backend().createKernel(request, reason));
    if (!kernel) {
      ADD_FAILURE() << op.type << ": " << reason;
      return out;
    }
    std::vector<const void *> from;
    std::vector<void *> to;
    for (const auto &m : memory) from.push_back(m.data());
    for (auto &m : out) to.push_back(m.data());
    from.push_back(nullptr), to.push_back(nullptr);
    const auto aligned = [](std::vector<char> &bytes, int64_t size) {
      bytes.assign(static_cast<size_t>(size) + 64, '\x7f');
      return reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(bytes.data()) + 63) / 64 * 64);
    };
    std::vector<char> scratch, shared;
    std::atomic<bool> failed = false;
    executable::RunContext context{failed};
    const executable::KernelArgs args{from.data(), to.data(), aligned(scratch, kernel->scratchBytes()), context,
                                      aligned(shared, kernel->sharedBytes())};
    std::vector<int> ends(kernel->roundEnds().begin(), kernel->roundEnds().end());
    if (ends.empty()) ends.push_back(kernel->tasks());
    int begin = 0;
    for (const int end : ends) {
      for (int i = begin; i < end; ++i) kernel->run(args, backwards ? begin + end - 1 - i : i);
      begin = end;
    }
    double whole = 0;
    for (int i = 0; i < kernel->tasks(); ++i) whole += kernel->share(i);
    EXPECT_NEAR(whole, 1, 1e-6) << op.type;
    return out;
  }

  void compare(double tolerance) const {
    const auto want = runOp(op, OpBackend::Reference);
    std::vector<TensorInfo> infos;
    for (const TensorData &w : want) infos.push_back(w.info());
    const auto one = run(infos, 1, false);
    for (size_t o = 0; o < want.size(); ++o) {
      const bool hasLayout = o == 0 && infos[o].rank() == op.inputs[0].info().rank();
      const std::vector<float> expected = stored(want[o], hasLayout ? out : nullptr);
      ASSERT_EQ(one[o].size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(one[o][i], expected[i], tolerance * std::max(1.0f, std::fabs(expected[i])))
            << op.type << " output " << o << " [" << i << "]";
    }
    for (const int threads : {2, 3, 8, 64})
      for (const bool backwards : {false, true})
        EXPECT_EQ(run(infos, threads, backwards), one) << op.type << " depends on threads: 1 and " << threads;
  }
};

void compareLast(const SingleOp &op, double tolerance) {
  LayoutOp{op, executable::channelsLast(), executable::channelsLast()}.compare(tolerance);
}

// Windows that share no line are divided into ranges of lines; others are not.
TEST(ChannelsLastKernels, gradients_of_pools) {
  struct Windows {
    Shape x, g;
    std::vector<int64_t> kernel, strides, pads, dilations;
  };
  for (const Windows &w : std::vector<Windows>{
           {{2, 33, 64, 50}, {2, 33, 32, 25}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
           {{1, 40, 61, 33}, {1, 40, 21, 12}, {2, 2}, {3, 3}, {1, 1, 1, 1}, {1, 1}},  // lines that no window reads
           {{1, 24, 60, 44}, {1, 24, 13, 44}, {3, 1}, {5, 1}, {3, 0, 3, 0}, {2, 1}},
           {{1, 24, 61, 44}, {1, 24, 31, 22}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},  // windows that overlap
       }) {
    const Attributes window{
        {"kernel_shape", w.kernel}, {"strides", w.strides}, {"pads", w.pads}, {"dilations", w.dilations}};
    const TensorData x = floats(w.x, 1), g = floats(w.g, 2);
    compareLast({"MaxPoolGrad", window, {g, x}, 1}, 1e-6);
    Attributes back = window;
    back.set("fwd_shape", w.x);
    compareLast({"AveragePoolGrad", back, {g}, 1}, 1e-5);
  }
}

// Blocks of channels with all of their leaves, or one leaf for each task.
TEST(ChannelsLastKernels, reductions_of_pixels) {
  for (const Shape &x : {Shape{1, 17, 61, 53}, Shape{2, 390, 23, 19}, Shape{1, 1152, 7, 7}, Shape{3, 64, 3, 5}})
    for (const char *type : {"ReduceSum", "ReduceMean", "ReduceMax"})
      compareLast({type, {{"axes", std::vector<int64_t>{2, 3}}, {"keepdims", int64_t{0}}}, {floats(x, 1)}, 1}, 1e-4);
}

TEST(ChannelsLastKernels, group_normalisation) {
  for (const auto &[x, groups] : std::vector<std::pair<Shape, int64_t>>{
           {{1, 130, 31, 17}, 130}, {{2, 96, 9, 13}, 32}, {{1, 60, 20, 20}, 5}, {{3, 16, 5, 5}, 1}})
    compareLast(
        {"GroupNormalization", {{"num_groups", groups}}, {floats(x, 1), floats({x[1]}, 2), floats({x[1]}, 3)}, 3},
        2e-5);
}

TEST(ChannelsLastKernels, concatenations_and_slices_of_channels) {
  const TensorData a = floats({2, 21, 40, 37}, 1), b = floats({2, 30, 40, 37}, 2);
  compareLast({"Concat", {{"axis", int64_t{1}}}, {a, b, a}, 1}, 0);
  compareLast(
      {"Slice",
       {{"starts", std::vector<int64_t>{5}}, {"ends", std::vector<int64_t>{19}}, {"axes", std::vector<int64_t>{1}}},
       {b},
       1},
      0);
}

// Matrices that a program packs while it runs.
TEST(PackedMatrices, are_those_of_the_layout) {
  for (const cpu::Transposed transposed : {cpu::Transposed::kNo, cpu::Transposed::kYes})
    for (const Shape &shape : {Shape{3, 5}, Shape{129, 200}, Shape{513, 31}, Shape{3, 40, 70}, Shape{1, 1}}) {
      const TensorData matrix = floats(shape, 1);
      const Layout *panels = cpu::matrixPanels(transposed);
      const LayoutOp reorder{{"Reorder", {}, {matrix}, 1}, nullptr, panels};
      for (const int threads : {1, 2, 64})
        EXPECT_EQ(reorder.run({matrix.info()}, threads, false)[0], stored(matrix, panels)) << toText(shape);
    }
}

}  // namespace
}  // namespace popart
