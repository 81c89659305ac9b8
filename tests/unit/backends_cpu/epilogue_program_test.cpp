// Epilogues as kernels bind them, from the graph of a body to memory: against the element engine running the whole
// body over plain arrays, to the bit, in every type and arrangement of rows; and the time of each instruction as an
// epilogue.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>

#include "../support/halves.hpp"
#include "../support/program.hpp"
#include "backends/cpu/element_operands.hpp"
#include "backends/cpu/element_table.hpp"
#include "backends/cpu/epilogue_match.hpp"
#include "backends/cpu/kernels/micro_kernel.hpp"

namespace popart {
namespace {

using namespace cpu;
using executable::OperandDesc;
using test::GraphBuilder;
using test::numbers;

// Elements of any type, `rows` rows `stride` elements apart.
struct Array {
  DataType type;
  int64_t rows, cols, stride;
  std::vector<char> bytes;

  Array(DataType type, int64_t rows, int64_t cols, int64_t stride)
      : type(type), rows(rows), cols(cols), stride(stride), bytes(static_cast<size_t>(rows * stride * size()), 0x55) {}
  int64_t size() const { return getDataTypeInfo(type).nbytes; }
  char *at(int64_t row, int64_t col) { return bytes.data() + (row * stride + col) * size(); }
  void fill(int seed) {
    const std::vector<float> x = numbers(rows * cols, seed);
    for (int64_t i = 0; i < rows * cols; ++i) {
      char *to = at(i / cols, i % cols);
      if (type == DataType::BOOL)
        *to = x[i] > 0;
      else if (type == DataType::FLOAT)
        std::memcpy(to, &x[i], sizeof(float));
      else
        std::memcpy(to, test::halved(type, {x[i]}).data(), sizeof(uint16_t));
    }
  }
  // The same numbers without gaps between rows.
  Array packed() {
    Array plain(type, rows, cols, cols);
    for (int64_t r = 0; r < rows; ++r) std::memcpy(plain.at(r, 0), at(r, 0), static_cast<size_t>(cols * size()));
    return plain;
  }
};

struct Geometry {
  int64_t rows, cols, stride;
};
// A tile, one wide and low, short rows that are contiguous, rows longer than a block, one row of a plane.
const Geometry kGeometries[] = {{14, 32, 100},   {6, 13, 40},     {2, 64, 64},
                                {3, 1100, 1203}, {1, 2000, 2000}, {40, 32, 33}};

using Body = std::function<void(GraphBuilder &, TensorIndex)>;

std::vector<OperandDesc> operandsOf(const Graph &graph, const std::vector<TensorIndex> &tensors) {
  std::vector<OperandDesc> found;
  for (TensorIndex t : tensors) found.push_back({.info = graph.info(t)});
  return found;
}

// Runs a body behind `sums` as kernels do, and over arrays as the element engine does.
class Comparison {
 public:
  Comparison(const Body &make, DataType type, const Geometry &g) : g_(g), graph_(ir_.createGraph(GraphId("body"))) {
    GraphBuilder b(graph_);
    make(b, b.input("p", {g.rows, g.cols}, type));
  }

