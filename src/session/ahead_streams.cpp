// See ahead_streams.hpp. The engine's thread posts events: what it needs, has taken and has made. The calling thread
// answers them in order, so that the order of its calls depends only on the program.
#include "session/ahead_streams.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <popart/error.hpp>
#include <popart/interrupt.hpp>

#include "base/threads/thread_memory.hpp"
#include "executable/load_order.hpp"
#include "runtime/interrupt.hpp"

namespace popart::session {
namespace {

constexpr std::chrono::milliseconds kInterruptPeriod{50};  // between two checks of a thread that waits

// Waits until `isSo`. Not by wait() without a time, which requires the C++ library of gcc 12: a wheel must run with an
// older one.
template <class F>
void waitUntil(std::condition_variable &condition, std::unique_lock<std::mutex> &lock, const F &isSo) {
  while (!condition.wait_for(lock, std::chrono::hours(1), isSo)) continue;
}

struct Event {
  enum class Kind : uint8_t { Needed, Taken, Made, Ended };
  Kind kind = Kind::Ended;
  int stream = -1;
  int64_t number = 0;  // Needed: number of the value in its stream
};

// First in, first out; keeps its memory.
class Events {
 public:
  void clear() { first_ = count_ = 0; }
  bool empty() const { return count_ == 0; }
  void push(const Event &e) {
    if (count_ == ring_.size()) grow();
    ring_[(first_ + count_++) % ring_.size()] = e;
  }
  Event pop() {
    const Event e = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --count_;
    return e;
  }

 private:
  void grow() {
    std::vector<Event> larger(2 * ring_.size());
    for (size_t i = 0; i < count_; ++i) larger[i] = ring_[(first_ + i) % ring_.size()];
    ring_ = std::move(larger);
    first_ = 0;
  }
  std::vector<Event> ring_ = std::vector<Event>(64);
  size_t first_ = 0, count_ = 0;
};

// The values of a stream that are under way, in slots.
struct AheadStream {
  int64_t bytes = 0;
  int64_t values = 1;           // of one load: one for each replica, or one for all
  int64_t depth = 0, most = 0;  // of its AheadRule, in values
  bool intoLoops = false;       // `most` also at the start of a loop
  std::vector<std::vector<char>> slots;
  int64_t written = 0, read = 0;  // numbers of values; shared by both threads
  int64_t asked = 0, freed = 0;   // inputs, on the calling thread: values asked for, and those taken since
  std::exception_ptr failure;     // inputs: replaces value number `written`

  AheadStream(const auto &spec, const std::map<TensorId, AheadRule> &rules, int64_t valuesOfLoad)
      : bytes(spec.info.nbytes()), values(valuesOfLoad) {
    const auto found = rules.find(spec.id);
    const AheadRule rule = found == rules.end() ? AheadRule() : found->second;
    depth = rule.depth * values;
    most = rule.most() * values;
    intoLoops = rule.exchange == AheadRule::Exchange::Loops;
    slots.resize(static_cast<size_t>(std::max(most, values)));
  }
  std::vector<char> &slot(int64_t number) { return slots[static_cast<size_t>(number) % slots.size()]; }
  void restart() {
    written = read = asked = freed = 0;
    failure = nullptr;
  }
};

}  // namespace

class AheadStreams::Impl final : public runtime::StreamSource {
 public:
  Impl(const executable::Executable &executable, const AheadRules &rules, int replicas,
       const std::vector<bool> &broadcast)
      : order_(executable), prefetches_(rules.prefetches) {
    for (size_t i = 0; i < executable.inputs.size(); ++i)
      inputs_.emplace_back(executable.inputs[i], rules.inputs, i < broadcast.size() && broadcast[i] ? 1 : replicas);
    for (const auto &output : executable.outputs) outputs_.emplace_back(output, rules.outputs, replicas);
  }

  ~Impl() override {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      quits_ = true;
    }
    starts_.notify_one();
    thread_.join();
  }

  // ---- the calling thread -----------------------------------------------------------------------
  void run(runtime::StreamSource &source, const std::function<void(runtime::StreamSource &)> &engine) {
    hire();
    restart(source);
    {
      const std::lock_guard lock(mutex_);
      job_ = &engine;
    }
    starts_.notify_one();
    serve();
    if (hostFailure_) std::rethrow_exception(std::exchange(hostFailure_, nullptr));
    if (engineFailure_) std::rethrow_exception(std::exchange(engineFailure_, nullptr));
  }

