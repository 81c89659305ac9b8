// Kernels that cut their work for the number of threads, or into rounds, at shapes large enough for it: the reference's
// numbers, and the same bits with every number of threads.
#include <gtest/gtest.h>

#include <tuple>

#include "../support/against_reference.hpp"
#include "../support/instruction_sets.hpp"

namespace popart {
namespace {

using test::floats;

// The reference's values, and the same bits with 1, 2, 3, 8 and 64 threads. The tolerance is relative above 1; infinity
// and NaN are where the reference has them.
void compare(const SingleOp &op, double tolerance) {
  EXPECT_TRUE(opFallbacks(op).empty()) << op.type << " runs on the reference";
  const auto want = runOp(op, OpBackend::Reference);
  const auto one = runOp(op, OpRun{OpBackend::Best, OpOperands::Plain, 1, 1});
  for (size_t o = 0; o < want.size(); ++o) {
    const auto a = one[o].asDoubles(), b = want[o].asDoubles();
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::fabs(b[i])))
          << op.type << " output " << o << " [" << i << "]";
    }
  }
  test::expectSameOnThreads(op);
}

TensorData positive(const Shape &shape, int seed) {
  std::vector<float> values = test::numbers(elementCount(shape), seed);
  for (float &v : values) v = std::fabs(v) + 0.5f;
  return TensorData::of<float>(shape, values);
}

TEST(CpuThreads, batch_normalisation_of_a_large_batch) {
  for (const Shape &x : {Shape{3, 70, 37, 50}, Shape{2, 5, 200, 201}, Shape{1, 130, 64, 64}}) {
    const Shape c{x[1]};
    const TensorData values = floats(x, 1), scale = floats(c, 2), mean = floats(c, 4), variance = positive(c, 5);
    const Attributes training{{"training_mode", int64_t{1}}};
    compare({"BatchNormalization", training, {values, scale, floats(c, 3), mean, variance}, 3}, 2e-5);
  }
}

TEST(CpuThreads, gradient_of_batch_normalisation_of_a_large_batch) {
  for (const Shape &x : {Shape{3, 70, 37, 50}, Shape{2, 5, 200, 201}}) {
    const Shape c{x[1]};
    compare({"BatchNormalizationGrad", {}, {floats(x, 1), floats(x, 2), floats(c, 3), floats(c, 4), positive(c, 5)}, 3},
            3e-4);  // sums of up to 80,400 terms
  }
}

// In plain memory: few large sets, which are cut into leaves, many small ones, and some in between.
TEST(CpuThreads, group_normalisation_in_plain_memory) {
  for (const auto &[x, groups] : std::vector<std::pair<Shape, int64_t>>{
           {{1, 6, 129, 130}, 1}, {{1, 6, 129, 130}, 2}, {{2, 12, 37, 50}, 3}, {{3, 70, 37, 5}, 70}, {{5, 8, 3}, 4}})
    compare({"GroupNormalization", {{"num_groups", groups}}, {floats(x, 1), floats({x[1]}, 2), floats({x[1]}, 3)}, 3},
            2e-5);
}

