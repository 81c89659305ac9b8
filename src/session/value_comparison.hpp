// Compares values between the processes of a job. Nothing keeps them equal automatically; a difference is usually an
// error of the program, such as a missing seed, another file, or another learning rate.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <popart/tensordata.hpp>

#include "executable/executable.hpp"
#include "runtime/engine.hpp"
#include "session/job.hpp"

namespace popart::session {

// Warns of the first variable, by name, whose value, type or shape differs from that of most processes, and names a
// process (all processes call it). `remedy`: the last sentence of the warning. Throws as Transport::gather.
void compareFirstValues(Job &job, const std::string &session, const std::map<TensorId, TensorData> &values,
                        const std::string &remedy);

// What is compared after each run, of values that all replicas share (variables of one group, unless they are read from
// each replica). Nothing; Numbers: variables of one element (learning rates, loss scale, counters), and inputs that are
// the same for all replicas; All: all variables.
enum class Compared : uint8_t { Nothing, Numbers, All };

// `engineOptions["replicas.compare"]`: "numbers" or "all"; Nothing if it is not set. Throws popart::error for
// another value.
Compared comparedValues(const std::map<std::string, std::string> &engineOptions);

// The comparison for a loaded program, which is the same in all processes.
class ValueComparison {
 public:
  // `broadcast`: for each input, whether all replicas get the same value.
  ValueComparison(std::shared_ptr<Job> job, std::string session, Compared compared,
                  std::shared_ptr<const executable::Executable> executable, std::vector<bool> broadcast);
  ~ValueComparison();

  // Wraps the source of one run, to hash its values.
  runtime::StreamSource &watch(runtime::StreamSource &source);
  // Compares after run number `run` of a replica of this process (all processes call it). Throws runtime_error naming
  // the first value that differs and a process, and as Transport::gather.
  void compare(const runtime::Engine &engine, int64_t run);

 private:
  class Watched;

  const std::shared_ptr<Job> job_;
  const std::string session_;
  const std::shared_ptr<const executable::Executable> executable_;
  std::vector<int> variables_;  // variables to compare
  std::unique_ptr<Watched> watched_;
};

}  // namespace popart::session
