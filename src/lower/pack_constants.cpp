#include "lower/pack_constants.hpp"

#include "base/threads/thread_pool.hpp"
#include "executable/layout.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {

void packConstants(Ir &program, int threads) {
  constexpr int64_t kWorthThreads = int64_t{1} << 20;  // bytes; below, starting threads costs more than it saves
  struct Work {
    Tensor *tensor;
    const executable::Layout *layout;
    TensorData stored;
  };
  std::vector<Work> work;
  int64_t bytes = 0;
  for (Graph *graph : schedule::programGraphs(program))
    for (Tensor *t : graph->tensorsOfType(TensorType::Const)) {
      const executable::Layout *layout = executable::layoutNamed(t->layout);
      if (!layout || t->tensorData().info() != t->info) continue;
      const int64_t size = layout->bytes(t->info);
      work.push_back({t, layout, TensorData(TensorInfo(DataType::UINT8, {size}))});
      bytes += size;
    }
  for (Work &w : work) w.stored.mutableData();  // memory is taken here: tasks must not throw
  ThreadPool pool(bytes < kWorthThreads ? 1 : threads);
  pool.parallel(static_cast<int>(work.size()), [&work](int task, int) {
    Work &w = work[static_cast<size_t>(task)];
    w.layout->pack(w.tensor->info, w.tensor->tensorData().data(), w.stored.mutableData());
  });
  for (Work &w : work) w.tensor->setTensorData(std::move(w.stored));
}

}  // namespace popart::lower
