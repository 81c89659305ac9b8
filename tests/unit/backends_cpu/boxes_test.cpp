// RoiAlign, MaxRoiPool and their gradients against the reference backend: boxes inside, partly and wholly outside of
// maps, of no size and upside down, in maps of odd sizes, with every instruction set and any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "../support/against_reference.hpp"
#include "../support/halves.hpp"
#include "../support/instruction_sets.hpp"

namespace popart {
namespace {

using test::floats;
constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

struct Boxes {
  int64_t count;
  std::vector<float> corners;  // (x1, y1, x2, y2)
  std::vector<int64_t> images;
};

Boxes boxesIn(const Shape &maps, int64_t count) {
  std::mt19937 random(7);
  const auto along = [&](int64_t size) {
    return static_cast<float>(random() % 1000) / 500.0f * static_cast<float>(size) - static_cast<float>(size) / 2;
  };
  Boxes boxes{count, {}, {}};
  for (int64_t n = 0; n < count; ++n) {
    float x[2] = {along(maps[3]), along(maps[3])}, y[2] = {along(maps[2]), along(maps[2])};
    if (n % 5 != 4) std::sort(x, x + 2), std::sort(y, y + 2);
    if (n % 7 == 6) x[1] = x[0], y[1] = y[0];
    if (n % 11 == 10) y[0] += 100.5f, y[1] += 300;
    boxes.corners.insert(boxes.corners.end(), {x[0], y[0], x[1], y[1]});
    boxes.images.push_back(static_cast<int64_t>(random()) % maps[0]);
  }
  return boxes;
}

TensorData ofType(DataType type, const Shape &shape, const std::vector<float> &values) {
  if (type == DataType::FLOAT) return TensorData::of<float>(shape, values);
  return TensorData(TensorInfo(type, shape), test::halved(type, values).data());
}
TensorData randomOf(DataType type, const Shape &shape, int seed) {
  return ofType(type, shape, test::numbers(elementCount(shape), seed));
}
constexpr DataType kTypes[] = {DataType::FLOAT, DataType::FLOAT16, DataType::BFLOAT16};
double toleranceOf(DataType type) { return type == DataType::FLOAT ? 1e-5 : type == DataType::FLOAT16 ? 2e-3 : 1.6e-2; }

void check(const SingleOp &op, double tolerance) {
  test::compareWithReference(op, tolerance);
  test::expectSameOnThreads(op);
}

struct Align {
  Shape maps;
  int64_t boxes, rows, columns, ratio;
  float scale = 1;
  std::string mode = "avg", coordinates = "output_half_pixel";

