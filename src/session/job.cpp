// See job.hpp. Texts and values use separate transports, because only the thread of an exchange may use its transport.
#include "session/job.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <sstream>

#include <popart/error.hpp>

#include "base/environment.hpp"
#include "exchange/gather_layout.hpp"
#include "exchange/load_mpi.hpp"
#include "session/run_limits.hpp"

namespace popart::session {
namespace {

using exchange::ExchangeSpec;
using exchange::Operation;
using exchange::ReplicaLayout;

constexpr int64_t kShortBytes = int64_t{64} << 10, kPieceBytes = int64_t{16} << 20;

// The processors that this process may use, as a text for the other processes.
std::string ownProcessors() {
  std::ostringstream out;
  for (const std::vector<int> &core : processorLimits().cores)
    for (const int p : core) out << p << ' ';
  return out.str();
}

std::set<int> processorsOf(const std::string &text) {
  std::istringstream in(text);
  return {std::istream_iterator<int>(in), {}};
}

// Calls f(memory, at, bytes) for the parts of [begin, end) of several pieces of memory, as if concatenated: where a
// part is, and its distance from `begin`.
template <class F>
void forEachPart(std::span<const exchange::Piece> pieces, int64_t begin, int64_t end, F f) {
  int64_t first = 0;  // of the piece
  for (const exchange::Piece &piece : pieces) {
    const int64_t from = std::max(begin, first), to = std::min(end, first + piece.bytes);
    if (from < to)
      f(static_cast<std::byte *>(piece.data) + (from - first), from - begin, static_cast<size_t>(to - from));
    first += piece.bytes;
  }
}

}  // namespace

// An all-gather between the processes, or with a root a broadcast, through a buffer of the host: equal parts of it for
// all replicas, or all of it for the root. A second, smaller operation is used for few bytes.
class Job::Values {
 public:
  explicit Values(Job &job, int root = -1)
      : transport_(job.transport()), exchange_(*transport_, job.layout(), job.exchangeSettings()) {
    const ReplicaLayout &layout = job.layout();
    for (const int64_t bytes : {kShortBytes, kPieceBytes})
      each_.push_back(root < 0 ? std::max<int64_t>(64, bytes / layout.replicas() / 64 * 64) : bytes);
    const int64_t parts = root < 0 ? layout.replicas() : 1;
    buffer_.resize(static_cast<size_t>(each_.back() * parts));
    for (size_t i = 0; i < each_.size(); ++i) {
      ExchangeSpec spec;
      spec.type = DataType::UINT8;
      spec.groupSize = layout.replicas();
      spec.elements = {each_[i]};
      spec.resultElements = {each_[i] * parts};
      exchange::ExchangeMemory memory{{}, {{buffer_.data()}}};
      if (root < 0) {
        spec.operation = Operation::AllGather;
        for (int r = layout.first(job.process()); r < layout.first(job.process() + 1); ++r)
          memory.inputs.push_back({buffer_.data() + r * each_[i]});
      } else {
        spec.operation = Operation::Broadcast;
        spec.root = layout.first(root);
        if (job.process() == root) memory.inputs = {{buffer_.data()}};
      }
      exchange_.add(spec, memory, static_cast<int>(i), root < 0 ? "values of variables" : "broadcast of weights");
    }
    exchange_.connect();
  }

  // The bytes that one turn transfers for each replica, or from the root, if `left` bytes are left.
  int64_t each(int64_t left) const { return each_[numberFor(left)]; }
  std::byte *data() { return buffer_.data(); }
  void run(int64_t left) { exchange_.run(static_cast<int>(numberFor(left))); }

 private:
  size_t numberFor(int64_t left) const { return left <= each_[0] ? 0 : 1; }

