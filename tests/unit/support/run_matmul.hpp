// Matrix products of kernel tests.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/gemm.hpp"
#include "base/threads/thread_pool.hpp"

namespace popart::test {

// All tasks, on the threads of a pool, with scratch memory that holds no numbers.
inline void runMatmul(const cpu::Matmul &matmul, const cpu::MatmulArgs &args, ThreadPool &pool) {
  const std::vector<float> unwritten(matmul.scratchFloats(), NAN);
  std::vector<std::vector<float>> scratch(static_cast<size_t>(pool.threads()), unwritten);
  pool.parallel(matmul.tasks(),
                [&](int task, int thread) { matmul.run(task, args, scratch[static_cast<size_t>(thread)].data()); });
}

// Row by row.
template <class T>
std::vector<T> transposed(const std::vector<T> &x, int64_t rows, int64_t columns) {
  std::vector<T> y(x.size());
  for (int64_t i = 0; i < rows * columns; ++i) y[i % columns * rows + i / columns] = x[i];
  return y;
}

}  // namespace popart::test