  Attributes attributes() const {
    return {{"output_height", rows},
            {"output_width", columns},
            {"sampling_ratio", ratio},
            {"spatial_scale", scale},
            {"mode", mode},
            {"coordinate_transformation_mode", coordinates}};
  }
};

void check(const Align &a, DataType type, const std::vector<float> &values, double tolerance) {
  const Boxes boxes = boxesIn(a.maps, a.boxes);
  // float32 boxes with all maps: in 16 bits they would be others.
  const TensorData corners = TensorData::of<float>({a.boxes, 4}, boxes.corners),
                   images = TensorData::of<int64_t>({a.boxes}, boxes.images), x = ofType(type, a.maps, values);
  check({"RoiAlign", a.attributes(), {x, corners, images}, 1}, tolerance);
  Attributes back = a.attributes();
  back.set("fwd_shape", a.maps);
  SingleOp gradient{
      "RoiAlignGrad", back, {randomOf(type, {a.boxes, a.maps[1], a.rows, a.columns}, 5), corners, images}, 1};
  if (a.mode == "max") gradient.inputs.push_back(x);
  check(gradient, 8 * tolerance);  // sums over boxes
}
void check(const Align &a, DataType type, double tolerance) {
  check(a, type, test::numbers(elementCount(a.maps), 3), tolerance);
}

TEST(CpuBoxes, MeansOfSamples) {
  for (const std::string coordinates : {"output_half_pixel", "half_pixel"})
    for (const Align &a : {Align{{2, 3, 6, 5}, 9, 2, 3, 2}, Align{{1, 19, 33, 70}, 23, 7, 7, 0},
                           Align{{3, 1, 1, 1}, 8, 1, 1, 3}, Align{{2, 40, 17, 16}, 31, 9, 17, 1, 0.25f},
                           Align{{1, 5, 40, 3}, 13, 20, 2, 5, 2.0f}, Align{{2, 2, 1, 90}, 12, 3, 8, 0, 0.5f}}) {
      Align with = a;
      with.coordinates = coordinates;
      check(with, DataType::FLOAT, toleranceOf(DataType::FLOAT));
    }
}

TEST(CpuBoxes, MeansOfHalves) {
  for (const DataType type : test::kHalfTypes)
    for (const Align &a : {Align{{2, 3, 6, 5}, 9, 2, 3, 2}, Align{{1, 19, 33, 70}, 23, 7, 7, 0}})
      check(a, type, toleranceOf(type));
}

// The largest element and its place are the reference's own: the gradient finds the same ones.
TEST(CpuBoxes, MaximaOfSamples) {
  for (const DataType type : kTypes)
    for (const Align &a : {Align{{2, 3, 6, 5}, 9, 2, 3, 2}, Align{{1, 9, 33, 20}, 23, 7, 7, 0},
                           Align{{2, 4, 17, 16}, 31, 9, 17, 1, 0.25f}, Align{{1, 2, 40, 3}, 13, 20, 2, 3, 2.0f}}) {
      Align with = a;
      with.mode = "max";
      check(with, type, type == DataType::FLOAT ? 1e-6 : toleranceOf(type));
      with.coordinates = "half_pixel";
      check(with, type, type == DataType::FLOAT ? 1e-6 : toleranceOf(type));
    }
}

TEST(CpuBoxes, NumbersThatAreNone) {
  const Align a{{1, 2, 12, 13}, 9, 3, 4, 2};
  std::vector<float> values = test::numbers(elementCount(a.maps), 3);
  for (size_t i = 0; i < values.size(); i += 29) values[i] = i % 2 == 0 ? kInfinity : kNan;
  for (const std::string mode : {"avg", "max"}) {
    Align with = a;
    with.mode = mode;
    const Boxes boxes = boxesIn(a.maps, a.boxes);
    test::compareWithReference({"RoiAlign",
                                with.attributes(),
                                {TensorData::of<float>(a.maps, values), TensorData::of<float>({9, 4}, boxes.corners),
                                 TensorData::of<int64_t>({9}, boxes.images)},
                                1},
                               1e-5);
  }
}

// Neither backend looks at all of their samples, 10^12 in one box.
TEST(CpuBoxes, BoxesFarLargerThanMaps) {
  const std::vector<float> corners = {-3e6f, -1e6f, 5e6f, 2e6f, 1e9f, 1e9f, 2e9f,      2e9f,
                                      kNan,  0,     1,    1,    0,    0,    kInfinity, 1};
  for (const std::string mode : {"avg", "max"}) {
    const Align a{{1, 2, 12, 13}, 4, 3, 4, 0, 1.0f, mode};
    const SingleOp op{"RoiAlign",
                      a.attributes(),
                      {TensorData::of<float>(a.maps, std::vector<float>(312, 2.0f)),
                       TensorData::of<float>({4, 4}, corners), TensorData::of<int64_t>({4}, std::vector<int64_t>(4))},
                      1};
    test::compareWithReference(op, 1e-5);
    for (const double y : runOp(op, OpBackend::Best)[0].asDoubles()) EXPECT_TRUE(y >= 0 && y <= 2.001) << y;
  }
}

std::vector<float> withImages(const Boxes &boxes) {
  std::vector<float> result;
  for (int64_t n = 0; n < boxes.count; ++n) {
    result.push_back(static_cast<float>(boxes.images[static_cast<size_t>(n)]));
    result.insert(result.end(), boxes.corners.begin() + 4 * n, boxes.corners.begin() + 4 * n + 4);
  }
  return result;
}

void checkPool(const Shape &maps, int64_t count, const std::vector<int64_t> &bins, float scale, DataType type,
               const std::vector<float> &values) {
  const TensorData x = ofType(type, maps, values), boxes = ofType(type, {count, 5}, withImages(boxesIn(maps, count)));
  const Attributes attributes{{"pooled_shape", bins}, {"spatial_scale", scale}};
  check({"MaxRoiPool", attributes, {x, boxes}, 1}, 0);
  check({"MaxRoiPoolGrad", attributes, {randomOf(type, {count, maps[1], bins[0], bins[1]}, 5), x, boxes}, 1},
        8 * toleranceOf(type));
}

TEST(CpuBoxes, MaximaOfBins) {
  for (const DataType type : kTypes)
    for (const bool hasNan : {false, true})
      for (const auto &[maps, bins] :
           std::vector<std::pair<Shape, std::vector<int64_t>>>{{{2, 3, 6, 5}, {2, 3}},
                                                               {{1, 19, 33, 70}, {7, 7}},
                                                               {{3, 1, 1, 1}, {1, 1}},
                                                               {{2, 20, 17, 16}, {9, 17}},
                                                               {{1, 5, 40, 3}, {20, 2}}}) {
        std::vector<float> values = test::integers(elementCount(maps), 4);  // many are equal
        for (size_t i = 0; hasNan && i < values.size(); i += 37) values[i] = i % 2 == 0 ? -kInfinity : kNan;
        for (const float scale : {1.0f, 0.25f, 2.0f}) checkPool(maps, 23, bins, scale, type, values);
      }
}

TEST(CpuBoxes, EveryInstructionSet) {
  test::forAllInstructionSets([] {
    check(Align{{2, 3, 16, 35}, 9, 7, 7, 2}, DataType::FLOAT, 1e-5);
    check(Align{{2, 3, 16, 35}, 9, 7, 7, 2}, DataType::FLOAT16, toleranceOf(DataType::FLOAT16));
    checkPool({2, 3, 16, 35}, 9, {7, 7}, 1, DataType::FLOAT, test::numbers(2 * 3 * 16 * 35, 3));
    checkPool({2, 3, 16, 35}, 9, {7, 7}, 1, DataType::BFLOAT16, test::numbers(2 * 3 * 16 * 35, 3));
  });
}

TEST(CpuBoxes, NumberOfAnImageOutOfRange) {
  const TensorData x = floats({2, 3, 6, 5}, 1);
  const TensorData corners = TensorData::of<float>({2, 4}, std::vector<float>{0, 0, 4, 4, 1, 1, 2, 2});
  for (const int64_t image : {-1, 2}) {
    const TensorData images = TensorData::of<int64_t>({2}, std::vector<int64_t>{1, image});
    for (const int threads : {1, 2, 3}) {
      const OpRun run{OpBackend::Best, OpOperands::Plain, threads, 1};
      EXPECT_THROW(runOp({"RoiAlign", {}, {x, corners, images}, 1}, run), runtime_error);
      EXPECT_THROW(
          runOp({"RoiAlignGrad", {{"fwd_shape", Shape{2, 3, 6, 5}}}, {floats({2, 3, 1, 1}, 2), corners, images}, 1},
                run),
          runtime_error);
    }
  }
  const Attributes pool{{"pooled_shape", std::vector<int64_t>{2, 2}}};
  for (const float image : {-1.0f, 2.0f, kNan}) {
    const TensorData boxes = TensorData::of<float>({1, 5}, std::vector<float>{image, 0, 0, 4, 4});
    EXPECT_THROW(runOp({"MaxRoiPool", pool, {x, boxes}, 1}, OpBackend::Best), runtime_error);
    EXPECT_THROW(runOp({"MaxRoiPoolGrad", pool, {floats({1, 3, 2, 2}, 2), x, boxes}, 1}, OpBackend::Best),
                 runtime_error);
  }
}

}  // namespace
}  // namespace popart