  void run(const EpilogueTarget &target, const std::string &what) {
    std::string reason;
    const auto matched = matchEpilogue(graph_, target, reason);
    ASSERT_TRUE(matched) << what << ": " << reason;
    const std::vector<Array> want = expected();
    std::vector<Array> inputs = makeInputs(), results;
    std::vector<const void *> in{nullptr, nullptr};
    std::vector<void *> out;
    for (size_t i = 1; i < inputs.size(); ++i) in.push_back(inputs[i].bytes.data());
    for (TensorIndex t : graph_.outputs()) results.emplace_back(graph_.info(t).dataType(), g_.rows, g_.cols, g_.stride);
    for (Array &r : results) out.push_back(r.bytes.data());
    // A result over the first operand that allows it.
    const Array *overwritten = nullptr;
    for (size_t i = 1; i < inputs.size() && !overwritten; ++i)
      if (matched->canOverwrite(static_cast<int>(i) - 1, matched->output))
        overwritten = &inputs[i], out[static_cast<size_t>(matched->output)] = inputs[i].bytes.data();
    std::vector<char> scratch(static_cast<size_t>(matched->scratchBytes()) + 128);
    void *aligned = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
    const executable::KernelArgs args{in.data(), out.data(), aligned, context_};
    matched->bind(args, 2, [&](const Epilogue &e, float *) {
      std::vector<float> sums(static_cast<size_t>(g_.rows * (g_.cols + 5)));
      for (int64_t i = 0; i < g_.rows * g_.cols; ++i) sums[i / g_.cols * (g_.cols + 5) + i % g_.cols] = products_[i];
      const auto half = static_cast<int64_t>(g_.rows / 2);  // as two blocks
      void *y = out[static_cast<size_t>(matched->output)];
      applyEpilogue(e, sums.data(), g_.cols + 5, y, g_.stride, half, g_.cols);
      applyEpilogue(e.at(half * g_.stride, 0), sums.data() + half * (g_.cols + 5), g_.cols + 5,
                    elementAt(y, half * g_.stride, e.type), g_.stride, g_.rows - half, g_.cols);
    });
    for (size_t o = 0; o < results.size(); ++o) {
      const bool isOver = overwritten && o == static_cast<size_t>(matched->output);
      Array got = isOver ? *overwritten : results[o];
      EXPECT_EQ(got.packed().bytes, want[o].bytes) << what << ", result " << o;
      for (int64_t r = 0; r < g_.rows && !isOver; ++r)
        for (int64_t c = g_.cols * got.size(); c < g_.stride * got.size(); ++c)
          ASSERT_EQ(got.at(r, 0)[c], 0x55) << what << ": wrote between rows";
    }
  }

 private:
  std::vector<Array> makeInputs() const {
    std::vector<Array> inputs;
    for (TensorIndex t : graph_.inputs()) {
      const TensorInfo &info = graph_.info(t);
      const bool isFull = info.shape() == Shape{g_.rows, g_.cols};
      inputs.emplace_back(info.dataType(), isFull ? g_.rows : 1, isFull ? g_.cols : info.nelms(),
                          isFull ? g_.stride : info.nelms());
      inputs.back().fill(static_cast<int>(inputs.size()));
    }
    return inputs;
  }
  std::vector<Array> expected() {
    std::string reason;
    const auto program = makeElementProgram(elementSource(graph_), operandsOf(graph_, graph_.inputs()),
                                            operandsOf(graph_, graph_.outputs()), reason);
    EXPECT_TRUE(program) << reason;
    std::vector<Array> inputs = makeInputs(), results;
    for (Array &a : inputs) a = a.packed();
    // Sums that are numbers of the type, so that the product's own rounding is none.
    const std::vector<char> &first = inputs[0].bytes;
    products_.resize(static_cast<size_t>(g_.rows * g_.cols));
    for (int64_t i = 0; i < g_.rows * g_.cols; ++i) products_[i] = numberAt(first.data(), i, inputs[0].type);
    std::vector<const void *> in;
    std::vector<void *> out;
    for (Array &a : inputs) in.push_back(a.bytes.data());
    for (TensorIndex t : graph_.outputs()) results.emplace_back(graph_.info(t).dataType(), g_.rows, g_.cols, g_.cols);
    for (Array &r : results) out.push_back(r.bytes.data());
    std::vector<char> scratch(static_cast<size_t>(program->scratchBytes()) + 64);
    for (int task = 0; task < program->tasks(); ++task)
      program->run(in.data(), out.data(), scratch.data(), context_, task);
    return results;
  }

