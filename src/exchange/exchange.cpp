// See exchange.hpp. One thread calls the transport. In each turn it takes the operations that were started, begins
// those whose received memory is free, and moves those in progress forward by the rules of schedule.hpp.
//
// Received memories are places of one block, assigned in turn, so that their addresses are known when channels are
// made. Two operations of one group may share bytes; the one that was started later then begins when the other is
// complete. Why there is no deadlock: an operation waits only for others of its group. All processes of a group start
// its operations in one order. So the first operation that is not complete everywhere waits for no other one in any
// process, begins where it is started, and completes when all its processes have started it. Operations of different
// groups, which threads start in any order, never wait for each other, because each group has separate places.
#include "exchange/exchange.hpp"

#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "base/threads/rest.hpp"
#include "base/threads/thread_memory.hpp"
#include "base/threads/wait_while.hpp"
#include "exchange/join.hpp"

namespace popart::exchange {
namespace {

using Clock = std::chrono::steady_clock;

enum State : uint32_t { kIdle, kStarted = Exchange::kUnderWay, kDone, kFailed };

constexpr int64_t kLine = 64;

// The part of a group in the block of received memory.
struct Share {
  int64_t all = 0, largest = 0;  // bytes of all its operations, and of the largest one
  int64_t begin = 0, end = 0, next = 0;

  void add(int64_t bytes) {
    all += bytes;
    largest = std::max(largest, bytes);
  }
};
using Shares = std::map<std::tuple<int, int, int>, Share>;  // by group

Share &shareOf(Shares &shares, const ExchangeSpec &spec) { return shares[{spec.groupSize, spec.stride, spec.group}]; }

// Gives each group its part; returns the bytes of all.
int64_t divide(Shares &shares, int64_t receiveBytes) {
  int64_t bytes = 0;
  for (auto &[group, share] : shares) {
    const int64_t most = receiveBytes / static_cast<int64_t>(shares.size()) / kLine * kLine;
    share.begin = share.next = bytes;
    share.end = bytes += std::min(share.all, std::max(most, share.largest));
  }
  return bytes;
}

}  // namespace

// A round with the addresses of this process.
struct Exchange::Running {
  struct Message {
    std::unique_ptr<Channel> channel;
    int peer = 0;
    std::vector<int> terms = {};  // received memories that are complete when it arrives
    bool isPending = false;
  };
  struct Piece {  // of a join or a copy
    const void *left, *right;
    void *into;
    int64_t count;  // elements
  };
  std::vector<Message> sends, receives;
  std::vector<Piece> joined;      // by join: its pieces
  std::vector<JoinTerms> joiner;  // by join
  std::vector<Piece> copied;      // `count` in bytes
  std::vector<Piece> rounded;
  std::vector<int> arrivals;  // by join: number of terms that have arrived
  size_t sendsLeft = 0, receivesLeft = 0;
};

struct Exchange::Bound {
  ExchangeSpec spec;
  ExchangeMemory memory;
  int collective;
  std::string name;
  Schedule schedule;
  StoreTerms store = nullptr;          // null: not a reduction
  int64_t firstByte = 0, endByte = 0;  // in the block
  std::vector<Running> rounds;
  size_t receivesBegun = 0, sendsBegun = 0;  // numbers of rounds
  // Numbers of rounds: with all sends complete; with receives, joins and copies complete.
  size_t sent = 0, complete = 0;
  Clock::time_point lastMessage{};
  bool isActive = false, isWarned = false;
  std::atomic<uint32_t> state{kIdle};

  bool isComplete() const { return sent == rounds.size() && complete == rounds.size(); }

  bool overlaps(const Bound &other) const { return firstByte < other.endByte && other.firstByte < endByte; }

