// Parallel work on a list of values of different sizes, before there is an engine with its threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace popart {

// Number of threads, 1 to `threads`, worth starting to read so many bytes: a start costs as much as 2 MiB.
int threadsWorth(int64_t bytes, int threads);

// Calls work(i) once for each i in [0, bytes.size()), on as many threads as are worth starting; bytes[i] is the size of
// the data of work(i). The largest start first, so that no thread ends with a large one. `work` must not throw. Throws
// popart::runtime_error if the system refuses a thread.
void forEachSized(std::span<const int64_t> bytes, int threads, const std::function<void(size_t)> &work);
// The same with `extraTask` as an additional task, which starts first; it is done when this returns. It may throw.
void forEachSizedWith(const std::function<void()> &extraTask, std::span<const int64_t> bytes, int threads,
                      const std::function<void(size_t)> &work);

}  // namespace popart