  Geometry g_;
  Ir ir_;
  Graph &graph_;
  std::vector<float> products_;
  std::atomic<bool> failed_ = false;
  executable::RunContext context_{failed_};
};

Shape shapeOf(GraphBuilder &b, TensorIndex t) { return b.graph().info(t).shape(); }
DataType typeOf(GraphBuilder &b, TensorIndex t) { return b.graph().info(t).dataType(); }
TensorIndex matrix(GraphBuilder &b, const char *name, TensorIndex like) {
  return b.input(name, shapeOf(b, like), typeOf(b, like));
}
TensorIndex row(GraphBuilder &b, const char *name, TensorIndex like) {
  return b.input(name, {shapeOf(b, like)[1]}, typeOf(b, like));
}
TensorIndex number(GraphBuilder &b, const char *name, TensorIndex like, float value) {
  const TensorInfo info(typeOf(b, like), {});
  if (info.dataType() == DataType::FLOAT) return b.constant(name, {}, {value});
  const test::Halves bits = test::halved(info.dataType(), {value});
  return b.graph().addConstant(b.graph().addScope(name), TensorData(info, bits.data()));
}

const std::map<std::string, Body> kBodies = {
    {"x sigmoid(x) behind bias and residual",
     [](GraphBuilder &b, TensorIndex p) {
       const auto v = b.op("Add", {b.op("Add", {p, row(b, "b", p)}, "s"), matrix(b, "r", p)}, "v");
       b.graph().markOutput(b.op("Mul", {b.op("Sigmoid", {v}, "g"), v}, "y"));
     }},
    {"HardSwish written out",
     [](GraphBuilder &b, TensorIndex p) {
       const auto v = b.op("Add", {p, row(b, "b", p)}, "v");
       const auto gate =
           b.op("Clip", {b.op("Add", {v, number(b, "3", p, 3)}, "t")}, "g", {{"min", 0.0f}, {"max", 6.0f}});
       b.graph().markOutput(b.op("Div", {b.op("Mul", {v, gate}, "m"), number(b, "6", p, 6)}, "y"));
     }},
    {"GELU written out",
     [](GraphBuilder &b, TensorIndex p) {
       const auto v = b.op("Add", {p, row(b, "b", p)}, "v");
       const auto e = b.op("Erf", {b.op("Div", {v, number(b, "root", p, 1.41421356f)}, "d")}, "e");
       const auto m = b.op("Mul", {v, b.op("Add", {e, number(b, "1", p, 1)}, "a")}, "m");
       b.graph().markOutput(b.op("Mul", {m, number(b, "half", p, 0.5f)}, "y"));
     }},
    {"the value, what an activation gives, and both times a matrix",
     [](GraphBuilder &b, TensorIndex p) {
       const auto v = b.op("Add", {p, matrix(b, "r", p)}, "v"), t = b.op("Tanh", {v}, "t");
       b.graph().markOutput(t);
       b.graph().markOutput(v);
       b.graph().markOutput(b.op("Mul", {b.op("Mul", {v, t}, "m"), matrix(b, "o", p)}, "y"));
     }},
    {"rows and a number after the activation",
     [](GraphBuilder &b, TensorIndex p) {
       const auto t = b.op("Tanh", {p}, "t");
       const auto s = b.op("Mul", {t, row(b, "scale", p)}, "s");
       b.graph().markOutput(
           b.op("Sub", {b.op("Add", {s, row(b, "shift", p)}, "a"), b.input("n", {}, typeOf(b, p))}, "y"));
     }},
    {"an operand that is read twice",
     [](GraphBuilder &b, TensorIndex p) {
       const auto o = matrix(b, "o", p);
       b.graph().markOutput(b.op("Mul", {b.op("Sub", {o, p}, "d"), b.op("Exp", {o}, "e")}, "y"));
     }},
    {"a choice by truth values",
     [](GraphBuilder &b, TensorIndex p) {
       const auto kept = b.input("kept", shapeOf(b, p), DataType::BOOL);
       b.graph().markOutput(b.op("Where", {kept, p, number(b, "0", p, 0)}, "y"));
     }},
    {"truth values",
     [](GraphBuilder &b, TensorIndex p) {
       b.graph().markOutput(b.op("Greater", {p, matrix(b, "o", p)}, "y"));
     }},
};

TEST(EpilogueProgram, gives_the_bits_of_the_element_engine) {
  for (const auto &[name, make] : kBodies)
    for (const DataType type : {DataType::FLOAT, DataType::FLOAT16, DataType::BFLOAT16})
      for (const Geometry &g : kGeometries)
        Comparison(make, type, g)
            .run({.columns = g.cols},
                 name + ", " + toText(type) + ", " + std::to_string(g.rows) + " x " + std::to_string(g.cols));
}

// Every attribute of the row as 0.75, or 1 where it is an integer.
Attributes attributesOf(const OpDef &def) {
  Attributes given;
  for (const AttributeDef &a : def.attributes()) {
    if (a.type == AttributeType::Float) given.set(a.name, 0.75f);
    if (a.type == AttributeType::Int) given.set(a.name, int64_t{1});
  }
  return given;
}

// y = op(p + bias), or op(p + bias, other).
Body bodyOf(const ElementRow &r) {
  return [&r](GraphBuilder &b, TensorIndex p) {
    std::vector<TensorIndex> inputs{b.op("Add", {p, row(b, "b", p)}, "v")};
    if (r.operands == 2) inputs.push_back(matrix(b, "o", p));
    b.graph().markOutput(b.op(r.type, inputs, "y", attributesOf(opDef(r.type))));
  };
}

TEST(EpilogueProgram, gives_the_bits_of_every_row) {
  int compared = 0;
  for (const ElementRow &r : elementRows()) {
    if (r.form != RegisterForm::kFloat) continue;
    for (const DataType type : {DataType::FLOAT, DataType::BFLOAT16})
      Comparison(bodyOf(r), type, {9, 45, 60}).run({.columns = 45}, std::string(r.type) + ", " + toText(type));
    ++compared;
  }
  EXPECT_GT(compared, 60);
}

TEST(EpilogueProgram, refuses_what_is_no_block_of_the_product) {
  const Geometry g{6, 8, 8};
  const auto refusal = [&](const Body &make, EpilogueTarget target) {
    Ir ir;
    GraphBuilder b(ir.createGraph(GraphId("body")));
    make(b, b.input("p", {g.rows, g.cols}));
    std::string reason;
    return matchEpilogue(b.graph(), target, reason) ? "" : reason;
  };
  const auto byColumn = [](GraphBuilder &b, TensorIndex p) {
    b.graph().markOutput(b.op("Mul", {b.op("Tanh", {p}, "t"), b.input("rows", {6, 1})}, "y"));
  };
  EXPECT_NE(refusal(byColumn, {.columns = 8}).find("neither the product's shape nor a row"), std::string::npos);
  const auto larger = [](GraphBuilder &b, TensorIndex p) {
    b.graph().markOutput(b.op("Mul", {b.op("Tanh", {p}, "t"), b.input("stack", {2, 6, 8})}, "y"));
  };
  EXPECT_NE(refusal(larger, {.columns = 8}), "");
  // A kernel that has one element of a row for a whole block takes it as bias only.
  const Body &rows = kBodies.at("rows and a number after the activation");
  EXPECT_EQ(refusal(rows, {.columns = 8}), "");
  EXPECT_NE(refusal(rows, {.columns = 8, .rows = RowOperands::kOne}), "");
  EXPECT_NE(refusal(rows, {.columns = 8, .form = EpilogueForm::kRegisters}), "");
}

// ---- time

double secondsOf(const std::function<void()> &f) {
  constexpr int kCalls = 32;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kCalls;
}

// An instruction as an epilogue of one tile with bias, and alone over as many elements in cache.
class Timed {
 public:
  explicit Timed(const ElementRow &r) : row_(r) {
    GraphBuilder b(ir_.createGraph(GraphId("body")));
    bodyOf(r)(b, b.input("p", {kTiles * kRows, kWidth}));
    std::string reason;
    matched_ = matchEpilogue(b.graph(), {.columns = kWidth}, reason);
    EXPECT_TRUE(matched_) << r.type << ": " << reason;
    isMask_ = b.graph().info(b.graph().outputs()[0]).dataType() == DataType::BOOL;
    parameters_ = elementParameters(r, *b.graph().getOpSchedule().back());
    scratch_.resize(static_cast<size_t>(matched_->scratchBytes()) + 128);
    for (int64_t i = 0; i < kRows * kWidth; ++i) values_[i] += bias_[i % kWidth];
  }
  void bind(const std::function<void(const Epilogue &)> &use) {
    const void *in[] = {nullptr, nullptr, bias_.data(), other_.data()};
    void *out[] = {y_.data()};
    void *aligned = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(scratch_.data()) + 63) / 64 * 64);
    const executable::KernelArgs args{in, out, aligned, context_};
    matched_->bind(args, 2, [&](const Epilogue &e, float *) { use(e); });
  }
  void finishTile(const Epilogue &e, int64_t tile) {
    applyEpilogue(e.at(tile * kRows * kStride, 0), sums_.data(), kWidth, y_.data() + tile * kRows * kStride, kStride,
                  kRows, kWidth);
  }
  // Measures both once.
  void measure() {
    bind([&](const Epilogue &e) {
      epilogue = secondsOf([&] {
        for (int64_t t = 0; t < kTiles; ++t) finishTile(e, t);
      });
    });
    const ElementFn fn = elementFunction(row_.op, 0), store = isMask_ ? storeFunction(DataType::BOOL) : nullptr;
    const void *const operands[] = {values_.data(), other_.data()};
    const void *const result = y_.data();
    alone = secondsOf([&] {
      for (int64_t t = 0; t < kTiles; ++t) {
        fn(operands, y_.data(), kRows * kWidth, parameters_.data());
        if (store) store(&result, y_.data(), kRows * kWidth, nullptr);
      }
    });
  }
  double epilogue = 0, alone = 0;  // seconds

