// The time model. A kernel takes the longer of two times: its operations at kFlops, and its bytes at kBytes, or at
// kCachedBytes in a program whose data fits into a core's cache. All numbers are orders of magnitude for one core of a
// current server. Most kernels are limited by memory. Those whose operands are in the cache are faster, so the model
// tends to use too many threads rather than too few.
//
// With k threads a kernel takes T / k + kStart + k * kPerThread: waking and waiting cost kStart once and kPerThread for
// every thread. The best k is sqrt(T / kPerThread). More than one thread is faster if T > T / k + kStart + k *
// kPerThread.
//
// Tasks are claimed as in the thread pool: each thread runs the tasks of its own range in ascending order, then steals
// from the end of other ranges.
#include "executable/cost.hpp"
#include "ir/layer_names.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include <fmt/format.h>

namespace popart::executable {
namespace {

constexpr double kFlops = 100;       // per nanosecond
constexpr double kBytes = 4;         // per nanosecond
constexpr double kCachedBytes = 32;  // per nanosecond
constexpr double kExchanged = 1;     // bytes per nanosecond, from the cache of one core to another core
constexpr int64_t kCache = int64_t{1} << 20;
constexpr double kStart = 500;              // nanoseconds
constexpr double kPerThread = 150;          // nanoseconds
constexpr double kLeastPerThread = 20'000;  // nanoseconds: shorter kernels are not counted in the sum

double aloneOn(const Kernel &kernel, bool staysInCache) {
  return staysInCache ? predictedCachedNanoseconds(kernel.flops(), kernel.bytes()) : predictedNanoseconds(kernel);
}

// Elapsed time of tasks [begin, end) of the kernel on `threads` threads; `whole`: time of all tasks on one thread.
double elapsedOfRound(const Kernel &kernel, int begin, int end, double whole, int threads) {
  struct Range {
    int begin, end;
  };
  const int count = end - begin;
  std::vector<Range> ranges;
  for (int64_t i = 0; i < threads; ++i)
    ranges.push_back(
        {begin + static_cast<int>(count * i / threads), begin + static_cast<int>(count * (i + 1) / threads)});
  using Free = std::pair<double, int>;  // (time, thread)
  std::priority_queue<Free, std::vector<Free>, std::greater<>> free;
  for (int i = 0; i < threads; ++i) free.emplace(0, i);
  double last = 0;
  for (int left = count; left > 0;) {
    const auto [now, thread] = free.top();
    free.pop();
    for (int i = 0; i < threads; ++i) {
      Range &range = ranges[static_cast<size_t>((thread + i) % threads)];
      if (range.begin == range.end) continue;
      const int task = i == 0 ? range.begin++ : --range.end;
      const double done = now + kernel.share(task) * whole;
      last = std::max(last, done);
      free.emplace(done, thread);
      --left;
      break;
    }
  }
  return last;
}

std::vector<int> endsOf(const Kernel &kernel) {
  const auto ends = kernel.roundEnds();
  return ends.empty() ? std::vector<int>{kernel.tasks()} : std::vector<int>(ends.begin(), ends.end());
}

// The number of those threads of the step that run one of its programs.
int threadsOf(const Step &step, size_t program, int threads) {
  return step.kind == Step::Kind::Lanes ? std::min(step.threads[program], threads) : threads;
}

double elapsedOn(const Kernel &kernel, double alone, int threads) {
  double elapsed = 0;
  int begin = 0;
  for (const int end : endsOf(kernel)) {
    elapsed += elapsedOfRound(kernel, begin, end, alone, threads);
    begin = end;
  }
  return elapsed;
}

void addProgram(const Program &program, int threads, std::vector<KernelUse> &rows) {
  for (const Step &step : program.steps) {
    for (size_t i = 0; i < step.programs.size(); ++i) addProgram(*step.programs[i], threadsOf(step, i, threads), rows);
    if (!step.kernel) continue;
    KernelUse use{stepTitle(step.name, step.layer), step.kernel->name(), step.kernel->tasks(), threads};
    use.nanoseconds = predictedNanoseconds(step);
    use.threads = threadsThatPay(use.nanoseconds, widestRound(*step.kernel), threads);
    use.elapsed = elapsedOn(*step.kernel, use.nanoseconds, use.threads);
    rows.push_back(std::move(use));
  }
}

double movesOf(const std::vector<Step::Move> &moves) {
  int64_t bytes = 0;
  for (const Step::Move &move : moves) bytes += move.bytes;
  return copyNanoseconds(bytes);
}

double runOf(const Executable &executable, const Program &program, int threads) {
  const auto bytesOf = [&](const std::vector<BufferIndex> &list) {
    return list.empty() || list[0] < 0 ? 0 : executable.buffers[static_cast<size_t>(list[0])].bytes;
  };
  double sum = 0;
  for (const Step &step : program.steps) {
    double inner = 0;
    for (size_t i = 0; i < step.programs.size(); ++i)
      inner = std::max(inner, runOf(executable, *step.programs[i], threadsOf(step, i, threads)));
    switch (step.kind) {
      case Step::Kind::Kernel: {
        const double alone = predictedNanoseconds(step);
        sum += alone / threadsThatPay(alone, widestRound(*step.kernel), threads);
        break;
      }
      case Step::Kind::HostLoad:
        sum += copyNanoseconds(bytesOf(step.out));
        break;
      case Step::Kind::HostStore:
        sum += copyNanoseconds(bytesOf(step.in));
        break;
      case Step::Kind::Copy:
      case Step::Kind::RemoteLoad:
      case Step::Kind::RemoteStore:
        sum += copyNanoseconds(step.bytes);
        break;
      case Step::Kind::Loop:
        sum += movesOf(step.initial) + movesOf(step.results) +
               static_cast<double>(std::max<int64_t>(step.tripCount, 1)) * (inner + movesOf(step.carried));
        break;
      case Step::Kind::If:
      case Step::Kind::Lanes:
        sum += inner;
        break;
    }
  }
  return sum;
}

}  // namespace

double predictedNanoseconds(double flops, double bytes) { return std::max(flops / kFlops, bytes / kBytes); }
double predictedCachedNanoseconds(double flops, double bytes) { return std::max(flops / kFlops, bytes / kCachedBytes); }
double predictedNanoseconds(const Kernel &kernel) { return predictedNanoseconds(kernel.flops(), kernel.bytes()); }
double predictedNanoseconds(const Step &step) { return aloneOn(*step.kernel, step.staysInCache); }
bool staysInCache(int64_t bytes) { return bytes <= kCache; }
double copyNanoseconds(int64_t bytes) { return 2 * static_cast<double>(bytes) / kBytes; }  // read and written

double exchangeNanoseconds(int64_t bytes) { return static_cast<double>(bytes) / kExchanged; }

double elapsedNanoseconds(const Kernel &kernel, int threads, bool staysInCache) {
  const double alone = aloneOn(kernel, staysInCache);
  const int used = threadsThatPay(alone, widestRound(kernel), threads);
  return used == 1 ? alone : elapsedOn(kernel, alone, used) + wakeUpNanoseconds(used);
}
double wakeUpNanoseconds(int threads) { return threads > 1 ? kStart + threads * kPerThread : 0; }

double predictedRunNanoseconds(const Executable &executable, int threads) {
  return runOf(executable, executable.main, threads);
}

int threadsThatPay(double nanoseconds, int tasks, int threads) {
  const double best = std::max(2.0, std::sqrt(nanoseconds / kPerThread));
  const int k = static_cast<int>(std::min<double>(std::min(tasks, threads), best));
  return k > 1 && nanoseconds > nanoseconds / k + wakeUpNanoseconds(k) ? k : 1;
}

int widestRound(const Kernel &kernel) {
  int widest = 0, begin = 0;
  for (int end : endsOf(kernel)) widest = std::max(widest, end - begin), begin = end;
  return widest;
}

std::vector<KernelUse> threadUse(const Executable &executable, int threads) {
  std::vector<KernelUse> rows;
  addProgram(executable.main, threads, rows);
  return rows;
}

std::string threadUseText(const std::vector<KernelUse> &rows, int threads) {
  std::string text =
      fmt::format("{:>8}  {:>7}  {:>10}  {:>6}  step, kernel\n", "threads", "tasks", "us/thread", "busy");
  double work = 0, available = 0;
  for (const KernelUse &row : rows) {
    const double perThread = row.nanoseconds / row.available;
    text += fmt::format("{:>8}  {:>7}  {:>10.1f}  {:>5.0f}%  {}, {}\n", row.threads, row.tasks, perThread / 1e3,
                        100 * row.busy(), row.step, row.kernel);
    if (perThread <= kLeastPerThread) continue;
    work += row.nanoseconds, available += row.elapsed * row.available;
  }
  const double busy = available > 0 ? work / available : 1;
  return text + fmt::format("{:.1f}% of {} threads busy in kernels with more than {:.0f} us per thread\n", 100 * busy,
                            threads, kLeastPerThread / 1e3);
}

}  // namespace popart::executable