TEST(CpuThreads, pools_and_response_normalisation_in_plain_memory) {
  const TensorData x = floats({3, 5, 61, 70}, 1);
  const Attributes window{{"kernel_shape", std::vector<int64_t>{3, 3}},
                          {"strides", std::vector<int64_t>{2, 2}},
                          {"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  const TensorData g = floats({3, 5, 31, 35}, 2);
  compare({"MaxPool", window, {x}, 1}, 0);
  compare({"MaxPoolGrad", window, {g, x}, 1}, 1e-5);
  compare({"AveragePool", window, {x}, 1}, 1e-5);
  Attributes back = window;
  back.set("fwd_shape", Shape{3, 5, 61, 70});
  compare({"AveragePoolGrad", back, {g}, 1}, 1e-5);
  const Attributes response{{"size", int64_t{3}}};
  compare({"LRN", response, {x}, 1}, 1e-5);
  compare({"LRNGrad", response, {floats({3, 5, 61, 70}, 3), x}, 1}, 1e-5);
}

TEST(CpuThreads, gradient_of_group_normalisation_in_plain_memory) {
  for (const auto &[x, groups] :
       std::vector<std::pair<Shape, int64_t>>{{{1, 6, 129, 130}, 2}, {{2, 12, 37, 50}, 3}, {{3, 70, 37, 5}, 70}}) {
    const Shape sets{x[0] * groups}, c{x[1]};
    compare({"GroupNormalizationGrad",
             {{"num_groups", groups}},
             {floats(x, 1), floats(x, 2), floats(c, 3), floats(sets, 4), positive(sets, 5)},
             3},
            3e-4);  // sums of up to 50,310 terms
  }
}

TEST(CpuThreads, reductions_of_many_places) {
  for (const char *type : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceLogSumExp"})
    for (const std::vector<int64_t> &axes : {std::vector<int64_t>{0, 2, 3}, std::vector<int64_t>{2, 3}}) {
      TensorData x = floats({3, 7, 90, 101}, 1);
      compare({type, {{"axes", axes}, {"keepdims", int64_t{1}}}, {x}, 1}, 1e-4);
      static_cast<float *>(x.mutableData())[40000] = NAN;
      const auto y = runOp({type, {{"axes", axes}, {"keepdims", int64_t{1}}}, {x}, 1}, OpBackend::Best)[0].asDoubles();
      EXPECT_EQ(std::count_if(y.begin(), y.end(), [](double v) { return std::isnan(v); }), 1);
    }
}

TEST(CpuThreads, layer_normalisation_gradient_of_few_columns) {
  const TensorData x = floats({700, 96}, 1), g = floats({700, 96}, 2), scale = floats({96}, 3);
  const auto forward = runOp({"LayerNormalization", {{"axis", int64_t{1}}}, {x, scale}, 3}, OpBackend::Reference);
  compare({"LayerNormalizationGrad", {{"axis", int64_t{1}}}, {g, x, scale, forward[1], forward[2]}, 3}, 1e-4);
}

TEST(CpuThreads, sums_over_many_rows) {
  compare({"ReduceSum", {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}}, {floats({3000, 100}, 1)}, 1},
          1e-4);
}

template <class T>
TensorData wholeNumbers(const Shape &shape, int seed) {
  std::vector<T> values;
  for (float v : test::numbers(elementCount(shape), seed)) values.push_back(static_cast<T>(static_cast<int>(v * 128)));
  return TensorData::of<T>(shape, values);
}

TEST(CpuThreads, products_and_convolutions_of_bytes) {
  const TensorData zero = TensorData::scalar<int8_t>(-7), zeros = wholeNumbers<int8_t>({200}, 3);
  compare({"IntegerMatMul", {}, {wholeNumbers<int8_t>({130, 1100}, 1), wholeNumbers<uint8_t>({1100, 300}, 2), zero}, 1},
          0);
  compare({"IntegerConv",
           {{"pads", std::vector<int64_t>{1, 1, 1, 1}}},
           {wholeNumbers<int8_t>({1, 150, 19, 23}, 1), wholeNumbers<int8_t>({200, 150, 3, 3}, 2), zero, zeros},
           1},
          0);
}

// With bias, scale and zero point of the result: dense, pointwise, in groups that share a matrix, and of single
// channels.
TEST(CpuThreads, convolutions_of_bytes_that_are_quantised) {
  const TensorData zero = TensorData::scalar<int8_t>(-7), scale = TensorData::scalar<float>(0.0017f);
  struct Shapes {
    Shape x, w;
    int64_t groups, pad;
  };
  for (const auto &[x, w, groups, pad] :
       {Shapes{{2, 40, 19, 23}, {70, 40, 3, 3}, 1, 1}, Shapes{{3, 64, 17, 11}, {130, 64, 1, 1}, 1, 0},
        Shapes{{2, 48, 13, 11}, {96, 4, 3, 3}, 12, 1}, Shapes{{2, 77, 30, 21}, {77, 1, 3, 3}, 77, 1}})
    compare({"IntegerConv",
             {{"group", groups}, {"pads", std::vector<int64_t>{pad, pad, pad, pad}}},
             {wholeNumbers<int8_t>(x, 1), wholeNumbers<int8_t>(w, 2), zero, TensorData(),
              wholeNumbers<int32_t>({w[0]}, 3), scale, TensorData::scalar<uint8_t>(100)},
             1},
            0);
}

TEST(CpuThreads, gradient_of_a_large_embedding) {
  std::vector<int32_t> indices;
  for (int i = 0; i < 500; ++i) indices.push_back(i * 37 % 9000);
  compare({"GatherGrad",
           {{"axis", int64_t{0}}, {"fwd_shape", std::vector<int64_t>{9000, 70}}},
           {floats({500, 70}, 1), TensorData::of<int32_t>({500}, indices)},
           1},
          1e-5);
}

// Short and long ones, of few and of many columns.
TEST(CpuThreads, reductions_and_softmax_of_columns) {
  for (const Shape &shape : {Shape{3, 90, 300}, Shape{1, 1000, 1030}, Shape{2, 5000, 40}, Shape{70, 4, 5}}) {
    TensorData x = floats(shape, 1);
    for (const char *type : {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceLogSumExp"})
      compare({type, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}}, {x}, 1}, 1e-4);
    for (const char *type : {"Softmax", "LogSoftmax"}) compare({type, {{"axis", int64_t{1}}}, {x}, 1}, 1e-5);
    // A column with NaN is all NaN, one with -inf has a zero there.
    static_cast<float *>(x.mutableData())[1] = NAN;
    static_cast<float *>(x.mutableData())[2] = -INFINITY;
    const auto y = runOp({"Softmax", {{"axis", int64_t{1}}}, {x}, 1}, OpBackend::Best)[0].asDoubles();
    EXPECT_EQ(std::count_if(y.begin(), y.end(), [](double v) { return std::isnan(v); }), shape[1]);
    EXPECT_EQ(y[2], 0);
    const Attributes over{{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}};
    const auto top = runOp({"ReduceMax", over, {x}, 1}, OpBackend::Best)[0].asDoubles();
    EXPECT_EQ(std::count_if(top.begin(), top.end(), [](double v) { return std::isnan(v); }), 1);
  }
}

// Of few and many rows, in one and in several slices; cut in ranges of rows for some numbers of threads.
const Shape kColumnShapes[] = {{1, 1000, 1030}, {1, 301, 130}, {2, 5000, 40}, {3, 90, 300}, {5, 257, 65},
                               {1, 17, 3000},   {1, 16400, 3}, {9, 1, 700},   {70, 4, 5},   {4, 0, 3}};

void compareSoftmax(const TensorData &x, const TensorData &dy) {
  for (const std::string type : {"Softmax", "LogSoftmax"}) {
    const SingleOp forward{type, {{"axis", int64_t{1}}}, {x}, 1};
    compare(forward, 1e-5);
    compare({type + "Grad", {{"axis", int64_t{1}}}, {dy, runOp(forward, OpBackend::Reference)[0]}, 1}, 2e-5);
  }
}

TEST(CpuThreads, softmax_of_columns_and_its_gradient) {
  for (const Shape &shape : kColumnShapes) compareSoftmax(floats(shape, 1), floats(shape, 2));
}

// In the first, the middle and the last row of some columns.
TEST(CpuThreads, softmax_of_columns_with_numbers_that_are_not_finite) {
  const Shape shape{1, 301, 130};
  for (const int64_t row : {0, 150, 300}) {
    TensorData x = floats(shape, 1), dy = floats(shape, 2);
    for (const int64_t column : {3, 50, 127}) {
      float *at = static_cast<float *>(x.mutableData()) + row * 130 + column;
      at[0] = NAN, at[1] = -INFINITY, at[2] = INFINITY;
      float *of = static_cast<float *>(dy.mutableData()) + row * 130 + column - 2;
      of[0] = INFINITY, of[1] = -INFINITY, of[2] = NAN;
    }
    test::forAllInstructionSets([&] { compareSoftmax(x, dy); });
  }
}

// Equal dy, and columns whose probability is at one position: the gradient is zero, independent of how y was rounded.
TEST(CpuThreads, gradient_of_softmax_of_columns_is_zero_where_mathematics_says_so) {
  for (const Shape &shape : kColumnShapes) {
    const Attributes axis{{"axis", int64_t{1}}};
    const TensorData y = runOp({"Softmax", axis, {floats(shape, 1)}, 1}, OpBackend::Reference)[0];
    std::vector<float> same(static_cast<size_t>(elementCount(shape)), 0.7f), one(same.size(), 0.0f);
    for (int64_t outer = 0; outer < shape[0] && shape[1] > 0; ++outer)
      for (int64_t column = 0; column < shape[2]; ++column)
        one[static_cast<size_t>((outer * shape[1] + column * 7 % shape[1]) * shape[2] + column)] = 1.0f;
    for (const auto &[dy, of] : {std::pair{TensorData::of<float>(shape, same), y},
                                 std::pair{floats(shape, 2), TensorData::of<float>(shape, one)}})
      for (const int threads : {1, 2, 8}) {
        const auto dx =
            runOp({"SoftmaxGrad", axis, {dy, of}, 1}, OpRun{OpBackend::Best, OpOperands::Plain, threads, 1});
        for (const double v : dx[0].asDoubles()) ASSERT_EQ(v, 0);
      }
  }
}

// Lines that are masked whole are NaN. Where they were replaced dy is 0, and so is dx; other lines are as they were.
TEST(CpuThreads, gradient_of_softmax_is_zero_where_nothing_reads_a_masked_line) {
  for (const Shape &shape : {Shape{1, 301, 130}, Shape{3, 90, 40}, Shape{70, 4, 5}})
    for (const int64_t axis : {1, 2})
      for (const std::string type : {"Softmax", "LogSoftmax"}) {
        TensorData x = floats(shape, 1), dy = floats(shape, 2);
        const int64_t length = shape[axis], stride = axis == 1 ? shape[2] : 1;
        for (int64_t i = 0; i < length; ++i) {
          static_cast<float *>(x.mutableData())[i * stride] = -INFINITY;
          static_cast<float *>(dy.mutableData())[i * stride] = 0;
        }
        const SingleOp forward{type, {{"axis", axis}}, {x}, 1};
        const TensorData y = runOp(forward, OpBackend::Reference)[0];
        ASSERT_TRUE(std::isnan(y.asDoubles()[0]));
        for (const OpBackend backend : {OpBackend::Reference, OpBackend::Best}) {
          const auto dx = runOp({type + "Grad", {{"axis", axis}}, {dy, y}, 1}, backend)[0].asDoubles();
          for (int64_t i = 0; i < length; ++i) ASSERT_EQ(dx[static_cast<size_t>(i * stride)], 0);
          ASSERT_EQ(std::ranges::count_if(dx, [](double v) { return !std::isfinite(v); }), 0);
          ASSERT_GT(std::ranges::count_if(dx, [](double v) { return v != 0; }), length);
        }
      }
}

// From -length + 1 to length - 1.
TensorData indicesOf(const Shape &shape, int64_t length) {
  std::vector<int64_t> indices;
  for (float v : test::numbers(elementCount(shape), 3))
    indices.push_back(static_cast<int64_t>(v * static_cast<float>(length - 1)));
  return TensorData::of<int64_t>(shape, indices);
}

TEST(CpuThreads, elements_at_indices) {
  for (const int64_t axis : {0, 1, 2}) {
    const Shape data{20, 300, 60};
    for (const Shape &part : {Shape{20, 300, 60}, Shape{7, 40, 60}, Shape{20, 3, 5}}) {
      const TensorData x = floats(data, 1), indices = indicesOf(part, data[static_cast<size_t>(axis)]);
      compare({"GatherElements", {{"axis", axis}}, {x, indices}, 1}, 0);
      for (const char *reduction : {"none", "add", "max"})
        compare({"ScatterElements",
                 {{"axis", axis}, {"reduction", std::string(reduction)}},
                 {x, indices, floats(part, 2)},
                 1},
                1e-5);
    }
    compare({"Gather", {{"axis", axis}}, {floats(data, 1), indicesOf({900}, data[static_cast<size_t>(axis)])}, 1}, 0);
  }
}

// One index for each row of the source, which is read, combined and written as a whole.
TEST(CpuThreads, rows_at_indices) {
  constexpr int64_t kLength = 190;
  for (const auto &[source, axis, group] : std::vector<std::tuple<Shape, int64_t, int64_t>>{{{700, 95}, 0, 1},
                                                                                            {{50, 1030}, 0, 1},
                                                                                            {{3, 400, 67}, 1, 1},
                                                                                            {{3, 400, 67}, 1, 3},
                                                                                            {{2, 3, 90, 5, 7}, 2, 1}}) {
    const auto at = static_cast<size_t>(axis);
    Shape vector(source.size(), 1), result = source;
    vector[at] = source[at];
    if (group > 1) vector[0] = source[0];
    result[at] = kLength;
    const TensorData indices = indicesOf(vector, kLength);
    for (const char *reduction : {"Sum", "Mul", "Max", "Min", "None"}) {
      const Attributes a{
          {"axis", axis}, {"axis_size", kLength}, {"group_size", group}, {"reduction", std::string(reduction)}};
      compare({"ScatterReduce", a, {floats(source, 1), indices}, 1}, 1e-5);
      compare({"ScatterReduce", a, {floats(source, 1), indices, floats(result, 2)}, 1}, 1e-5);
      compare({"ScatterReduce", a, {wholeNumbers<int32_t>(source, 1), indices}, 1}, 0);
      if (a.getAttribute<std::string>("reduction") != "Sum") continue;
      compare({"ScatterReduceGradOp", a, {floats(result, 3), indices, floats(source, 1)}, 1}, 0);
      compare({"ScatterReduceGradOp", a, {floats(result, 3), indices, floats(source, 1), floats(result, 2)}, 2}, 0);
    }
  }
}

TEST(CpuThreads, windows_at_an_offset) {
  using Ints = std::vector<int64_t>;
  for (const auto &[axes, sizes, offset] : std::vector<std::tuple<Ints, Ints, std::vector<int32_t>>>{
           {{0}, {151}, {9}}, {{1}, {1201}, {77}}, {{0, 1}, {160, 1300}, {0, 0}}, {{1, 0}, {700, 33}, {600, 127}}}) {
    const Attributes window{{"axes", axes}, {"sizes", sizes}};
    const TensorData x = floats({160, 1300}, 1),
                     at = TensorData::of<int32_t>({static_cast<int64_t>(offset.size())}, offset);
    compare({"DynamicSlice", window, {x, at}, 1}, 0);
    const TensorData part = runOp({"DynamicSlice", window, {floats({160, 1300}, 2), at}, 1}, OpBackend::Reference)[0];
    compare({"DynamicUpdate", window, {x, at, part}, 1}, 0);
    compare({"DynamicAdd", window, {x, at, part}, 1}, 0);
    compare({"DynamicZero", window, {x, at}, 1}, 0);
  }
}

TEST(CpuThreads, slices_at_coordinates) {
  const TensorData pairs = indicesOf({9001, 2}, 61), batches = indicesOf({5, 333, 1}, 61);
  for (const Shape &data : {Shape{61, 67}, Shape{61, 64, 2}, Shape{61, 70, 3}}) {
    compare({"GatherND", {}, {floats(data, 1), pairs}, 1}, 0);
    const TensorData g = runOp({"GatherND", {}, {floats(data, 2), pairs}, 1}, OpBackend::Reference)[0];
    compare({"GatherNDGrad", {{"batch_dims", int64_t{0}}, {"fwd_shape", data}}, {g, pairs}, 1}, 1e-5);
  }
  compare({"GatherND", {{"batch_dims", int64_t{1}}}, {floats({5, 61, 9}, 1), batches}, 1}, 0);
}

// ---- connectionist temporal classification

struct Alignments {
  TensorData logProbs, targets, steps, lengths;
};
// Labels differ from the blank 1; every fourth one repeats the one before it. Lengths descend from sample to sample.
Alignments alignments(int64_t steps, int64_t batch, int64_t classes, int64_t targets, float spread) {
  std::vector<float> scores = test::numbers(steps * batch * classes, 5);
  for (float &v : scores) v *= spread;
  std::vector<int32_t> labels, times, lengths;
  for (int64_t i = 0; i < batch * targets; ++i) {
    const auto label = static_cast<int32_t>((i * 37 + i / 5) % (classes - 1));
    labels.push_back(i % 4 == 3 ? labels.back() : label == 1 ? static_cast<int32_t>(classes - 1) : label);
  }
  for (int64_t n = 0; n < batch; ++n) {
    times.push_back(static_cast<int32_t>(std::max<int64_t>(0, steps - 2 * n)));
    lengths.push_back(static_cast<int32_t>(std::max<int64_t>(0, targets - 3 * n)));
  }
  return {runOp({"LogSoftmax", {{"axis", int64_t{2}}}, {TensorData::of<float>({steps, batch, classes}, scores)}, 1},
                OpBackend::Reference)[0],
          TensorData::of<int32_t>({batch, targets}, labels), TensorData::of<int32_t>({batch}, times),
          TensorData::of<int32_t>({batch}, lengths)};
}

void compareCtc(const Alignments &x, int64_t zeroInfinity, double tolerance) {
  const int64_t batch = x.steps.info().nelms();
  for (const std::string reduction : {"Mean", "Sum", "NoReduction"}) {
    const Attributes a{{"reduction", reduction}, {"blank", int64_t{1}}, {"zeroInfinity", zeroInfinity}};
    const TensorData g = reduction == "NoReduction" ? floats({batch}, 3) : TensorData::scalar<float>(1.5f);
    compare({"Ctc", a, {x.logProbs, x.targets, x.steps, x.lengths}, 1}, tolerance);
    compare({"CtcGrad", a, {x.logProbs, x.targets, x.steps, x.lengths, g}, 1}, tolerance);
  }
}

TEST(CpuThreads, ctc_of_samples_of_any_length) {
  compareCtc(alignments(1, 1, 3, 1, 1), 0, 1e-5);
  compareCtc(alignments(6, 3, 4, 2, 3), 0, 1e-5);
  compareCtc(alignments(90, 7, 33, 21, 4), 0, 1e-5);
  compareCtc(alignments(300, 9, 20, 40, 20), 0, 1e-5);  // probabilities down to e^-40 in each step
  compareCtc(alignments(40, 5, 6, 0, 1), 0, 1e-5);      // nothing but blanks
}

TEST(CpuThreads, ctc_of_what_cannot_be_aligned) {
  for (const int64_t zeroInfinity : {0, 1}) {
    compareCtc(alignments(12, 4, 9, 11, 2), zeroInfinity, 1e-5);  // equal neighbours leave no step for their blanks
    Alignments x = alignments(30, 4, 9, 11, 2);
    auto *logProbs = static_cast<float *>(x.logProbs.mutableData());
    for (int64_t i = 0; i < x.logProbs.info().nelms(); i += 7) logProbs[i] = -INFINITY;
    compareCtc(x, zeroInfinity, 1e-5);
    logProbs[9] = NAN;
    compareCtc(x, zeroInfinity, 1e-5);
  }
}

// Where the targets are far less likely than blanks, the alignments that end with them are lost in sums that are not
// kept apart: e^-60 for each of 40 labels.
TEST(CpuThreads, ctc_of_targets_that_are_hardly_possible) {
  Alignments x = alignments(120, 2, 9, 40, 1);
  auto *logProbs = static_cast<float *>(x.logProbs.mutableData());
  for (int64_t i = 0; i < x.logProbs.info().nelms(); ++i) {
    const bool isLate = i / 18 >= 60;  // from here on a blank is as unlikely as a label
    logProbs[i] = i % 9 == 1 && !isLate ? -1e-3f : -60.0f - static_cast<float>(i % 7);
  }
  compareCtc(x, 0, 2e-5);
}

TEST(CpuThreads, ctc_in_sixteen_bits) {
  for (const DataType type : {DataType::FLOAT16, DataType::BFLOAT16}) {
    Alignments x = alignments(70, 5, 12, 17, 3);
    x.logProbs = runOp({"Cast", {{"to", static_cast<int64_t>(type == DataType::FLOAT16 ? 10 : 16)}}, {x.logProbs}, 1},
                       OpBackend::Reference)[0];
    const Attributes a{{"reduction", std::string("Sum")}, {"blank", int64_t{1}}};
    const TensorData one = TensorData::scalar<float>(1.0f);
    compare({"Ctc", a, {x.logProbs, x.targets, x.steps, x.lengths}, 1}, 1e-2);
    compare({"CtcGrad",
             a,
             {x.logProbs, x.targets, x.steps, x.lengths,
              runOp({"Cast", {{"to", static_cast<int64_t>(type == DataType::FLOAT16 ? 10 : 16)}}, {one}, 1},
                    OpBackend::Reference)[0]},
             1},
            1e-2);
  }
}

// The same message as the reference's, whichever of the numbers is out of its range.
TEST(CpuThreads, ctc_reports_labels_and_lengths) {
  const auto messageOf = [](const SingleOp &op, OpBackend backend) -> std::string {
    try {
      runOp(op, backend);
    } catch (const runtime_error &e) {
      return e.what();
    }
    return "no failure";
  };
  for (const size_t operand : {1, 2, 3})
    for (const int32_t wrong : {-1, 1000}) {
      const Alignments x = alignments(20, 6, 7, 5, 1);
      SingleOp op{"Ctc", {{"blank", int64_t{1}}}, {x.logProbs, x.targets, x.steps, x.lengths}, 1};
      static_cast<int32_t *>(op.inputs[operand].mutableData())[operand == 1 ? 6 : 3] = wrong;
      const std::string want = messageOf(op, OpBackend::Reference);
      EXPECT_NE(want.find("input " + std::to_string(operand)), std::string::npos) << want;
      EXPECT_EQ(messageOf(op, OpBackend::Best), want);
    }
}

}  // namespace
}  // namespace popart
