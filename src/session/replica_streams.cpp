// See replica_streams.hpp. A round has one value of a stream for every replica; replicas may be in different rounds.
#include "session/replica_streams.hpp"

#include <cstring>
#include <deque>
#include <exception>
#include <mutex>

namespace popart::session {
namespace {

struct Round {
  std::vector<std::vector<char>> values;  // by replica; for a broadcast input only one
  int done = 0;                           // number of replicas that have read, or written, their value
};

struct ReplicaStream {
  std::deque<Round> rounds;   // rounds from number `first` on
  std::vector<Round> spare;   // memory of earlier rounds
  int64_t first = 0;          // number of the oldest round
  std::vector<int64_t> next;  // by replica: number of its next round
  bool broadcast = false;

  Round &round(int64_t number) { return rounds[static_cast<size_t>(number - first)]; }
  Round &add(size_t values) {
    if (spare.empty()) {
      rounds.emplace_back();
    } else {
      rounds.push_back(std::move(spare.back()));
      spare.pop_back();
    }
    rounds.back().values.resize(values);
    rounds.back().done = 0;
    return rounds.back();
  }
  void dropOldest() {
    spare.push_back(std::move(rounds.front()));
    rounds.pop_front();
    ++first;
  }
};

}  // namespace

class ReplicaStreams::Shared {
 public:
  Shared(int replicas, const std::vector<bool> &broadcast, size_t outputs)
      : replicas_(static_cast<size_t>(replicas)), inputs_(broadcast.size()), outputs_(outputs) {
    for (size_t i = 0; i < broadcast.size(); ++i) inputs_[i].broadcast = broadcast[i];
  }

  void start(runtime::StreamSource &source) {
    source_ = &source;
    failure_ = nullptr;
    for (auto *streams : {&inputs_, &outputs_})
      for (ReplicaStream &s : *streams) {
        while (!s.rounds.empty()) s.dropOldest();
        s.first = 0;
        s.next.assign(replicas_, 0);
      }
  }

  const void *input(size_t replica, int stream, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    ReplicaStream &s = inputs_[static_cast<size_t>(stream)];
    requireSource();
    const int64_t number = s.next[replica];
    if (number == s.first + static_cast<int64_t>(s.rounds.size())) fetch(s, stream, bytes);
    return s.round(number).values[s.broadcast ? 0 : replica].data();
  }
  void inputDone(size_t replica, int stream) {
    const std::lock_guard lock(mutex_);
    ReplicaStream &s = inputs_[static_cast<size_t>(stream)];
    ++s.round(s.next[replica]++).done;
    while (!s.rounds.empty() && s.rounds.front().done == static_cast<int>(replicas_)) s.dropOldest();
  }

  void *output(size_t replica, int stream, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    ReplicaStream &s = outputs_[static_cast<size_t>(stream)];
    const int64_t number = s.next[replica];
    if (number == s.first + static_cast<int64_t>(s.rounds.size())) s.add(replicas_);
    std::vector<char> &value = s.round(number).values[replica];
    value.resize(static_cast<size_t>(bytes));
    return value.data();
  }
  void outputDone(size_t replica, int stream) {
    const std::lock_guard lock(mutex_);
    ReplicaStream &s = outputs_[static_cast<size_t>(stream)];
    ++s.round(s.next[replica]++).done;
    while (!s.rounds.empty() && s.rounds.front().done == static_cast<int>(replicas_)) {
      guarded([&] {
        for (const std::vector<char> &value : s.rounds.front().values) {
          const auto bytes = static_cast<int64_t>(value.size());
          if (bytes > 0) {
            std::memcpy(source_->output(stream, bytes), value.data(), value.size());
          } else {
            source_->output(stream, 0);
          }
          source_->outputDone(stream);
        }
      });
      s.dropOldest();
    }
  }

 private:
  // Fetches the values of all replicas, in their order.
  void fetch(ReplicaStream &s, int stream, int64_t bytes) {
    guarded([&] {
      for (std::vector<char> &value : s.add(s.broadcast ? 1 : replicas_).values) {
        const auto *data = static_cast<const char *>(source_->input(stream, bytes));
        value.assign(data, data + bytes);
        source_->inputDone(stream);
      }
    });
  }

  // After a failure the source is not asked again, because its cursors differ from those of the replicas. All replicas
  // end with the same exception.
  void requireSource() const {
    if (failure_) std::rethrow_exception(failure_);
  }
  template <class F>
  void guarded(F &&f) {
    requireSource();
    try {
      f();
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }

  std::mutex mutex_;
  size_t replicas_;
  runtime::StreamSource *source_ = nullptr;
  std::exception_ptr failure_;  // failure of the source in this run
  std::vector<ReplicaStream> inputs_, outputs_;
};

class ReplicaStreams::Lane final : public runtime::StreamSource {
 public:
  Lane(Shared &shared, size_t replica) : shared_(shared), replica_(replica) {}
  const void *input(int stream, int64_t bytes) override { return shared_.input(replica_, stream, bytes); }
  void inputDone(int stream) override { shared_.inputDone(replica_, stream); }
  void *output(int stream, int64_t bytes) override { return shared_.output(replica_, stream, bytes); }
  void outputDone(int stream) override { shared_.outputDone(replica_, stream); }

 private:
  Shared &shared_;
  size_t replica_;
};

ReplicaStreams::ReplicaStreams(int replicas, std::vector<bool> broadcast, size_t outputs)
    : shared_(std::make_unique<Shared>(replicas, broadcast, outputs)) {
  for (int r = 0; r < replicas; ++r) {
    lanes_.push_back(std::make_unique<Lane>(*shared_, static_cast<size_t>(r)));
    pointers_.push_back(lanes_.back().get());
  }
}

ReplicaStreams::~ReplicaStreams() = default;

std::span<runtime::StreamSource *const> ReplicaStreams::lanes(runtime::StreamSource &source) {
  shared_->start(source);
  return pointers_;
}

}  // namespace popart::session
