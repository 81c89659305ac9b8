// Every instruction that computes an operator, over a block in the first-level cache, and every one that products
// compile into their epilogue (bias, instruction), over tiles of products. Both lists are the rows of
// vector/element_ops.inc. Reports nanoseconds per element of the best repetition, since a neighbour's noise only ever
// adds time.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include "backends/cpu/element_table.hpp"
#include "backends/cpu/kernels/epilogue.hpp"

namespace popart::cpu::bench {
namespace {

constexpr int64_t kBlock = 1024;
constexpr std::array<float, 2> kParameters = {0.75f, 1.25f};

// Numbers in (0, 1), in which every function is defined; as integers 1 to 7.
struct Operands {
  alignas(64) float floats[kBlock];
  alignas(64) int32_t ints[kBlock];
  alignas(64) uint32_t masks[kBlock];
  explicit Operands(int64_t seed) {
    for (int64_t i = 0; i < kBlock; ++i) {
      const int64_t number = (i * 37 + seed * 11) % 101;
      floats[i] = (static_cast<float>(number) + 0.5f) / 101.5f;
      ints[i] = static_cast<int32_t>(number % 7 + 1);
      masks[i] = number % 2 ? ~0u : 0u;
    }
  }
  const void *of(RegisterForm form) const {
    if (form == RegisterForm::kFloat) return floats;
    return form == RegisterForm::kInt ? static_cast<const void *>(ints) : masks;
  }
};

// `results`: the first `elements` of them are what body writes, which is checked before any time is reported.
template <class Body>
void reportBest(benchmark::State &state, void *results, int64_t elements, const Body &body) {
  constexpr int kCalls = 64;                // so that the clock's own time does not count
  constexpr uint32_t kBefore = 0x7fb1dead;  // a NaN that no instruction gives
  auto *words = static_cast<uint32_t *>(results);
  std::fill_n(words, elements, kBefore);
  body();
  if (std::count(words, words + elements, kBefore) > 0) return state.SkipWithError("it does not write all results");
  double best = 1e30;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) body();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
    state.SetIterationTime(took.count());
  }
  state.counters["ns_per_element"] = best * 1e9 / static_cast<double>(kCalls * elements);
}

void instruction(benchmark::State &state, const ElementRow &row) {
  const Operands a(1), b(2);
  Operands y(3);
  const void *const in[] = {a.of(row.form), b.of(row.form)};
  const bool isInteger = row.form == RegisterForm::kInt;
  const ElementFn fn = isInteger ? integerFunction(row.op, DataType::INT32) : elementFunction(row.op, 0);
  if (!fn) return state.SkipWithError("this processor has no such instruction");
  auto *results = const_cast<void *>(y.of(row.form));
  reportBest(state, results, kBlock, [&] { fn(in, results, kBlock, kParameters.data()); });
}

void epilogue(benchmark::State &state, const ElementRow &row) {
  constexpr int64_t kRows = 14, kCols = 64;
  const Operands sums(1), bias(2), other(3);
  Operands y(4);
  Epilogue e;
  if (row.operands == 1) e.bias = bias.floats;
  if (row.operands == 2) e.other = other.floats;
  e.step = {row.op, kParameters};
  reportBest(state, y.floats, kRows * kCols,
             [&] { applyEpilogue(e, sums.floats, kCols, y.floats, kCols, kRows, kCols); });
}

void add(const std::string &name, void (*run)(benchmark::State &, const ElementRow &), const ElementRow &row) {
  benchmark::RegisterBenchmark(name.c_str(), run, row)->UseManualTime()->MinTime(0.02);
}

const bool kRegistered = [] {
  constexpr const char *kForms[] = {"float", "mask", "int"};
  for (const ElementRow &row : elementRows()) {
    add(std::string("instruction/") + kForms[static_cast<int>(row.form)] + "/" + row.type, instruction, row);
    if (row.form == RegisterForm::kFloat && runsInRegisters(row.op))
      add(std::string("epilogue/") + row.type, epilogue, row);
  }
  return true;
}();

}  // namespace
}  // namespace popart::cpu::bench

BENCHMARK_MAIN();
