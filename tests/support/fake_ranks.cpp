#include "support/fake_ranks.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <tuple>
#include <utility>

#include <popart/error.hpp>

namespace popart::test {

using exchange::Channel;
using exchange::Failure;
using exchange::Piece;

namespace {

int64_t bytesOf(std::span<const Piece> pieces) {
  int64_t bytes = 0;
  for (const Piece &p : pieces) bytes += p.bytes;
  return bytes;
}

std::vector<std::byte> read(std::span<const Piece> pieces) {
  std::vector<std::byte> data;
  for (const Piece &p : pieces) {
    const auto *from = static_cast<const std::byte *>(p.data);
    data.insert(data.end(), from, from + p.bytes);
  }
  return data;
}

}  // namespace

// Everything is guarded by one lock: channels share no memory but through it.
struct FakeRanks::Shared {
  struct Message {
    std::vector<std::byte> data;  // of a message that was read when it started
    End *sender;                  // of one that was not; else null
    int delay;
  };
  struct Link {  // one channel
    int64_t bytes = -1;
    std::deque<Message> queue;
  };

  Link &link(int from, int to, uint64_t tag, int64_t bytes) {
    Link &link = links[{from, to, tag}];
    if (link.bytes >= 0 && link.bytes != bytes)
      throw internal_error("fake ranks: a channel from {} to {} has {} bytes at one end and {} at the other", from, to,
                           link.bytes, bytes);
    link.bytes = bytes;
    return link;
  }

  // The first failure counts.
  void fail(int process, std::string_view text) {
    if (!failure) failure = Failure{process, std::string(text)};
    changed.notify_all();
  }

  std::mutex lock;
  std::condition_variable changed;
  std::mt19937 random;
  int mostDelay = 0;
  std::map<std::tuple<int, int, uint64_t>, Link> links;
  std::map<std::pair<int, int>, int> started;  // messages from one process to another
  std::set<std::tuple<int, int, int>> lost;    // from, to, number
  std::vector<int64_t> sentBytes;              // by process
  std::set<End *> ends;
  std::optional<Failure> failure;
  std::vector<std::optional<std::string>> gathered;  // by process, of the gathering that is under way
  std::vector<std::string> all;                      // of the last one
  int gatherings = 0;
};

// What both ends of a channel have in common. From its start until its process has seen that a message is complete, an
// end owns its memory: to receive into memory of another end, or to send what is being received, is an error.
class FakeRanks::End : public Channel {
 public:
  End(std::shared_ptr<Shared> shared, int from, int to, int process, uint64_t tag, std::span<const Piece> memory)
      : shared_(std::move(shared)), from_(from), to_(to), process_(process), memory_(memory.begin(), memory.end()) {
    const std::lock_guard guard(shared_->lock);
    link_ = &shared_->link(from, to, tag, bytesOf(memory_));
    shared_->ends.insert(this);
  }
  ~End() override {
    const std::lock_guard guard(shared_->lock);
    shared_->ends.erase(this);
    std::erase_if(link_->queue, [&](const Shared::Message &m) { return m.sender == this; });
  }
  State test() noexcept override {
    const std::lock_guard guard(shared_->lock);
    move();
    ownsMemory_ = !isComplete_;
    if (isComplete_) return State::Complete;
    return shared_->failure ? State::Failed : State::Pending;
  }

 protected:
  virtual void move() noexcept {}

  // With the lock.
  void takeMemory() noexcept {
    for (const End *other : shared_->ends)
      if (other->ownsMemory_ && other->process_ == process_ && (receives() || other->receives()) && overlaps(*other))
        shared_->fail(process_, "a message is received into memory of another one that is not complete");
    ownsMemory_ = true;
    isComplete_ = false;
  }
  bool receives() const { return process_ == to_; }
  bool overlaps(const End &other) const {
    for (const Piece &a : memory_)
      for (const Piece &b : other.memory_) {
        const auto *x = static_cast<const std::byte *>(a.data), *y = static_cast<const std::byte *>(b.data);
        if (x < y + b.bytes && y < x + a.bytes) return true;
      }
    return false;
  }