 private:
  static constexpr int64_t kTiles = 4;
  const ElementRow &row_;
  static constexpr int64_t kRows = kMaxTileRows, kWidth = kMaxPanelWidth, kStride = kWidth + 16;
  std::vector<float> sums_ = numbers(kRows * kWidth, 1), values_ = sums_, bias_ = numbers(kWidth, 2),
                     other_ = numbers(kTiles * kRows * kStride, 3), y_ = other_;
  Ir ir_;
  std::optional<MatchedEpilogue> matched_;
  std::array<float, 2> parameters_{};
  bool isMask_ = false;  // truth values, which are stored as bytes
  std::vector<char> scratch_;
  std::atomic<bool> failed_ = false;
  executable::RunContext context_{failed_};
};

// Passes calls on to the program of an epilogue and counts them.
class CountingProgram final : public EpilogueProgram {
 public:
  explicit CountingProgram(EpilogueProgram &program) : program_(program) {}
  void *arguments() noexcept override { return program_.arguments(); }
  void apply(ptrdiff_t offset, ptrdiff_t stride, int64_t column, int64_t rows, int64_t cols) noexcept override {
    ++calls;
    program_.apply(offset, stride, column, rows, cols);
  }
  void prefetch(ptrdiff_t offset, ptrdiff_t stride, int64_t rows, int64_t cols) const noexcept override {
    program_.prefetch(offset, stride, rows, cols);
  }
  int calls = 0;

