// AheadStreams: host data ahead of the program (docs/decisions/0034-host-data-ahead.md). The engine runs on its own
// thread. The thread that started the run serves it: it fetches values before the program loads them, and delivers
// results while the program continues. Between runs both threads sleep.
//
// The source gets the same calls as without this: all values in the order in which the program loads them, each done
// before the next one is requested, results in the order in which they were made, one call at a time, on the calling
// thread. Only inputs are requested earlier. How much earlier depends on the program and the depths, never on timing.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "runtime/engine.hpp"

namespace popart::session {

// How far ahead one stream may be.
struct AheadRule {
  // Where the program itself may be one value ahead, in addition to `depth`: nowhere; everywhere except at the start of
  // a loop; everywhere.
  enum class Exchange : uint8_t { JustInTime, InnerLoop, Loops };

  int depth = 0;  // values of a replica that are fetched before they are needed, or that wait for the host
  Exchange exchange = Exchange::JustInTime;

  int most() const { return depth + (exchange == Exchange::JustInTime ? 0 : 1); }
};

// Rules by stream; streams without a rule are not ahead.
struct AheadRules {
  std::map<TensorId, AheadRule> inputs, outputs;
  bool prefetches = true;  // the source is asked by StreamSource::inputAhead, and may have no value yet
};

class AheadStreams {
 public:
  // Returns null if no run would be ahead: the rules do not allow it, or no stream has more than one value in a run.
  // `replicas`: number of values of a stream in one load; one for inputs that are true in `broadcast`.
  static std::unique_ptr<AheadStreams> make(const executable::Executable &executable, const AheadRules &rules,
                                            int replicas, const std::vector<bool> &broadcast);
  ~AheadStreams();

  // Calls engine(streams) once, on the engine's thread, and serves it from `source`. Throws the exception of the source
  // or of the engine, whichever is first in the program. A RunInterrupt, or an exception of the check in
  // popart/interrupt.hpp, ends the run at once. The engine has ended when this returns. Throws runtime_error if the
  // system refuses the thread.
  void run(runtime::StreamSource &source, const std::function<void(runtime::StreamSource &)> &engine);

  int64_t bytes() const;  // of the values under way, if all slots are in use

 private:
  class Impl;
  explicit AheadStreams(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace popart::session
