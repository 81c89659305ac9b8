// A time limit for MPI_Init_thread, which waits for all processes of the job without a limit.
#pragma once
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include <popart/logging.hpp>

namespace popart::exchange {

// If the time passes while this object exists, the process ends with a message. mpirun then ends the job.
class InitLimit {
 public:
  explicit InitLimit(std::chrono::milliseconds timeout)
      : thread_([this, timeout] {
          std::unique_lock guard(lock_);
          if (changed_.wait_for(guard, timeout, [this] { return isOver_; })) return;
          logging::err(
              "MPI: not all processes of the job came to its start within {} s. All of them have to: by "
              "popdist.init() or a session",
              std::chrono::duration<double>(timeout).count());
          std::fflush(nullptr);
          ::_exit(1);
        }) {}
  ~InitLimit() {
    {
      const std::lock_guard guard(lock_);
      isOver_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool isOver_ = false;
  std::thread thread_;
};

}  // namespace popart::exchange