  std::byte *address(int memory_, const Range &r, std::byte *received) const {
    const auto number = static_cast<size_t>(memory_);
    const int64_t width = schedule.widthOf(memory_);
    if (!schedule.isReceived(memory_)) {
      const auto &all = schedule.isResult(memory_) ? memory.results[number - static_cast<size_t>(schedule.inputs)]
                                                   : memory.inputs[number];
      return static_cast<std::byte *>(all[static_cast<size_t>(r.operand)]) + r.begin * width;
    }
    const Schedule::Received &place =
        schedule.received[number - static_cast<size_t>(schedule.inputs + schedule.results)];
    std::byte *at = received + firstByte + place.offset;
    for (const Range &one : place.ranges) {
      if (one.operand == r.operand && one.begin <= r.begin && r.end <= one.end)
        return at + (r.begin - one.begin) * width;
      at += (one.end - one.begin) * width;
    }
    throw internal_error("{}: received memory {} has no elements {} to {} of operand {}", name, memory_, r.begin, r.end,
                         r.operand);
  }

  void reset() {
    receivesBegun = sendsBegun = sent = complete = 0;
    isActive = true;
    isWarned = false;
    for (Running &r : rounds) {
      r.sendsLeft = r.sends.size();
      r.receivesLeft = r.receives.size();
      std::ranges::fill(r.arrivals, 0);
    }
  }

  // Begins the messages of rounds that are due.
  void beginMessages() noexcept {
    const auto begin = [](std::vector<Running::Message> &messages) {
      for (Running::Message &m : messages) {
        m.isPending = true;
        m.channel->start();
      }
    };
    for (; receivesBegun < rounds.size() && receivesBegun <= sent; ++receivesBegun)
      begin(rounds[receivesBegun].receives);
    for (; sendsBegun < rounds.size() && sendsBegun <= complete; ++sendsBegun) {
      begin(rounds[sendsBegun].sends);
      for (int input = 0; input < schedule.inputs && !rounds[sendsBegun].arrivals.empty(); ++input)
        arrive(sendsBegun, input);
    }
  }

  // Whether a round's sends, or its receives, joins and copies, became complete, so that messages may begin.
  bool completeRounds() noexcept {
    const size_t before = sent + complete;
    while (sent < sendsBegun && rounds[sent].sendsLeft == 0) ++sent;
    while (complete < std::min(receivesBegun, sendsBegun) && rounds[complete].receivesLeft == 0)
      copy(rounds[complete++]);
    return sent + complete > before;
  }

  // A term has arrived: runs the joins that are complete with it.
  void arrive(size_t r, int term) noexcept {
    const Round &round = schedule.rounds[r];
    Running &running = rounds[r];
    int step = round.firstJoin[static_cast<size_t>(term)];
    while (step >= 0 && ++running.arrivals[static_cast<size_t>(step)] == 2) {
      const size_t pieces = round.joined.size();
      for (size_t i = 0; i < pieces; ++i) {
        const Running::Piece &p = running.joined[static_cast<size_t>(step) * pieces + i];
        running.joiner[static_cast<size_t>(step)](spec.join, p.left, p.right, p.into, p.count);
      }
      step = round.joins[static_cast<size_t>(step)].next;
    }
  }