  friend class FakeRanks::Receiver;
  const std::shared_ptr<Shared> shared_;
  const int from_, to_, process_;
  const std::vector<Piece> memory_;
  Shared::Link *link_ = nullptr;
  bool isComplete_ = true, ownsMemory_ = false;
};

class FakeRanks::Sender final : public End {
 public:
  Sender(std::shared_ptr<Shared> shared, int from, int to, uint64_t tag, std::span<const Piece> memory)
      : End(std::move(shared), from, to, from, tag, memory) {}
  void start() noexcept override {
    const std::lock_guard guard(shared_->lock);
    takeMemory();
    shared_->sentBytes[static_cast<size_t>(from_)] += link_->bytes;
    const int number = shared_->started[{from_, to_}]++;
    isComplete_ = true;
    if (shared_->lost.contains({from_, to_, number})) return;
    const int delay = std::uniform_int_distribution<int>(0, shared_->mostDelay)(shared_->random);
    isComplete_ = shared_->random() % 2 == 0;
    link_->queue.push_back(
        {isComplete_ ? read(memory_) : std::vector<std::byte>(), isComplete_ ? nullptr : this, delay});
  }
};

class FakeRanks::Receiver final : public End {
 public:
  Receiver(std::shared_ptr<Shared> shared, int from, int to, uint64_t tag, std::span<const Piece> memory)
      : End(std::move(shared), from, to, to, tag, memory) {}
  void start() noexcept override {
    const std::lock_guard guard(shared_->lock);
    takeMemory();
  }

 private:
  void move() noexcept override {
    if (isComplete_ || link_->queue.empty()) return;
    Shared::Message &message = link_->queue.front();
    if (message.delay-- > 0) return;
    if (message.sender) {
      message.data = read(message.sender->memory_);
      message.sender->isComplete_ = true;
    }
    const std::byte *from = message.data.data();
    for (const Piece &p : memory_) {
      std::memcpy(p.data, from, static_cast<size_t>(p.bytes));
      from += p.bytes;
    }
    link_->queue.pop_front();
    isComplete_ = true;
  }
};

class FakeRanks::Rank final : public exchange::Transport {
 public:
  Rank(std::shared_ptr<Shared> shared, int process) : shared_(std::move(shared)), process_(process) {}
  int process() const noexcept override { return process_; }
  int processes() const noexcept override { return static_cast<int>(shared_->gathered.size()); }
  std::unique_ptr<Channel> sendChannel(int peer, uint64_t tag, std::span<const Piece> memory) override {
    return std::make_unique<Sender>(shared_, process_, peer, tag, memory);
  }
  std::unique_ptr<Channel> receiveChannel(int peer, uint64_t tag, std::span<const Piece> memory) override {
    return std::make_unique<Receiver>(shared_, peer, process_, tag, memory);
  }
  void abort(std::string_view text) noexcept override {
    const std::lock_guard guard(shared_->lock);
    shared_->fail(process_, text);
  }
  std::optional<Failure> failure() const override {
    const std::lock_guard guard(shared_->lock);
    return shared_->failure;
  }
  std::vector<std::string> gather(std::string_view own, std::chrono::milliseconds timeout) override {
    std::unique_lock guard(shared_->lock);
    auto &gathered = shared_->gathered;
    gathered[static_cast<size_t>(process_)] = own;
    const int before = shared_->gatherings;
    if (std::ranges::all_of(gathered, [](const auto &text) { return text.has_value(); })) {
      shared_->all.clear();
      for (auto &text : gathered) shared_->all.push_back(*std::exchange(text, std::nullopt));
      ++shared_->gatherings;
      shared_->changed.notify_all();
    }
    const bool came =
        shared_->changed.wait_for(guard, timeout, [&] { return shared_->gatherings != before || shared_->failure; });
    if (shared_->gatherings != before) return shared_->all;
    if (came) throw runtime_error("process {}: {}", shared_->failure->process, shared_->failure->text);
    std::string missing;
    for (size_t p = 0; p < gathered.size(); ++p)
      if (!gathered[p]) missing += " " + toText(p);
    gathered[static_cast<size_t>(process_)].reset();
    throw runtime_error("fake ranks: these processes did not come:{}", missing);
  }

 private:
  const std::shared_ptr<Shared> shared_;
  const int process_;
};

FakeRanks::FakeRanks(int processes, unsigned seed, int mostDelay) : shared_(std::make_shared<Shared>()) {
  shared_->random.seed(seed);
  shared_->mostDelay = mostDelay;
  shared_->sentBytes.resize(static_cast<size_t>(processes));
  shared_->gathered.resize(static_cast<size_t>(processes));
  for (int p = 0; p < processes; ++p) ranks_.push_back(std::make_unique<Rank>(shared_, p));
}

FakeRanks::~FakeRanks() = default;

exchange::Transport &FakeRanks::transport(int process) { return *ranks_[static_cast<size_t>(process)]; }

void FakeRanks::lose(int from, int to, int number) {
  const std::lock_guard guard(shared_->lock);
  shared_->lost.insert({from, to, number});
}

void FakeRanks::kill(int process) {
  const std::lock_guard guard(shared_->lock);
  shared_->fail(process, "the process ended");
}

int64_t FakeRanks::sentBytes(int process) const {
  const std::lock_guard guard(shared_->lock);
  return shared_->sentBytes[static_cast<size_t>(process)];
}

}  // namespace popart::test
