#include "lower/pack_constants.hpp"

#include "base/threads/for_each_sized.hpp"
#include "executable/layout.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {

void packConstants(Ir &program, int threads) {
  struct Work {
    Tensor *tensor;
    const executable::Layout *layout;
    TensorData stored;
  };
  std::vector<Work> work;
  std::vector<int64_t> bytes;
  for (Graph *graph : schedule::programGraphs(program))
    for (Tensor *t : graph->tensorsOfType(TensorType::Const)) {
      const executable::Layout *layout = executable::layoutNamed(t->layout);
      if (!layout || t->tensorData().info() != t->info) continue;
      const int64_t size = layout->bytes(t->info);
      work.push_back({t, layout, TensorData(TensorInfo(DataType::UINT8, {size}))});
      bytes.push_back(size);
    }
  for (Work &w : work) w.stored.mutableData();  // allocated here, because tasks must not throw
  forEachSized(bytes, threads, [&work](size_t i) {
    Work &w = work[i];
    w.layout->pack(w.tensor->info, w.tensor->tensorData().data(), w.stored.mutableData());
  });
  for (Work &w : work) w.tensor->setTensorData(std::move(w.stored));
}

}  // namespace popart::lower
