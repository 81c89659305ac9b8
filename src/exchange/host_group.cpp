// See host_group.hpp. A text is sent as a head of fixed size, with the beginning of the text, by a permanent channel.
// The rest of a long text follows by a channel on the text itself, which is made when both sides know its length.
#include "exchange/host_group.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "base/hash.hpp"

namespace popart::exchange {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t kHeadTag = 0;  // tags of rests follow

struct Head {
  uint64_t group = 0;  // hash of the group's processes
  int64_t bytes = 0;   // length of the text
  char begin[4096 - 2 * sizeof(int64_t)] = {};

  size_t shortBytes() const { return std::min(static_cast<size_t>(bytes), sizeof(begin)); }
};

template <class Duration>
std::string inSeconds(Duration duration) {
  return toText(std::chrono::duration<double>(duration).count());
}

uint64_t hashOf(std::span<const int> processes) {
  Hasher hasher;
  for (const int p : processes) hasher.add(static_cast<uint64_t>(p));
  return hasher.value();
}

}  // namespace

// Shared by the groups of a job: the transport, and channels for heads by pair of processes.
class HostGroup::Links {
 public:
  Links(std::unique_ptr<Transport> transport, const OwnReplicas &own, const HostGroupSettings &settings)
      : transport_(std::move(transport)),
        layout_(gatherLayout(*transport_, own, settings.timeout)),
        settings_(settings) {}

  int process() const { return transport_->process(); }
  int processes() const { return transport_->processes(); }
  std::string describe(int process) const { return layout_.describe(process); }

  std::vector<std::string> exchange(std::span<const int> processes, int member, std::span<const std::string_view> texts,
                                    std::string_view what) {
    const std::lock_guard turn(lock_);
    throwIfEnded(what);
    const uint64_t group = hashOf(processes);
    std::vector<std::string> got(processes.size());
    std::vector<Waiting> heads, rests;
    const auto forOthers = [&](auto f) {
      for (size_t m = 0; m < processes.size(); ++m)
        if (m != static_cast<size_t>(member)) f(m, peer(processes[m]));
    };
    forOthers([&](size_t m, Peer &peer) {
      Head &head = *peer.sent;
      head.group = group;
      head.bytes = static_cast<int64_t>(texts[m].size());
      std::memcpy(head.begin, texts[m].data(), head.shortBytes());
      for (Channel *channel : {peer.receives.get(), peer.sends.get()}) {
        channel->start();
        heads.push_back({channel, processes[m]});
      }
    });
    wait(heads, what);

    std::vector<std::unique_ptr<Channel>> channels;  // declared before `got`, to whose texts they write
    forOthers([&](size_t m, Peer &peer) {
      const int process = processes[m];
      const Head &sent = *peer.sent, &received = *peer.received;
      if (received.group != group)
        fail(
            formatText("{}: {} is in an operation of other processes than this one. All members of a group call the "
                       "same operations in the same order",
                       {toText(what), describe(process)}));
      got[m].resize(static_cast<size_t>(received.bytes));
      std::memcpy(got[m].data(), received.begin, received.shortBytes());
      const auto rest = [&](const Head &head, const char *text, bool sends) {
        const auto bytes = head.bytes - static_cast<int64_t>(head.shortBytes());
        if (bytes == 0) return;
        const Piece piece{const_cast<char *>(text) + head.shortBytes(), bytes};
        const uint64_t tag = sends ? ++peer.restsSent : ++peer.restsReceived;
        channels.push_back(sends ? transport_->sendChannel(process, tag, {&piece, 1})
                                 : transport_->receiveChannel(process, tag, {&piece, 1}));
        channels.back()->start();
        rests.push_back({channels.back().get(), process});
      };
      rest(received, got[m].data(), false);
      rest(sent, texts[m].data(), true);
    });
    wait(rests, what);
    got[static_cast<size_t>(member)] = texts[static_cast<size_t>(member)];
    return got;
  }

 private:
  // Channels for messages with another process, made at the first message.
  struct Peer {
    std::unique_ptr<Head> sent = std::make_unique<Head>(), received = std::make_unique<Head>();
    std::unique_ptr<Channel> sends, receives;  // for heads
    uint64_t restsSent = kHeadTag, restsReceived = kHeadTag;
  };
  struct Waiting {
    Channel *channel;
    int process;
  };

  Peer &peer(int process) {
    Peer &peer = peers_[process];
    if (!peer.sends) {
      const Piece sent{peer.sent.get(), sizeof(Head)}, received{peer.received.get(), sizeof(Head)};
      peer.sends = transport_->sendChannel(process, kHeadTag, {&sent, 1});
      peer.receives = transport_->receiveChannel(process, kHeadTag, {&received, 1});
    }
    return peer;
  }

