// Every replica of this process except the first has a thread, which sleeps between runs. Replicas exchange values in
// collectives.
#include "runtime/replicas.hpp"

#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include <popart/error.hpp>

#include "base/threads/thread_memory.hpp"
#include "base/threads/wait_while.hpp"
#include "runtime/interrupt.hpp"
#include "runtime/thread_collectives.hpp"

namespace popart::runtime {

struct Replicas::Crew {
  Crew(int replicas, bool polls, executable::Collectives &meetIn)
      : spin(polls), collectives(meetIn), failures(static_cast<size_t>(replicas)) {}
  ~Crew() {
    stop = true;
    ring();
    for (std::thread &t : threads) t.join();
  }

  void hire(Replicas &owner) {
    try {
      for (int r = 1; r < owner.count(); ++r) threads.emplace_back([this, &owner, r] { work(owner.engine(r), r); });
    } catch (const std::system_error &e) {
      throw runtime_error("{} replicas need as many threads, but the system refused number {}: {}. Use fewer replicas",
                          owner.count(), threads.size() + 1, e.what());
    }
  }

  void work(Engine &engine, int replica) {
    reserveThreadMemory();
    for (uint32_t seen = 0;;) {
      waitWhile(runs, seen, spin);
      seen = runs.load(std::memory_order_acquire);
      if (stop) return;
      const StopFlag flag(ending);
      runOne(engine, replica);
      busy.fetch_sub(1, std::memory_order_acq_rel);
      wait.ring();
    }
  }

  void runOne(Engine &engine, int replica) noexcept {
    try {
      engine.run(*streams[static_cast<size_t>(replica)]);
      collectives.finish();
    } catch (const std::exception &e) {
      endBy(replica, &e);
    } catch (...) {
      endBy(replica, nullptr);
    }
  }

  // Ends the run with the exception of this replica, which is being handled.
  void endBy(int replica, const std::exception *why) noexcept {
    failures[static_cast<size_t>(replica)] = {std::current_exception(), ++failed};
    end(why);
  }

  // Ends all replicas, at their next iteration or collective.
  void end(const std::exception *why) noexcept {
    ending = true;
    collectives.fail(why);
  }

  // Called when the first replica, which runs on the calling thread, has ended.
  void waitForOthers() {
    while (const int left = busy.load(std::memory_order_acquire)) {
      if (changesSoon(busy, left, spin)) continue;
      try {
        wait.sleepWhile(busy, left);
      } catch (const RunEnded &) {  // the thread that ends the run knows the reason
        end(nullptr);
      } catch (...) {
        if (!interrupt) interrupt = std::current_exception();
        end(nullptr);
      }
    }
  }

  void ring() {
    runs.fetch_add(1, std::memory_order_acq_rel);
    runs.notify_all();
  }

  struct Failure {
    std::exception_ptr exception;
    int order = 0;  // 1: the first exception of the run
  };
  const bool spin;  // whether waiting threads poll for a while
  executable::Collectives &collectives;
  std::vector<Failure> failures;
  std::exception_ptr interrupt;  // that ended the wait for the others
  std::atomic<int> failed{0};
  std::atomic<bool> ending{false};  // a replica has failed: the others end at their next collective or iteration
  std::span<StreamSource *const> streams;
  std::atomic<uint32_t> runs{0};
  std::atomic<int> busy{0};  // replicas that are running, except the first
  WatchfulWait wait;         // in which the first one waits for them
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
};

Replicas::Replicas(std::shared_ptr<const executable::Executable> executable, const Device &device,
                   const RunSettings &settings) {
  RunSettings own = settings;
  const bool polls = own.locals * own.threads <= own.processors().threads();
  if (!own.collectives && own.replicas > 1) {
    check(own.locals == own.replicas,
          "replicas of several processes: got {} of {} here and no collectives, expected those of "
          "all processes",
          own.locals, own.replicas);
    threads_ = std::make_unique<ThreadCollectives>(own.replicas, polls);
    own.collectives = threads_.get();
  }
  if (own.collectives) crew_ = std::make_unique<Crew>(own.locals, polls, *own.collectives);
  for (own.local = 0; own.local < own.locals; ++own.local, ++own.replica)
    engines_.push_back(std::make_unique<Engine>(executable, device, own, std::span(engines_)));
  if (own.collectives) own.collectives->connect();
  if (crew_) crew_->hire(*this);
}

Replicas::~Replicas() { crew_.reset(); }

void Replicas::run(std::span<StreamSource *const> streams) {
  if (!crew_) return engines_[0]->run(*streams[0]);
  Crew &crew = *crew_;
  crew.streams = streams;
  crew.collectives.start();
  crew.busy.store(count() - 1, std::memory_order_relaxed);
  crew.ring();
  {
    const StopFlag flag(crew.ending, StopFlag::Thread::Asks);
    crew.runOne(*engines_[0], 0);
  }
  crew.waitForOthers();
  std::exception_ptr first = crew.collectives.takeInterrupt();
  if (crew.failed.load() == 0 && !crew.interrupt) return;
  if (!first) first = std::exchange(crew.interrupt, nullptr);
  crew.interrupt = nullptr;
  for (Crew::Failure &f : crew.failures) {
    if (f.order == 1 && !first) first = f.exception;
    f = {};
  }
  crew.failed = 0;
  crew.ending = false;
  std::rethrow_exception(first);
}

}  // namespace popart::runtime