  std::unique_ptr<exchange::Transport> transport_;
  std::vector<std::byte> buffer_;
  std::vector<int64_t> each_;    // bytes for each operation
  exchange::Exchange exchange_;  // declared last: its thread uses all of the above
};

Job::Job(MakeTransport makeTransport, const JobSettings &settings)
    : makeTransport_(std::move(makeTransport)),
      settings_(settings),
      control_(makeTransport_()),
      placement_{gatherLayout(*control_, {settings.replicas, settings.locals, settings.firstLocal}, settings.timeout),
                 control_->process()} {
  placement_.sharesMemory = settings.sharesMemory;
  const std::vector<std::string> all = gather(ownProcessors());
  const std::set<int> own = processorsOf(all[static_cast<size_t>(process())]);
  placement_.sharers = 0;
  for (int p = 0; p < layout().processes(); ++p) {
    if (p == process()) placement_.sharer = placement_.sharers;
    const bool sharesHost = layout().hostOf(p) == layout().hostOf(process());
    const std::set<int> its = processorsOf(all[static_cast<size_t>(p)]);
    if (p == process() || (sharesHost && std::ranges::any_of(its, [&](int one) { return own.contains(one); })))
      ++placement_.sharers;
  }
}

Job::~Job() = default;

void Placement::adapt(lower::CollectiveRules &rules) const {
  const bool isOneHost = layout.hosts() == 1;
  const int64_t together = int64_t{isOneHost ? 1 : 4} << 20, ahead = int64_t{isOneHost ? 16 : 64} << 20;
  for (auto *merging : {&rules.reduce, &rules.scatter, &rules.gather}) {
    merging->together = std::max(merging->together, together);
    merging->waiting = std::max(merging->waiting, together);
  }
  rules.ahead = std::max(rules.ahead, ahead);
}

Placement expectedPlacement(const JobSettings &settings) {
  const int end = settings.firstLocal + settings.locals;
  std::vector<int> counts;
  const auto fill = [&](int first, int last) {
    for (; first < last; first += settings.locals) counts.push_back(std::min(settings.locals, last - first));
  };
  fill(0, settings.firstLocal);
  const auto process = static_cast<int>(counts.size());
  fill(settings.firstLocal, end);
  fill(end, settings.replicas);
  const auto processes = static_cast<int>(counts.size());
  const std::optional<environment::LaunchedProcesses> launched = environment::launchedProcesses();
  const int onHost = launched && launched->all == processes ? launched->onHost : processes;
  std::vector<std::string> hosts;
  for (int p = 0; p < processes; ++p) hosts.push_back(toText(p / onHost));
  Placement expected{ReplicaLayout(counts, hosts), process};
  expected.sharers = expected.processesOnHost();
  expected.sharesMemory = settings.sharesMemory;
  expected.sharer = expected.layout.numberOnHost(process);
  return expected;
}

std::vector<std::string> Job::gather(std::string_view own) { return control_->gather(own, settings_.timeout); }

int Job::findOdd(std::string_view own) { return exchange::oddProcess(gather(own)); }

exchange::ExchangeSettings Job::exchangeSettings() const {
  exchange::ExchangeSettings settings;
  settings.timeout = settings_.timeout;
  settings.warnAfter = std::min(settings.warnAfter, settings.timeout);
  settings.spin = false;
  settings.sharesMemory = settings_.sharesMemory;
  return settings;
}

void Job::complete(void *data, int64_t valueBytes, std::span<const int> replicas) {
  if (valueBytes == 0 || replicas.empty()) return;
  if (!values_) values_ = std::make_unique<Values>(*this);
  const auto processes = static_cast<size_t>(layout().processes());
  std::vector<std::vector<exchange::Piece>> owned(processes);  // values, by process
  for (size_t v = 0; v < replicas.size(); ++v)
    owned[static_cast<size_t>(layout().processOf(replicas[v]))].push_back(
        {static_cast<std::byte *>(data) + static_cast<int64_t>(v) * valueBytes, valueBytes});
  int64_t each = 0;  // bytes for each replica, if the values of a process are divided evenly
  for (size_t p = 0; p < processes; ++p) {
    const int64_t count = layout().count(static_cast<int>(p));
    each = std::max(each, (static_cast<int64_t>(owned[p].size()) * valueBytes + count - 1) / count);
  }
  for (int64_t at = 0, turn = 0; at < each; at += turn) {
    turn = values_->each(each - at);
    const auto inBuffer = [&](size_t p, auto f) {
      const int64_t count = layout().count(static_cast<int>(p));
      std::byte *buffer = values_->data() + layout().first(static_cast<int>(p)) * turn;
      forEachPart(owned[p], at * count, (at + turn) * count,
                  [&](std::byte *part, int64_t from, size_t bytes) { f(part, buffer + from, bytes); });
    };
    inBuffer(static_cast<size_t>(process()),
             [](const std::byte *part, std::byte *buffer, size_t bytes) { std::memcpy(buffer, part, bytes); });
    values_->run(each - at);
    for (size_t p = 0; p < processes; ++p)
      if (p != static_cast<size_t>(process()))
        inBuffer(p, [](std::byte *part, const std::byte *buffer, size_t bytes) { std::memcpy(part, buffer, bytes); });
  }
}

void Job::broadcast(std::span<const exchange::Piece> memory, int root) {
  int64_t all = 0;
  for (const exchange::Piece &piece : memory) all += piece.bytes;
  if (all == 0) return;
  Values values(*this, root);
  for (int64_t at = 0, turn = 0; at < all; at += turn) {
    turn = values.each(all - at);
    const auto move = [&](bool isSent) {
      forEachPart(memory, at, at + turn, [&](std::byte *part, int64_t from, size_t bytes) {
        std::memcpy(isSent ? values.data() + from : part, isSent ? part : values.data() + from, bytes);
      });
    };
    if (process() == root) move(true);
    values.run(all - at);
    if (process() != root) move(false);
  }
}

// ---- on MPI -----------------------------------------------------------------------------------

std::shared_ptr<Job> joinJob(const JobSettings &settings) {
  const auto mpi = [timeout = settings.timeout]() -> exchange::MpiJob & {
    return exchange::joinMpi({.timeout = timeout});
  };
  auto job = std::make_shared<Job>([mpi] { return mpi().transport(); }, settings);
  exchange::nameForEnd(job->layout().describe(job->process()));
  return job;
}

std::chrono::milliseconds replicasTimeout(const std::map<std::string, std::string> &engineOptions) {
  const auto given = engineOptions.find("replicas.timeout");
  if (given == engineOptions.end()) return JobSettings().timeout;
  return std::chrono::ceil<std::chrono::milliseconds>(
      secondsFromText(given->second, "engineOptions: bad replicas.timeout"));
}

}  // namespace popart::session
