#include "session/value_comparison.hpp"

#include <algorithm>
#include <sstream>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "base/hash.hpp"

namespace popart::session {
namespace {

using Hashes = std::map<TensorId, uint64_t>;  // of values, by name

struct Difference {
  TensorId id;
  int process;
};

// The first value that differs from that of most processes; all have values with the same names (all). Hashes of single
// values are only exchanged if something differs.
std::optional<Difference> findDifference(Job &job, const Hashes &hashes) {
  Hasher whole;
  for (const auto &[id, hash] : hashes) whole.addText(id).add(hash);
  if (job.findOdd(toText(whole.value())) < 0) return std::nullopt;
  std::string text;
  for (const auto &[id, hash] : hashes) text += toText(hash) + "\n";
  std::vector<std::istringstream> all;
  for (const std::string &one : job.gather(text)) all.emplace_back(one);
  for (const auto &[id, hash] : hashes) {
    std::vector<std::string> ofValue(all.size());
    for (size_t p = 0; p < all.size(); ++p) std::getline(all[p], ofValue[p]);
    if (const int odd = exchange::oddProcess(ofValue); odd >= 0) return Difference{id, odd};
  }
  return std::nullopt;
}

}  // namespace

void compareFirstValues(Job &job, const std::string &session, const std::map<TensorId, TensorData> &values,
                        const std::string &remedy) {
  Hashes hashes;
  for (const auto &[id, value] : values)
    hashes[id] =
        Hasher().addText(toText(value.info())).addBytes(value.data(), static_cast<size_t>(value.nbytes())).value();
  if (const std::optional<Difference> found = findDifference(job, hashes))
    logging::session::warn(
        "session '{}': variables begin with other values in {} than in most processes, the first one is '{}'. {}",
        session, job.layout().describe(found->process), found->id, remedy);
}

Compared comparedValues(const std::map<std::string, std::string> &engineOptions) {
  const auto given = engineOptions.find("replicas.compare");
  if (given == engineOptions.end()) return Compared::Nothing;
  check(given->second == "numbers" || given->second == "all",
        "engineOptions: bad replicas.compare: got '{}', expected 'numbers' or 'all'", given->second);
  return given->second == "all" ? Compared::All : Compared::Numbers;
}

// A source that hashes the inputs that all replicas get. One thread at a time reads a stream.
class ValueComparison::Watched final : public runtime::StreamSource {
 public:
  explicit Watched(std::vector<bool> broadcast) : broadcast_(std::move(broadcast)), hashes_(broadcast_.size()) {}

  void begin(runtime::StreamSource &source) {
    source_ = &source;
    std::ranges::fill(hashes_, Hasher());
  }
  bool isBroadcast(size_t stream) const { return broadcast_[stream]; }
  uint64_t hash(size_t stream) const { return hashes_[stream].value(); }

  const void *input(int stream, int64_t bytes) override { return seen(stream, bytes, source_->input(stream, bytes)); }
  const void *inputAhead(int stream, int64_t bytes) override {
    return seen(stream, bytes, source_->inputAhead(stream, bytes));
  }
  void inputDone(int stream) override { source_->inputDone(stream); }
  bool inputStays(int stream) const override { return source_->inputStays(stream); }
  void *output(int stream, int64_t bytes) override { return source_->output(stream, bytes); }
  void outputDone(int stream) override { source_->outputDone(stream); }
  void *outputAhead(int stream, int64_t bytes) override { return source_->outputAhead(stream, bytes); }
  bool callsHost() const override { return source_->callsHost(); }

 private:
  const void *seen(int stream, int64_t bytes, const void *value) {
    const auto number = static_cast<size_t>(stream);
    if (value && broadcast_[number]) hashes_[number].addBytes(value, static_cast<size_t>(bytes));
    return value;
  }

  const std::vector<bool> broadcast_;
  std::vector<Hasher> hashes_;  // by stream
  runtime::StreamSource *source_ = nullptr;
};

ValueComparison::ValueComparison(std::shared_ptr<Job> job, std::string session, Compared compared,
                                 std::shared_ptr<const executable::Executable> executable, std::vector<bool> broadcast)
    : job_(std::move(job)),
      session_(std::move(session)),
      executable_(std::move(executable)),
      watched_(std::make_unique<Watched>(std::move(broadcast))) {
  const auto replicas = static_cast<unsigned>(job_->layout().replicas());
  for (size_t i = 0; i < executable_->variables.size(); ++i) {
    const executable::VariableSpec &v = executable_->variables[i];
    const bool isShared = v.replicas.getReplicaGrouping(replicas).getNumGroups() == 1 &&
                          v.replicas.getRetrievalMode() == VariableRetrievalMode::OnePerGroup;
    if (isShared && (compared == Compared::All || v.info.nelms() == 1)) variables_.push_back(static_cast<int>(i));
  }
}

ValueComparison::~ValueComparison() = default;

runtime::StreamSource &ValueComparison::watch(runtime::StreamSource &source) {
  watched_->begin(source);
  return *watched_;
}

void ValueComparison::compare(const runtime::Engine &engine, int64_t run) {
  Hashes hashes;
  std::vector<char> value;
  for (const int i : variables_) {
    const executable::VariableSpec &v = executable_->variables[static_cast<size_t>(i)];
    value.resize(static_cast<size_t>(v.info.nbytes()));
    engine.readVariable(i, value.data());
    hashes["variable '" + v.id + "'"] = hashOfBytes(value.data(), value.size());
  }
  for (size_t s = 0; s < executable_->inputs.size(); ++s)
    if (watched_->isBroadcast(s)) hashes["input '" + executable_->inputs[s].id + "'"] = watched_->hash(s);
  if (const std::optional<Difference> found = findDifference(*job_, hashes))
    throw runtime_error(
        "Session '{}': run {}: the {} has other values in {} than in most processes, and all need the same ones "
        "(engineOptions[\"replicas.compare\"])",
        session_, run, found->id, job_->layout().describe(found->process));
}

}  // namespace popart::session
