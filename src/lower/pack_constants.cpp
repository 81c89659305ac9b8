#include "lower/pack_constants.hpp"

#include <map>
#include <string>
#include <tuple>

#include "base/threads/for_each_sized.hpp"
#include "executable/layout.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {

void packConstants(Ir &program, int threads) {
  struct Work {
    std::vector<Tensor *> tensors;  // tensors with the same values: copies of a loop's body
    const executable::Layout *layout;
    TensorData stored;
  };
  std::vector<Work> work;
  std::map<std::tuple<const void *, std::string, std::string>, size_t> known;
  std::vector<int64_t> bytes;
  for (Graph *graph : schedule::programGraphs(program))
    for (Tensor *t : graph->tensorsOfType(TensorType::Const)) {
      const executable::Layout *layout = executable::layoutNamed(t->layout);
      if (!layout || t->tensorData().info() != t->info) continue;
      const auto [same, isNew] = known.try_emplace({t->tensorData().data(), toText(t->info), t->layout}, work.size());
      if (!isNew) {
        work[same->second].tensors.push_back(t);
        continue;
      }
      const int64_t size = layout->bytes(t->info);
      work.push_back({{t}, layout, TensorData(TensorInfo(DataType::UINT8, {size}))});
      bytes.push_back(size);
    }
  for (Work &w : work) w.stored.mutableData();  // allocates here, because tasks must not throw
  forEachSized(bytes, threads, [&work](size_t i) {
    Work &w = work[i];
    w.layout->pack(w.tensors[0]->info, w.tensors[0]->tensorData().data(), w.stored.mutableData());
  });
  for (const Work &w : work)
    for (Tensor *t : w.tensors) t->setTensorData(w.stored);
}

}  // namespace popart::lower
