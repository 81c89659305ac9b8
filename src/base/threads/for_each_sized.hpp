// Work on a list of values of unequal sizes, before any engine and its threads exist.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace popart {

// Threads that pay for work on so many bytes: starting one takes as long as reading about two MiB. From 1 to `threads`.
int threadsWorth(int64_t bytes, int threads);

// Calls work(i) once for each i in [0, bytes.size()), `bytes[i]` being the size of what it works on, on as many threads
// as pay for all of them. The largest begin first, so that no thread is left with one of them at the end. `work` must
// not throw. Throws popart::runtime_error when the system refuses a thread.
void forEachSized(std::span<const int64_t> bytes, int threads, const std::function<void(size_t)> &work);
// The same with `beside` as one more task, which begins first and is done when this returns. It may throw.
void forEachSizedBeside(const std::function<void()> &beside, std::span<const int64_t> bytes, int threads,
                        const std::function<void(size_t)> &work);

}  // namespace popart
