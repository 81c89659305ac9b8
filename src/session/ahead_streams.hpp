// AheadStreams: host data ahead of the program (docs/decisions/0034-host-data-ahead.md). The engine runs on a thread of
// its own, and the thread that asked for the run serves it: it asks the source for values that the program will load,
// before it does, and hands results over while the program goes on. Between runs both sleep.
//
// The source sees what it would see without this: all values in the order in which the program loads them, each done
// before the next one is asked for, results in the order in which they were made, one call at a time, on the calling
// thread. Only inputs come earlier. When depends on the program and the depths, never on a thread's speed.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "runtime/engine.hpp"

namespace popart::session {

// How far one stream may be ahead.
struct AheadRule {
  // The exchange that the program itself has one value ahead, beside `depth`: nowhere, but not into a loop that begins,
  // everywhere.
  enum class Exchange : uint8_t { JustInTime, InnerLoop, Loops };

  int depth = 0;  // values of a replica that are fetched before they are needed, or wait for the host
  Exchange exchange = Exchange::JustInTime;

  int most() const { return depth + (exchange == Exchange::JustInTime ? 0 : 1); }
};

// By stream; those without a rule are not ahead.
struct AheadRules {
  std::map<TensorId, AheadRule> inputs, outputs;
  bool prefetches = true;  // the source is told, and may have no value yet (StreamSource::inputAhead)
};

class AheadStreams {
 public:
  // Null: no run would be ahead at all, as the rules do not allow it or no stream moves more than one value in a run.
  // `replicas`: how many values of a stream belong to one load; one where its entry in `broadcast` is true.
  static std::unique_ptr<AheadStreams> make(const executable::Executable &executable, const AheadRules &rules,
                                            int replicas, const std::vector<bool> &broadcast);
  ~AheadStreams();

  // Calls engine(streams) once, on the engine's thread, and serves it from `source`. Throws what the source or the
  // engine threw, whatever comes first in the program; an exception that is a RunInterrupt, and what the check of
  // popart/interrupt.hpp throws, ends the run at once. The engine has ended when this returns. runtime_error: the
  // system refuses the thread.
  void run(runtime::StreamSource &source, const std::function<void(runtime::StreamSource &)> &engine);

  int64_t bytes() const;  // of the values on their way, when all slots are in use

 private:
  class Impl;
  explicit AheadStreams(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace popart::session