  void copy(const Running &running) const noexcept {
    for (const Running::Piece &p : running.rounded) store(p.left, p.into, p.count);
    for (const Running::Piece &p : running.copied)
      if (p.left != p.into) std::memcpy(p.into, p.left, static_cast<size_t>(p.count));
  }
};

int64_t receivedBytesOf(std::span<const ExchangeSpec> operations, const ReplicaLayout &layout, int process,
                        const ExchangeSettings &settings) {
  Shares shares;
  for (const ExchangeSpec &spec : operations)
    shareOf(shares, spec).add(planExchange(spec, layout, process, settings.cost).receivedBytes);
  return divide(shares, settings.receiveBytes);
}

std::string lateText(std::string_view operation, std::chrono::milliseconds time, const ReplicaLayout &layout,
                     std::vector<int> processes) {
  return formatText(
      "{}: no message came for {} s, waiting for {}",
      {toText(operation), toText(std::chrono::duration<double>(time).count()), layout.describe(std::move(processes))});
}

int oddProcess(std::span<const std::string> texts) {
  std::map<std::string_view, int> counts;
  for (const std::string &one : texts) ++counts[one];
  const auto most = std::ranges::max_element(texts, {}, [&](const std::string &one) { return counts[one]; });
  const auto odd = std::ranges::find_if(texts, [&](const std::string &one) { return one != *most; });
  return odd == texts.end() ? -1 : static_cast<int>(odd - texts.begin());
}

Exchange::Exchange(Transport &transport, const ReplicaLayout &layout, const ExchangeSettings &settings)
    : transport_(transport), layout_(layout), settings_(settings) {
  check(transport.processes() == layout.processes(),
        "exchange of replicas: the job has {} processes, the layout of replicas {}", transport.processes(),
        layout.processes());
}

Exchange::~Exchange() {
  ends_.store(true, std::memory_order_release);
  bell_.fetch_add(1, std::memory_order_release);
  bell_.notify_all();
  if (thread_.joinable()) thread_.join();
  operations_.clear();  // channels must end before the block that they write to
}

int Exchange::add(const ExchangeSpec &spec, const ExchangeMemory &memory, int collective, std::string name) {
  if (isConnected_) throw internal_error("exchange of replicas: {} is added after the exchange is connected", name);
  auto bound = std::make_unique<Bound>();
  bound->schedule = planExchange(spec, layout_, transport_.process(), settings_.cost);
  const Schedule &schedule = bound->schedule;
  const auto has = [&](const std::vector<std::vector<void *>> &memories, int count) {
    return memories.size() == static_cast<size_t>(count) &&
           std::ranges::all_of(memories, [&](const auto &m) { return m.size() == spec.elements.size(); });
  };
  check(has(memory.inputs, schedule.inputs) && has(memory.results, schedule.results),
        "{}: got {} inputs and {} results, expected {} and {}, with {} operands each", name, memory.inputs.size(),
        memory.results.size(), schedule.inputs, schedule.results, spec.elements.size());
  const bool reduces = std::ranges::any_of(schedule.rounds, [](const Round &r) { return !r.joined.empty(); });
  if (reduces) bound->store = storeFunction(spec.type);
  if (collective != lastCollective_) declare(spec, collective);
  bound->spec = spec;
  bound->memory = memory;
  bound->collective = collective;
  bound->name = std::move(name);
  operations_.push_back(std::move(bound));
  return static_cast<int>(operations_.size()) - 1;
}

void Exchange::declare(const ExchangeSpec &spec, int collective) {
  lastCollective_ = collective;
  collectives_.add(static_cast<uint64_t>(collective)).add(static_cast<uint64_t>(spec.operation));
  collectives_.add(static_cast<uint64_t>(spec.join)).add(static_cast<uint64_t>(spec.type));
  for (const int number : {spec.groupSize, spec.stride, spec.root}) collectives_.add(static_cast<uint64_t>(number));
  collectives_.add(spec.elements.size());
  for (const int64_t n : spec.elements) collectives_.add(static_cast<uint64_t>(n));
  for (const int64_t n : spec.resultElements) collectives_.add(static_cast<uint64_t>(n));
}

const Schedule &Exchange::schedule(int operation) const {
  return operations_[static_cast<size_t>(operation)]->schedule;
}

// ---- connecting -------------------------------------------------------------------------------

void Exchange::place() {
  Shares shares;
  for (const auto &operation : operations_) shareOf(shares, operation->spec).add(operation->schedule.receivedBytes);
  blockBytes_ = divide(shares, settings_.receiveBytes);
  for (const auto &operation : operations_) {
    Share &share = shareOf(shares, operation->spec);
    const int64_t bytes = operation->schedule.receivedBytes;
    if (share.next + bytes > share.end) share.next = share.begin;
    operation->firstByte = share.next;
    operation->endByte = share.next += bytes;
  }
  block_.emplace(blockBytes_);
}

void Exchange::makeChannels(Bound &operation) {
  const Schedule &schedule = operation.schedule;
  auto *const received = reinterpret_cast<std::byte *>(block_->data());
  const auto address = [&](const Place &p) { return operation.address(p.memory, p.range, received); };
  std::vector<Piece> pieces;
  const auto memoryOf = [&](const Message &m) {
    pieces.clear();
    for (const Place &p : m.places) {
      const Piece next{address(p), (p.range.end - p.range.begin) * schedule.widthOf(p.memory)};
      if (!pieces.empty() && static_cast<std::byte *>(pieces.back().data) + pieces.back().bytes == next.data)
        pieces.back().bytes += next.bytes;
      else
        pieces.push_back(next);
    }
    return std::span<const Piece>(pieces);
  };
  for (size_t r = 0; r < schedule.rounds.size(); ++r) {
    const Round &round = schedule.rounds[r];
    Running &running = operation.rounds.emplace_back();
    const uint64_t tag = static_cast<uint64_t>(operation.collective) << 40 |
                         static_cast<uint64_t>(operation.spec.group) << 8 | static_cast<uint64_t>(r);
    for (const Message &m : round.sends)
      running.sends.push_back({transport_.sendChannel(m.peer, tag, memoryOf(m)), m.peer});
    for (const Message &m : round.receives) {
      Running::Message &received =
          running.receives.emplace_back(Running::Message{transport_.receiveChannel(m.peer, tag, memoryOf(m)), m.peer});
      for (const Place &p : m.places)
        if (schedule.isReceived(p.memory) && (received.terms.empty() || received.terms.back() != p.memory))
          received.terms.push_back(p.memory);
    }
    const auto widthOf = [&](int memory) {
      return schedule.widthOf(memory) == schedule.sumBytes ? Width::Term : Width::Element;
    };
    for (const JoinStep &s : round.joins) {
      running.joiner.push_back(joinFunction(operation.spec.type, widthOf(s.left), widthOf(s.right)));
      for (const Range &range : round.joined)
        running.joined.push_back(
            {address({s.left, range}), address({s.right, range}), address({s.into, range}), range.end - range.begin});
    }
    for (const Copy &c : round.copies) {
      const int64_t count = c.from.range.end - c.from.range.begin, width = schedule.widthOf(c.from.memory);
      const bool rounds = width != schedule.widthOf(c.to.memory);
      (rounds ? running.rounded : running.copied)
          .push_back({address(c.from), nullptr, address(c.to), rounds ? count : count * width});
    }
    running.arrivals.resize(round.joins.size());
  }
}

void Exchange::connect() {
  if (isConnected_) throw internal_error("exchange of replicas: connected twice");
  // The facts that all processes have in common: the layout, and collectives without the groups of this process.
  Hasher common;
  for (int p = 0; p < layout_.processes(); ++p)
    common.add(static_cast<uint64_t>(layout_.count(p))).addText(layout_.hostName(p));
  common.add(collectives_.value());
  const std::vector<std::string> all = transport_.gather(toText(common.value()), settings_.timeout);
  if (const int odd = oddProcess(all); odd >= 0)
    throw runtime_error(
        "exchange of replicas: the collectives of {} differ from those of most processes. All processes need the same "
        "program, options and layout of replicas",
        layout_.describe(odd));

  place();
  for (const auto &operation : operations_) makeChannels(*operation);
  isConnected_ = true;
  if (operations_.empty()) return;
  started_ = std::make_unique<std::atomic<int>[]>(operations_.size());
  waiting_.reserve(operations_.size());
  active_.reserve(operations_.size());
  thread_ = std::thread([this] {
    reserveThreadMemory();
#if defined(__linux__)
    ::prctl(PR_SET_TIMERSLACK, 1'000);  // nanoseconds by which a sleep may be longer
#endif
    progress();
  });
}

// ---- the program's threads --------------------------------------------------------------------

void Exchange::start(int operation) noexcept {
  operations_[static_cast<size_t>(operation)]->state.store(kStarted, std::memory_order_relaxed);
  const uint64_t ticket = tickets_.fetch_add(1, std::memory_order_acq_rel);
  started_[ticket % operations_.size()].store(operation + 1, std::memory_order_release);
  bell_.fetch_add(1, std::memory_order_release);
  bell_.notify_one();
}

bool Exchange::isDone(int operation) const noexcept {
  return state(operation).load(std::memory_order_acquire) != kStarted;
}

const std::atomic<uint32_t> &Exchange::state(int operation) const noexcept {
  return operations_[static_cast<size_t>(operation)]->state;
}

const char *Exchange::problem(int operation) const noexcept {
  return state(operation).load(std::memory_order_acquire) == kFailed ? problem_.c_str() : nullptr;
}

void Exchange::wait(int operation) {
  waitWhile(state(operation), kUnderWay, settings_.spin);
  if (const char *text = problem(operation)) throw runtime_error("{}", text);
}

void Exchange::fail(std::string_view text) {
  {
    const std::lock_guard guard(lock_);
    if (asked_.empty()) asked_ = text.empty() ? "it failed" : text;
  }
  failAsked_.store(true, std::memory_order_release);
  bell_.fetch_add(1, std::memory_order_release);
  bell_.notify_one();
}

// ---- the exchange's thread --------------------------------------------------------------------

void Exchange::progress() {
  const auto failIfAsked = [&] {
    if (!failAsked_.load(std::memory_order_acquire) || !problem_.empty()) return;
    const std::lock_guard guard(lock_);
    failAll(asked_);
  };
  while (!ends_.load(std::memory_order_acquire)) {
    const uint32_t rung = bell_.load(std::memory_order_acquire);
    const Clock::time_point lookBegan = Clock::now();
    failIfAsked();
    bool moves = takeStarted();
    if (!busySince_ && !waiting_.empty()) busySince_ = lookBegan;
    if (!problem_.empty()) {
      endAll();
    } else {
      moves |= beginReady();
      for (size_t i = 0; i < active_.size() && problem_.empty(); ++i) moves |= advance(*active_[i]);
      std::erase_if(active_, [](const Bound *operation) { return !operation->isActive; });
    }
    if (active_.empty()) busySince_.reset();
    if (moves) continue;
    if (active_.empty())
      sleepWhile(bell_, rung);
    else
      rest(lookBegan);
  }
  failIfAsked();  // the others wait, even if this process has already reached its end
}

// Pause between two tests of messages that have not arrived. Parts of long messages move during a test, which then
// takes longer; after such a test the thread only yields.
void Exchange::rest(Clock::time_point lookBegan) const noexcept {
  constexpr std::chrono::microseconds kLongLook{5};
  const Clock::time_point now = Clock::now();
  Clock::time_point last = active_[0]->lastMessage;
  for (const Bound *operation : active_) last = std::max(last, operation->lastMessage);
  now - lookBegan > kLongLook ? std::this_thread::yield() : restAfter(now - last);
}

bool Exchange::takeStarted() noexcept {
  const uint64_t before = taken_;
  for (;; ++taken_) {
    std::atomic<int> &ticket = started_[taken_ % operations_.size()];
    const int number = ticket.load(std::memory_order_acquire);
    if (number == 0) return taken_ != before;
    ticket.store(0, std::memory_order_relaxed);
    waiting_.push_back(operations_[static_cast<size_t>(number - 1)].get());
  }
}

bool Exchange::beginReady() noexcept {
  bool begins = false;
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    Bound &operation = **next;
    const auto isInTheWay = [&](const Bound *earlier) { return earlier->overlaps(operation); };
    if (std::any_of(active_.begin(), active_.end(), isInTheWay) || std::any_of(waiting_.begin(), next, isInTheWay)) {
      ++next;
      continue;
    }
    operation.reset();
    operation.lastMessage = Clock::now();
    active_.push_back(&operation);
    next = waiting_.erase(next);
    begins = true;
  }
  return begins;
}

bool Exchange::advance(Bound &operation) {
  bool moves = false;
  Channel::State state = Channel::State::Complete;
  const auto isNew = [&](Running::Message &m) {
    if (!m.isPending) return false;
    state = m.channel->test();
    if (state != Channel::State::Complete) return false;
    m.isPending = false;
    return moves = true;
  };
  for (bool goesOn = true; goesOn;) {
    operation.beginMessages();
    goesOn = false;
    for (size_t r = operation.sent; r < operation.sendsBegun; ++r)
      for (Running::Message &m : operation.rounds[r].sends) {
        if (isNew(m)) --operation.rounds[r].sendsLeft;
        if (state == Channel::State::Failed) return failBy(operation, m.peer), true;
      }
    for (size_t r = operation.complete; r < operation.receivesBegun; ++r)
      for (Running::Message &m : operation.rounds[r].receives) {
        if (isNew(m)) {
          for (const int term : m.terms) operation.arrive(r, term);
          --operation.rounds[r].receivesLeft;
        }
        if (state == Channel::State::Failed) return failBy(operation, m.peer), true;
      }
    goesOn = operation.completeRounds();
  }
  if (operation.isComplete()) {
    end(operation, kDone);
    return true;
  }
  if (moves)
    operation.lastMessage = Clock::now();
  else
    lookAtTime(operation);
  return moves;
}

// The operation's threads continue, and may start it again, or read `busy`, at once.
void Exchange::end(Bound &operation, uint32_t how) noexcept {
  operation.isActive = false;
  if (busySince_) {
    const Clock::time_point now = Clock::now();
    busy_.fetch_add(std::chrono::nanoseconds(now - *busySince_).count(), std::memory_order_relaxed);
    busySince_ = now;
  }
  operation.state.store(how, std::memory_order_release);
  operation.state.notify_all();
  if (settings_.ended) settings_.ended();
}

// ---- failures ---------------------------------------------------------------------------------

void Exchange::failBy(const Bound &operation, int peer) {
  failAll(formatText("{}: no message from or to {}", {operation.name, layout_.describe(peer)}));
}

void Exchange::lookAtTime(Bound &operation) {
  const auto idle = Clock::now() - operation.lastMessage;
  if (idle > settings_.timeout)
    failAll(lateText(operation.name, settings_.timeout, layout_, waitsFor(operation)) + kLateAdvice);
  else if (idle > settings_.warnAfter && !operation.isWarned)
    operation.isWarned = true,
    logging::warn("{}", lateText(operation.name, settings_.warnAfter, layout_, waitsFor(operation)));
}

std::vector<int> Exchange::waitsFor(const Bound &operation) const {
  std::vector<int> peers;
  for (const Running &r : operation.rounds)
    for (const auto *messages : {&r.receives, &r.sends})
      for (const Running::Message &m : *messages)
        if (m.isPending) peers.push_back(m.peer);
  return peers;
}

// `text`: the reason known here. The first reason of another process takes precedence.
void Exchange::failAll(const std::string &text) {
  transport_.abort(text);
  const std::optional<Failure> failure = transport_.failure();
  problem_ =
      formatText("exchange of replicas: {}: {}",
                 {layout_.describe(failure ? failure->process : transport_.process()), failure ? failure->text : text});
  for (const auto &operation : operations_) operation->rounds.clear();  // no channel accesses memory any more
  endAll();
}

void Exchange::endAll() noexcept {
  for (std::vector<Bound *> *operations : {&waiting_, &active_}) {
    for (Bound *operation : *operations) end(*operation, kFailed);
    operations->clear();
  }
}

}  // namespace popart::exchange
