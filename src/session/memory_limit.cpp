// See memory_limit.hpp.
#include "session/memory_limit.hpp"

#include <malloc.h>

#include <optional>

#include <popart/error.hpp>

#include "base/byte_size.hpp"
#include "base/environment.hpp"

namespace popart::session {

int64_t memoryLimitBytes(const std::map<std::string, std::string> &engineOptions, int processes) {
  constexpr const char *kWhat = "engineOptions: bad max_memory";
  if (const auto given = engineOptions.find("max_memory"); given != engineOptions.end())
    return byteSizeFromText(given->second, kWhat);
  const std::optional<std::string> limit = environment::maxMemory();
  return limit ? byteSizeFromText(*limit, kWhat) : machineMemoryBytes() / processes;
}

bool isRemoteMemoryUncounted(const std::map<std::string, std::string> &engineOptions) {
  bool counts = !engineOptions.contains("max_memory") && !environment::maxMemory();
  if (const auto given = engineOptions.find("max_memory_counts_remote"); given != engineOptions.end()) {
    check(given->second == "true" || given->second == "false",
          "engineOptions: bad max_memory_counts_remote: got '{}', expected 'true' or 'false'", given->second);
    counts = counts || given->second == "true";
  }
  return !counts || environment::remoteMemory();
}

void checkTensorsFit(const Ir &ir) {
  const int64_t most = machineMemoryBytes();
  for (const Graph *graph : ir.getAllGraphs())
    for (const Tensor *tensor : graph->tensors()) {
      if (!tensor->info.isSet() || tensor->info.nbytes() <= most) continue;
      const Op *producer = tensor->getProducerUnsafe();
      const std::string text =
          formatText("{}: tensor '{}' does not fit the machine's memory: got {} bytes for {}, expected at most {}",
                     {producer ? producer->debugName() : graph->getGraphString(), tensor->id,
                      toText(tensor->info.nbytes()), toText(tensor->info), toText(most)});
      throw memory_allocation_err(text + ". Use smaller shapes or a smaller batch", text);
    }
}

void returnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

void throwOutOfMemory(const std::string &what) {
  const std::string text = what + ": the system has no memory left";
  throw memory_allocation_err(text + ". Use a smaller batch or free memory", text);
}

}  // namespace popart::session