  int64_t bytes() const {
    int64_t all = 0;
    for (const auto *streams : {&inputs_, &outputs_})
      for (const AheadStream &s : *streams) all += s.bytes * static_cast<int64_t>(s.slots.size());
    return all;
  }

  // ---- the engine's thread, and those of its replicas, one at a time ----------------------------
  const void *input(int stream, int64_t) override {
    std::unique_lock lock(mutex_);
    AheadStream &s = inputs_[static_cast<size_t>(stream)];
    if (s.read == s.written && !s.failure) {
      post({Event::Kind::Needed, stream, s.read});
      waitUntil(served_, lock, [&] { return s.written > s.read || s.failure || stop_; });
    }
    if (s.written > s.read) return s.slot(s.read).data();
    if (s.failure) std::rethrow_exception(s.failure);
    throw runtime::RunEnded();
  }
  void inputDone(int stream) override {
    const std::lock_guard lock(mutex_);
    ++inputs_[static_cast<size_t>(stream)].read;
    post({Event::Kind::Taken, stream, 0});
  }
  void *output(int stream, int64_t bytes) override {
    std::unique_lock lock(mutex_);
    AheadStream &s = outputs_[static_cast<size_t>(stream)];
    waitFor(lock, [&] { return s.written - s.read < static_cast<int64_t>(s.slots.size()); });
    std::vector<char> &value = s.slot(s.written);
    value.resize(static_cast<size_t>(bytes));
    return value.data();
  }
  void outputDone(int stream) override {
    std::unique_lock lock(mutex_);
    AheadStream &s = outputs_[static_cast<size_t>(stream)];
    ++s.written;
    post({Event::Kind::Made, stream, 0});
    if (s.most == 0) waitFor(lock, [&] { return s.read == s.written; });
  }

 private:
  // ---- both; the lock is held
  void post(const Event &e) {
    events_.push(e);
    posted_.notify_one();
  }
  template <class F>
  void waitFor(std::unique_lock<std::mutex> &lock, F &&isSo) {
    waitUntil(served_, lock, [&] { return isSo() || stop_; });
    if (!isSo()) throw runtime::RunEnded();
  }