  // Waits until all messages are complete.
  void wait(std::vector<Waiting> &waiting, std::string_view what) {
    const Clock::time_point begin = Clock::now();
    Clock::time_point nextLook = begin + milliseconds(50);
    bool isWarned = false;
    for (std::chrono::microseconds pause{0};; pause = std::min(pause + std::chrono::microseconds(2), kLongestPause)) {
      bool hasFailed = false;
      std::erase_if(waiting, [&](const Waiting &one) {
        const Channel::State state = one.channel->test();
        hasFailed |= state == Channel::State::Failed;
        return state == Channel::State::Complete;
      });
      if (hasFailed) throwFailure(what, "a message failed");
      if (waiting.empty()) return;
      const Clock::time_point now = Clock::now();
      if (now - begin > settings_.timeout)
        fail(
            formatText("{}: {} did not come within {} s. Look for a process that stopped, is slow or took another "
                       "branch, or allow more time (POPDIST_TIMEOUT)",
                       {toText(what), namesOf(waiting), inSeconds(settings_.timeout)}));
      if (now - begin > settings_.warnAfter && !isWarned) {
        isWarned = true;
        logging::warn("{}: waiting for {} since {} s", what, namesOf(waiting), inSeconds(settings_.warnAfter));
      }
      if (settings_.look && now > nextLook) {
        nextLook = now + milliseconds(50);
        lookOrEnd(what);
      }
      std::this_thread::sleep_for(pause);
    }
  }

  // Messages are in progress: without this process, no other one could continue.
  void lookOrEnd(std::string_view what) {
    try {
      settings_.look();
    } catch (...) {
      transport_->abort(formatText("{}: the wait for the others was interrupted", {toText(what)}));
      throw;
    }
  }

  std::string namesOf(const std::vector<Waiting> &waiting) const {
    std::vector<int> processes;
    for (const Waiting &one : waiting) processes.push_back(one.process);
    return layout_.describe(std::move(processes));
  }

  // Ends communication of all processes.
  [[noreturn]] void fail(const std::string &text) {
    transport_->abort(text);
    throwFailure(text, text);
  }
  // The first text of a process counts.
  [[noreturn]] void throwFailure(std::string_view what, const std::string &text) const {
    const std::optional<Failure> failure = transport_->failure();
    if (failure && failure->process != process())
      throw runtime_error("{}: {}", describe(failure->process), failure->text);
    throw runtime_error("{}", failure ? failure->text : formatText("{}: {}", {toText(what), text}));
  }
  void throwIfEnded(std::string_view what) const {
    if (transport_->failure()) throwFailure(what, {});
  }

  static constexpr std::chrono::microseconds kLongestPause{500};

  std::mutex lock_;  // held during an operation
  const std::unique_ptr<Transport> transport_;
  const ReplicaLayout layout_;
  const HostGroupSettings settings_;
  std::map<int, Peer> peers_;  // by process; before the transport
};

HostGroup::HostGroup(std::unique_ptr<Transport> transport, const OwnReplicas &own, const HostGroupSettings &settings)
    : links_(std::make_shared<Links>(std::move(transport), own, settings)),
      processes_([&] {
        std::vector<int> all(static_cast<size_t>(links_->processes()));
        std::iota(all.begin(), all.end(), 0);
        return all;
      }()),
      member_(links_->process()) {}

HostGroup::HostGroup(std::shared_ptr<Links> links, std::vector<int> processes)
    : links_(std::move(links)),
      processes_(std::move(processes)),
      member_(static_cast<int>(std::ranges::find(processes_, links_->process()) - processes_.begin())) {}

HostGroup::~HostGroup() = default;

std::string HostGroup::describe(int member) const {
  return links_->describe(processes_.at(static_cast<size_t>(member)));
}

std::vector<std::string> HostGroup::exchange(std::span<const std::string_view> texts, std::string_view what) {
  check(texts.size() == processes_.size(), "{}: got {} texts, expected one for each of {} members", what, texts.size(),
        processes_.size());
  return links_->exchange(processes_, member_, texts, what);
}

std::unique_ptr<HostGroup> HostGroup::subset(std::span<const int> members) const {
  std::vector<int> processes;
  for (const int member : members) {
    check(member >= 0 && member < this->members() &&
              (processes.empty() || processes_[static_cast<size_t>(member)] > processes.back()),
          "subset of a group: got member {}, expected ascending numbers below {}", member, this->members());
    processes.push_back(processes_[static_cast<size_t>(member)]);
  }
  if (!std::ranges::binary_search(processes, links_->process())) return nullptr;
  return std::unique_ptr<HostGroup>(new HostGroup(links_, std::move(processes)));
}

std::unique_ptr<HostGroup> joinHostGroup(const MpiSettings &mpi, const OwnReplicas &own,
                                         const HostGroupSettings &settings) {
  auto group = std::make_unique<HostGroup>(joinMpi(mpi).transport(), own, settings);
  nameForEnd(group->describe(group->member()));
  return group;
}

}  // namespace popart::exchange
