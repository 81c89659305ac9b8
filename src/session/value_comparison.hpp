// Values compared over the processes of a job. Nothing makes them equal by itself: what differs is most often a mistake
// of the program, as a seed that was left out, another file, or another learning rate.
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

// Warns of the first variable with other values, type or shape than in most processes, by name, and names one of these
// processes (all processes call it). `remedy`: the sentence that ends the warning. Throws as Transport::gather.
void compareFirstValues(Job &job, const std::string &session, const std::map<TensorId, TensorData> &values,
                        const std::string &remedy);

// What is compared after each run, of values that all replicas share (variables of one group, whose replicas are not
// read one by one): nothing; numbers, which are variables of one element (learning rates, loss scale, counters) and the
// inputs of which all replicas get the same; all variables.
enum class Compared : uint8_t { Nothing, Numbers, All };

// `engineOptions["replicas.compare"]`: "numbers" or "all"; Nothing where it is not there. Throws popart::error for
// another value.
Compared comparedValues(const std::map<std::string, std::string> &engineOptions);

// The comparison of a loaded program, of which all processes have the same one.
class ValueComparison {
 public:
  // `broadcast`: by input, whether all replicas get the same value.
  ValueComparison(std::shared_ptr<Job> job, std::string session, Compared compared,
                  std::shared_ptr<const executable::Executable> executable, std::vector<bool> broadcast);
  ~ValueComparison();

  // The source for one run, whose values are watched.
  runtime::StreamSource &watch(runtime::StreamSource &source);
  // After run number `run`, of a replica of this process (all processes call it). Throws runtime_error that names the
  // first value that differs and a process, and as Transport::gather.
  void compare(const runtime::Engine &engine, int64_t run);

 private:
  class Watched;

  const std::shared_ptr<Job> job_;
  const std::string session_;
  const std::shared_ptr<const executable::Executable> executable_;
  std::vector<int> variables_;  // that are compared
  std::unique_ptr<Watched> watched_;
};

}  // namespace popart::session