  // ---- the engine's thread
  void hire() {
    if (thread_.joinable()) return;
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error &e) {
      throw runtime_error(
          "a run whose host data are fetched ahead needs one more thread, but the system refused it: {}. Turn "
          "enablePrefetchDatastreams off",
          e.what());
    }
  }
  void work() {
    reserveThreadMemory();
    const runtime::StopFlag flag(stop_);
    std::unique_lock lock(mutex_);
    for (;;) {
      waitUntil(starts_, lock, [&] { return job_ || quits_; });
      if (quits_) return;
      const auto *job = job_;
      lock.unlock();
      std::exception_ptr failure;
      try {
        (*job)(*this);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      job_ = nullptr;
      engineFailure_ = std::move(failure);
      post({});
    }
  }

  // ---- the calling thread
  void restart(runtime::StreamSource &source) {
    source_ = &source;
    for (auto *streams : {&inputs_, &outputs_})
      for (AheadStream &s : *streams) s.restart();
    events_.clear();
    order_.restart();
    left_ = 0;
    waitsForNeed_ = failed_ = false;
    hostFailure_ = engineFailure_ = nullptr;
    stop_ = false;
  }

  void serve() {
    runtime::InterruptPace pace;
    for (;;) {
      const std::optional<Event> event = nextEvent();
      if (event && event->kind == Event::Kind::Ended) return;
      if (stop_) continue;
      try {
        if (event) {
          pace.iteration();
          answer(*event);
        } else {
          runtime::askInterruptCheck();
        }
      } catch (...) {
        hostFailure_ = std::current_exception();
        stop_ = true;
        notifyEngine();
      }
    }
  }

  // nullopt: nothing happened for a while, so that interrupts can be checked.
  std::optional<Event> nextEvent() {
    std::unique_lock lock(mutex_);
    if (!posted_.wait_for(lock, kInterruptPeriod, [&] { return !events_.empty(); })) return std::nullopt;
    return events_.pop();
  }

  void answer(const Event &e) {
    switch (e.kind) {
      case Event::Kind::Needed:
        if (inputs_[static_cast<size_t>(e.stream)].asked > e.number) return;  // fetched for an earlier event
        waitsForNeed_ = false;
        bring(e.stream, false);
        break;
      case Event::Kind::Taken:
        ++inputs_[static_cast<size_t>(e.stream)].freed;
        break;
      case Event::Kind::Made:
        return handOver(e.stream);
      case Event::Kind::Ended:
        return;
    }
    goAhead();
  }

  // Fetches values that the program will load, in its order, as far as the rules allow.
  void goAhead() {
    for (auto load = order_.next(); load && !waitsForNeed_ && !failed_; load = order_.next()) {
      const AheadStream &s = inputs_[static_cast<size_t>(load->stream)];
      const int64_t most = load->entersLoop && !s.intoLoops ? s.depth : s.most;
      if (s.asked - s.freed >= most) return;
      if (!bring(load->stream, true)) waitsForNeed_ = true;
    }
  }

  // Fetches the next value of a stream into its slot. Returns false if the source has none yet, or has failed.
  bool bring(int stream, bool ahead) {
    if (failed_) return false;
    AheadStream &s = inputs_[static_cast<size_t>(stream)];
    try {
      const bool asksEarly = ahead && prefetches_;
      const void *data = asksEarly ? source_->inputAhead(stream, s.bytes) : source_->input(stream, s.bytes);
      if (asksEarly && !data) return false;
      const auto *bytes = static_cast<const char *>(data);
      s.slot(s.asked).assign(bytes, bytes + s.bytes);
      source_->inputDone(stream);
    } catch (const RunInterrupt &) {
      throw;
    } catch (...) {
      failed_ = true;
      setFailure(s, std::current_exception());
      return false;
    }
    ++s.asked;
    passInOrder(stream);
    {
      const std::lock_guard lock(mutex_);
      ++s.written;
    }
    served_.notify_one();
    return true;
  }

  // The order counts loads; a load of all replicas has one value for each.
  void passInOrder(int stream) {
    if (!order_.next()) return;
    if (left_ == 0) left_ = inputs_[static_cast<size_t>(stream)].values;
    if (--left_ == 0) order_.advance();
  }

  void setFailure(AheadStream &s, std::exception_ptr failure) {
    {
      const std::lock_guard lock(mutex_);
      s.failure = std::move(failure);
    }
    served_.notify_one();
  }

  void handOver(int stream) {
    AheadStream &s = outputs_[static_cast<size_t>(stream)];
    const std::vector<char> &value = s.slot(s.read);
    void *host = source_->output(stream, static_cast<int64_t>(value.size()));
    if (!value.empty()) std::memcpy(host, value.data(), value.size());
    source_->outputDone(stream);
    {
      const std::lock_guard lock(mutex_);
      ++s.read;
    }
    served_.notify_one();
  }

  void notifyEngine() {
    const std::lock_guard lock(mutex_);  // a thread that waits sees stop_, or checks it before it waits
    served_.notify_one();
  }

  std::vector<AheadStream> inputs_, outputs_;
  executable::LoadOrder order_;
  const bool prefetches_;

  std::mutex mutex_;
  std::condition_variable starts_, posted_, served_;
  Events events_;
  const std::function<void(runtime::StreamSource &)> *job_ = nullptr;
  bool quits_ = false;
  std::atomic<bool> stop_{false};  // the run must end; the calling thread knows why
  std::exception_ptr engineFailure_;

  // Only used by the calling thread.
  runtime::StreamSource *source_ = nullptr;
  int64_t left_ = 0;           // values left of the current load of order_, if it has started
  bool waitsForNeed_ = false;  // the source had no value yet
  bool failed_ = false;        // the source is not asked for more values
  std::exception_ptr hostFailure_;
  std::thread thread_;
};

AheadStreams::AheadStreams(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AheadStreams::~AheadStreams() = default;

std::unique_ptr<AheadStreams> AheadStreams::make(const executable::Executable &executable, const AheadRules &rules,
                                                 int replicas, const std::vector<bool> &broadcast) {
  const auto allows = [](const auto &streams, const std::map<TensorId, AheadRule> &given) {
    return std::ranges::any_of(streams, [&](const auto &s) {
      const auto rule = given.find(s.id);
      return rule != given.end() && rule->second.most() > 0;
    });
  };
  if (!allows(executable.inputs, rules.inputs) && !allows(executable.outputs, rules.outputs)) return nullptr;
  if (!executable::movesSeveralValues(executable)) return nullptr;
  return std::unique_ptr<AheadStreams>(
      new AheadStreams(std::make_unique<Impl>(executable, rules, replicas, broadcast)));
}

void AheadStreams::run(runtime::StreamSource &source, const std::function<void(runtime::StreamSource &)> &engine) {
  impl_->run(source, engine);
}

int64_t AheadStreams::bytes() const { return impl_->bytes(); }

}  // namespace popart::session