 private:
  EpilogueProgram &program_;
};

TEST(EpilogueProgram, a_tile_is_one_call_or_stays_in_registers) {
  int programs = 0;
  for (const ElementRow &r : elementRows()) {
    if (r.form != RegisterForm::kFloat) continue;
    Timed timed(r);
    timed.bind([&](const Epilogue &e) {
      EXPECT_EQ(e.program == nullptr, runsInRegisters(r.op)) << r.type;
      if (!e.program) return;
      CountingProgram counting(*e.program);
      Epilogue counted = e;
      counted.program = &counting;
      timed.finishTile(counted, 0);
      EXPECT_EQ(counting.calls, 1) << r.type;
      ++programs;
    });
  }
  EXPECT_GT(programs, 20);
}

// The time of each epilogue compared with Relu's, with the instruction's arithmetic instead of Relu's. The lowest
// ratio of some rounds: within a round of some microseconds all run at the same speed, whatever else the machine does.
// On the processors that were measured every ratio is below 2 (set POPART_TIME_EPILOGUES to require that). Another
// processor moves the ratios; without the variable the bound only refuses a function call for each row or vector.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which make accesses of some loops slower only
TEST(EpilogueProgram, no_row_takes_much_more_time_than_Relu) {
  constexpr std::chrono::seconds kLongest(5);  // for a row
  const bool isMeasurement = std::getenv("POPART_TIME_EPILOGUES") != nullptr;
  const double bound = isMeasurement ? 2 : 4;
  int compared = 0;
  for (const ElementRow &r : elementRows()) {
    if (r.form != RegisterForm::kFloat) continue;
    Timed timed(r), relu(*findElementRow("Relu", RegisterForm::kFloat));
    double ratio = std::numeric_limits<double>::infinity();
    const auto end = std::chrono::steady_clock::now() + kLongest;
    for (int round = 0; round < 5 || (ratio > bound && std::chrono::steady_clock::now() < end); ++round) {
      relu.measure(), timed.measure();
      ratio = std::min(ratio, timed.epilogue / (relu.epilogue + std::max(0.0, timed.alone - relu.alone)));
    }
    EXPECT_LE(ratio, bound) << r.type << ": last round: " << timed.epilogue * 1e9 << " ns as an epilogue, "
                            << timed.alone * 1e9 << " alone; Relu " << relu.epilogue * 1e9 << " and "
                            << relu.alone * 1e9;
    if (isMeasurement) std::printf("%-18s %.2f\n", r.type, ratio);
    ++compared;
  }
  EXPECT_GT(compared, 60);
}
#endif

}  // namespace
}  // namespace popart
