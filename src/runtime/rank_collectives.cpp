// See rank_collectives.hpp. Channels have fixed memory, but the addresses that replicas publish change from round to
// round, for example in loops. So terms and results have separate memory: the members' terms are joined into it, and
// results are copied from it. A process with several members needs both steps anyway.
//
// Collectives that are published and waited for in one step share this memory within a group. This is safe: a member
// that publishes for the second collective has left the first one, and it leaves only after all its results are handed
// out.
#include "runtime/rank_collectives.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "base/threads/rest.hpp"
#include "base/threads/wait_while.hpp"
#include "exchange/join.hpp"
#include "exchange/tree.hpp"
#include "runtime/shared_groups.hpp"

namespace popart::runtime {
namespace {

using exchange::ExchangeSpec;
using exchange::MemberRange;
using executable::CollectiveKind;
using executable::CollectiveSpec;
using executable::Join;

int64_t widthOf(DataType type) { return getDataTypeInfo(type).nbytes; }

// The work that is left when results exist: one source holds them, and each member gets its part.
CollectiveSpec handingOut(CollectiveSpec spec, const MemberRange &members) {
  if (spec.kind == CollectiveKind::Reduce) return spec;
  spec.join = Join::Keep;
  if (spec.kind == CollectiveKind::Gather) {
    spec.kind = CollectiveKind::Reduce;
    spec.elements = spec.resultElements;
    return spec;
  }
  for (size_t o = 0; o < spec.elements.size(); ++o) {
    const int64_t chunk = spec.resultElements[o];
    spec.elements[o] = std::clamp<int64_t>(spec.elements[o] - chunk * members.first, 0, chunk * members.count);
  }
  return spec;
}

MemberRange membersHere(const exchange::ReplicaLayout &layout, const ExchangeSpec &spec, int process) {
  const auto all = exchange::membersOf(layout, exchange::groupingOf(spec, layout), spec.group);
  return *std::ranges::find(all, process, &MemberRange::process);
}

// Assigns memory in whole cache lines; without memory, counts the bytes.
class Places {
 public:
  explicit Places(std::byte *memory = nullptr) : memory_(memory) {}
  std::byte *take(int64_t bytes) {
    std::byte *at = memory_ ? memory_ + bytes_ : nullptr;
    bytes_ += (bytes + kLine - 1) / kLine * kLine;
    return at;
  }
  int64_t bytes() const { return bytes_; }
  static constexpr int64_t kLine = 64;

 private:
  std::byte *memory_;
  int64_t bytes_ = 0;
};

// The memories of one collective of one group, for the members of one process.
class GroupMemory {
 public:
  GroupMemory(const CollectiveSpec &spec, const exchange::ReplicaLayout &layout, int process, int group)
      : spec_(spec),
        operation_(exchange::exchangeSpec(spec)),
        members_(membersHere(layout, withGroup(group), process)) {
    if (joins())
      for (const exchange::Node &n : exchange::termsOf(members_.first, members_.count, spec.groupSize)) {
        const int first = n.index << n.level;
        terms_.push_back({first - members_.first, std::min(1 << n.level, spec.groupSize - first)});
      }
  }

  std::tuple<int, int, int> key() const { return {spec_.groupSize, spec_.stride, operation_.group}; }
  bool sharesMemory() const { return spec_.channel < 0; }
  const ExchangeSpec &operation() const { return operation_; }
  bool joins() const { return spec_.kind != CollectiveKind::Gather && spec_.join != Join::Keep; }
  // A member's own chunk is here.
  bool isExchanged() const { return spec_.kind == CollectiveKind::Gather || joins(); }
  int64_t bytes() {
    Places counted;
    place(counted);
    return counted.bytes();
  }

 protected:
  struct Term {
    int first, count;  // among the members of this process
  };

  size_t count() const { return static_cast<size_t>(members_.count); }

  void place(Places &places) {
    const int64_t width = widthOf(spec_.type), joined = widthOf(exchange::termType(spec_.type));
    const auto termWidth = [&](size_t t) { return terms_[t].count == 1 ? width : joined; };
    const size_t operands = spec_.elements.size();
    shared_.assign(operands, nullptr);
    const auto sized = [&](size_t memories) {
      return std::vector<std::vector<void *>>(memories, std::vector<void *>(operands));
    };
    exchanged_.inputs = sized(joins() ? terms_.size() : count());
    exchanged_.results = sized(spec_.kind == CollectiveKind::Scatter ? count() : 1);
    for (size_t o = 0; o < operands; ++o) {
      const int64_t elements = spec_.elements[o];
      for (size_t t = 0; t < terms_.size(); ++t) exchanged_.inputs[t][o] = places.take(elements * termWidth(t));
      std::byte *results = nullptr;
      switch (spec_.kind) {
        case CollectiveKind::Reduce:  // where a term is, if elements are as wide
          results =
              termWidth(0) == width ? static_cast<std::byte *>(exchanged_.inputs[0][o]) : places.take(elements * width);
          exchanged_.results[0][o] = results;
          break;
        case CollectiveKind::Scatter:  // the chunks of all members, in order
          results = places.take(members_.count * spec_.resultElements[o] * width);
          for (size_t m = 0; m < count() && results; ++m)
            exchanged_.results[m][o] = results + static_cast<int64_t>(m) * spec_.resultElements[o] * width;
          break;
        case CollectiveKind::Gather:  // each operand is a part of the result
          results = places.take(elements * spec_.groupSize * width);
          exchanged_.results[0][o] = results;
          for (size_t m = 0; m < count() && results; ++m)
            exchanged_.inputs[m][o] = results + (members_.first + static_cast<int64_t>(m)) * elements * width;
          break;
      }
      shared_[o] = results;
    }
  }

  const CollectiveSpec spec_;
  ExchangeSpec operation_;
  const MemberRange members_;
  std::vector<Term> terms_;
  exchange::ExchangeMemory exchanged_;
  std::vector<void *> shared_;  // by operand: results that the members of this process take from one memory

 private:
  const ExchangeSpec &withGroup(int group) {
    operation_.group = group;
    return operation_;
  }
};

// Bytes of terms and results. Collectives that publish and wait in one step share the memory of the largest of them in
// their group.
class OwnBytes {
 public:
  using Group = std::tuple<int, int, int>;
  void add(GroupMemory &memory) {
    if (memory.sharesMemory())
      shared_[memory.key()] = std::max(shared_[memory.key()], memory.bytes());
    else
      single_ += memory.bytes();
  }
  const std::map<Group, int64_t> &shared() const { return shared_; }
  int64_t all() const {
    return std::accumulate(shared_.begin(), shared_.end(), single_,
                           [](int64_t sum, const auto &group) { return sum + group.second; });
  }

 private:
  std::map<Group, int64_t> shared_;
  int64_t single_ = 0;
};

}  // namespace

// One collective of one group, with the members of this process.
class RankCollectives::Group final : public GroupAcross, public GroupMemory {
 public:
  Group(RankCollectives &all, const CollectiveSpec &spec, int number, int group)
      : GroupMemory(spec, all.layout_, all.process_, group),
        number_(number),
        name_(formatText("{} {} of the program, group {}",
                         {exchange::nameOf(operation_.operation), toText(number), toText(group)})),
        all_(all),
        work_(handingOut(spec, members_), members_.first) {
    results_[0].in.resize(spec.elements.size());
  }

  // What a process published before it failed is complete, so its failure is read first.
  bool hasToWait(Wait what, std::chrono::nanoseconds waited) noexcept override {
    if (!sharedGroup_ || (what == Wait::Operands && !isPublished_)) return false;
    const char *const failure = all_.segments_->failure();
    if (what == Wait::Operands) endIfAstray();
    const int late = sharedGroup_->late(what);
    return late >= 0 && all_.waitsFor(late, failure, *this, waited);
  }

  void sleep(Wait what, std::chrono::nanoseconds waited) noexcept override {
    constexpr std::chrono::milliseconds kMost{50};  // then it looks for failures, interrupts and the timeout
    constexpr std::chrono::microseconds kRestsAs{80};
    const auto most = std::min<std::chrono::nanoseconds>(kMost, all_.settings_.timeout - waited);
    if (!sharedGroup_->sleep(what, std::max<std::chrono::nanoseconds>(most, std::chrono::milliseconds(1))))
      restAfter(std::max<std::chrono::nanoseconds>(waited, kRestsAs));
  }
  void wakeAll() const noexcept {
    if (sharedGroup_) sharedGroup_->wakeAll();
  }

  void begin(std::span<const PublishedOperands> members) noexcept override {
    if (sharedGroup_) return beginSharing(members);
    if (!memory_) return;  // not connected
    for (size_t o = 0; o < spec_.elements.size(); ++o) {
      for (size_t t = 0; t < terms_.size(); ++t) {
        const auto joined = members.subspan(static_cast<size_t>(terms_[t].first), static_cast<size_t>(terms_[t].count));
        if (joined.size() > 1)
          joinTerm(spec_, joined, o, exchanged_.inputs[t][o]);
        else if (spec_.elements[o] > 0)
          std::memcpy(exchanged_.inputs[t][o], joined[0].in[o],
                      static_cast<size_t>(spec_.elements[o] * widthOf(spec_.type)));
      }
      if (!joins()) takeOperands(members, o);
    }
    if (isExchanged()) all_.exchange_.start(exchangeNumber_);
  }

  const std::atomic<uint32_t> *state() const noexcept override {
    if (sharedGroup_) return nullptr;
    return exchangeNumber_ >= 0 ? &all_.exchange_.state(exchangeNumber_) : &nothingUnderWay_;
  }

  bool isComplete() noexcept override {
    if (sharedGroup_) {
      endSharing();
      // A process may come to another collective after hasToWait has looked.
      return isPublished_ && !endIfAstray() && sharedGroup_->late(Wait::Operands) < 0;
    }
    const char *problem = nullptr;
    if (!memory_)
      problem = "the processes of its replicas are not connected";
    else if (isExchanged())
      problem = all_.exchange_.problem(exchangeNumber_);
    if (problem) all_.exchangeProblem_.store(problem, std::memory_order_release);
    return !problem;
  }

  void leave() noexcept override {
    if (sharedGroup_) sharedGroup_->leave();
  }

  const CollectiveWork &work() const noexcept override { return sharedGroup_ ? sharedGroup_->work() : work_; }
  std::span<const PublishedOperands> results() const noexcept override {
    return sharedGroup_ ? sharedGroup_->sources() : std::span<const PublishedOperands>(results_);
  }

  const std::string &name() const { return name_; }
  std::atomic<bool> isWarned{false};  // of a wait for others

  // ---- before the first run
  int number() const { return number_; }
  bool isShared() const { return sharedGroup_.has_value(); }

  // In the segments of all processes of the group, if it can share. `placesOf`: of each process.
  void share(const std::map<int, SharedPlaces> &placesOf) {
    if (!canShare(spec_, all_.layout_, operation_.group)) return;
    std::vector<SharedGroup::Published> all;
    std::byte *own = nullptr;
    const auto grouping = exchange::groupingOf(operation_, all_.layout_);
    for (const MemberRange &m : exchange::membersOf(all_.layout_, grouping, operation_.group)) {
      const std::byte *segment = all_.segments_->of(m.process);
      if (!segment) return;  // of another program, which Exchange::connect refuses
      const SharedPlaces::Place &place = placesOf.at(m.process).at(number_, operation_.group);
      if (m.process == all_.process_) own = all_.segments_->own() + place.offset;
      all.push_back({m, segment + place.offset, place.areaBytes});
    }
    sharedGroup_.emplace(spec_, number_, all, own, all_.uses_[own]);
  }

  void connect(std::byte *memory) {
    Places places(memory);
    place(places);
    std::ranges::copy(shared_, results_[0].in.begin());
    memory_ = memory;
    if (isExchanged()) exchangeNumber_ = all_.exchange_.add(operation_, exchanged_, number_, name_);
  }

 private:
  // Ends the exchange if another process has come to another collective, and returns whether one has.
  bool endIfAstray() noexcept {
    const int astray = sharedGroup_->astray();
    if (astray >= 0)
      all_.end(
          formatText("exchange of replicas: {}: {}: {} came to another collective. Conditions and trip counts around "
                     "collectives must be the same in all processes",
                     {all_.layout_.describe(all_.process_), name_, all_.layout_.describe(astray)}));
    return astray >= 0;
  }

  static int64_t now() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

  void beginSharing(std::span<const PublishedOperands> members) noexcept {
    if (const char *failure = all_.segments_->failure()) all_.end(failure);  // by messages as well
    isPublished_ = !all_.exchangeProblem_.load(std::memory_order_acquire);
    if (!isPublished_) return;  // others may read the place
    isWarned.store(false, std::memory_order_relaxed);
    if (all_.sharing_.fetch_add(1) == 0) all_.sharingSince_ = now();
    isSharing_.store(true, std::memory_order_relaxed);
    sharedGroup_->begin(members);
  }
  void endSharing() noexcept {
    if (isSharing_.load(std::memory_order_relaxed) && isSharing_.exchange(false) && all_.sharing_.fetch_sub(1) == 1)
      all_.busy_ += now() - all_.sharingSince_;
  }

  // Values that are moved but not joined: the operands of a gather, and the chunks that members keep.
  void takeOperands(std::span<const PublishedOperands> members, size_t o) noexcept {
    const int64_t width = widthOf(spec_.type);
    for (size_t m = 0; m < count(); ++m) {
      const auto *from = static_cast<const std::byte *>(members[m].in[o]);
      int64_t elements = spec_.elements[o];
      void *to = exchanged_.inputs[m][o];
      if (spec_.kind == CollectiveKind::Scatter) {
        const int64_t chunk = spec_.resultElements[o], first = (members_.first + static_cast<int64_t>(m)) * chunk;
        elements = std::clamp<int64_t>(elements - first, 0, chunk);
        from += first * width;
        to = exchanged_.results[m][o];
      }
      if (elements > 0) std::memcpy(to, from, static_cast<size_t>(elements * width));
    }
  }

  const int number_;  // of the collective
  const std::string name_;
  RankCollectives &all_;
  std::optional<SharedGroup> sharedGroup_;  // else by messages
  bool isPublished_ = false;                // in this round; written before its members wait
  std::atomic<bool> isSharing_{false};
  const std::byte *memory_ = nullptr;
  int exchangeNumber_ = -1;
  std::atomic<uint32_t> nothingUnderWay_{0};
  std::vector<PublishedOperands> results_{1};
  CollectiveWork work_;
};

exchange::ExchangeSettings RankCollectives::withBell(exchange::ExchangeSettings settings) {
  settings.ended = [this] { threads_.ring(); };
  return settings;
}

RankCollectives::RankCollectives(exchange::Transport &transport, const exchange::ReplicaLayout &layout,
                                 exchange::ExchangeSettings settings)
    : transport_(transport),
      layout_(layout),
      settings_(settings),
      process_(transport.process()),
      threads_(layout.replicas(), {layout.first(process_), layout.count(process_)}, settings.spin,
               [this](const CollectiveSpec &spec, unsigned group) {
                 auto made = std::make_unique<Group>(*this, spec, static_cast<int>(collectives_.size()) - 1,
                                                     static_cast<int>(group));
                 groups_.push_back(made.get());
                 return made;
               }),
      exchange_(transport, layout, withBell(std::move(settings))) {}

RankCollectives::~RankCollectives() = default;

executable::CollectiveHandle &RankCollectives::handle(int replica, const CollectiveSpec &spec) {
  if (!spec.resultElements.empty() && known_.insert(&spec).second) {
    if (isConnected_)
      throw internal_error("RankCollectives: a collective of {} operands over groups of {} is new after connect",
                           spec.elements.size(), spec.groupSize);
    collectives_.push_back(spec);
  }
  return threads_.handle(replica, spec);
}

void RankCollectives::connect() {
  if (isConnected_) return;
  shareMemory();
  OwnBytes own;
  for (Group *g : groups_)
    if (!g->isShared()) own.add(*g);
  const int64_t bytes = own.all();
  memory_.emplace(bytes);
  Places places(reinterpret_cast<std::byte *>(memory_->data()));
  ownBytes_ = bytes;
  std::map<OwnBytes::Group, std::byte *> ofGroup;
  for (const auto &[group, most] : own.shared()) ofGroup[group] = places.take(most);

  auto next = groups_.begin();
  for (size_t c = 0; c < collectives_.size(); ++c) {
    exchange_.declare(exchange::exchangeSpec(collectives_[c]), static_cast<int>(c));
    for (; next != groups_.end() && (*next)->number() == static_cast<int>(c); ++next)
      if (!(*next)->isShared())
        (*next)->connect((*next)->sharesMemory() ? ofGroup[(*next)->key()] : places.take((*next)->bytes()));
  }
  exchange_.connect();
  isConnected_ = true;
}

// Of groups that can share: of the processes of this host, since they decide it together.
void RankCollectives::shareMemory() {
  std::vector<const CollectiveSpec *> collectives;
  for (const CollectiveSpec &spec : collectives_) collectives.push_back(&spec);
  const SharedPlaces own(collectives, layout_, process_);
  segments_.emplace(transport_, layout_, own.bytes(),
                    settings_.sharesMemory ? "" : "engineOptions[\"replicas.sharedMemory\"] is false",
                    settings_.timeout);
  if (!segments_->areShared()) return;
  sharedBytes_ = own.bytes();
  std::map<int, SharedPlaces> placesOf;
  for (int p = 0; p < layout_.processes(); ++p)
    if (layout_.hostOf(p) == layout_.hostOf(process_)) placesOf.try_emplace(p, collectives, layout_, p);
  for (Group *g : groups_) g->share(placesOf);
}

// Whether to continue to wait for `process` in shared memory. `failure`: of any process; null: none has failed.
bool RankCollectives::waitsFor(int process, const char *failure, Group &group,
                               std::chrono::nanoseconds waited) noexcept {
  if (exchangeProblem_.load(std::memory_order_acquire)) return false;
  if (failure) return end(failure), false;
  const auto text = [&](std::chrono::milliseconds time) {
    return exchange::lateText(group.name(), time, layout_, {process});
  };
  if (waited > settings_.timeout)
    return end(formatText("exchange of replicas: {}: {}{}",
                          {layout_.describe(process_), text(settings_.timeout), exchange::kLateAdvice})),
           false;
  if (waited > settings_.warnAfter && !group.isWarned.exchange(true)) logging::warn("{}", text(settings_.warnAfter));
  return true;
}

// Collectives end, and those of the processes with which this one shares memory. The first problem counts.
void RankCollectives::end(const std::string &problem) noexcept {
  const std::lock_guard guard(lock_);
  if (problem_.empty()) problem_ = problem;
  const char *known = nullptr;
  exchangeProblem_.compare_exchange_strong(known, problem_.c_str(), std::memory_order_acq_rel);
  segments_->fail(known ? known : problem_);
  for (const Group *g : groups_) g->wakeAll();
}

int64_t RankCollectives::bytesOf(std::span<const CollectiveSpec *const> collectives,
                                 const exchange::ReplicaLayout &layout, int process,
                                 const exchange::ExchangeSettings &settings) {
  OwnBytes own;
  std::vector<ExchangeSpec> exchanged;
  int64_t shared = 0;
  if (settings.sharesMemory) shared = SharedPlaces(collectives, layout, process).bytes();
  for (const CollectiveSpec *spec : collectives) {
    const ReplicaGrouping grouping = exchange::groupingOf(exchange::exchangeSpec(*spec), layout);
    for (const int group : exchange::groupsOf(layout, grouping, process)) {
      if (exchange::membersOf(layout, grouping, group).size() == 1) continue;  // handled by ThreadCollectives
      if (settings.sharesMemory && canShare(*spec, layout, group)) continue;
      GroupMemory memory(*spec, layout, process, group);
      own.add(memory);
      if (memory.isExchanged()) exchanged.push_back(memory.operation());
    }
  }
  return shared + own.all() + exchange::receivedBytesOf(exchanged, layout, process, settings);
}

int64_t RankCollectives::mostBytesOf(std::span<const CollectiveSpec *const> collectives,
                                     const exchange::ReplicaLayout &layout,
                                     const exchange::ExchangeSettings &settings) {
  constexpr int kMost = 16;
  int64_t bytes = 0;
  for (int p = 0; p < std::min(layout.processes(), kMost); ++p)
    bytes = std::max(bytes, bytesOf(collectives, layout, p, settings));
  return bytes;
}

const char *RankCollectives::problem() const noexcept {
  const char *text = exchangeProblem_.load(std::memory_order_acquire);
  return text ? text : threads_.problem();
}

void RankCollectives::start() noexcept {
  // The operations of a run that failed end soon. They may be started again only after that; starting them then fails.
  if (isOver_.load(std::memory_order_acquire))
    for (const Group *g : groups_)
      if (g->state()) waitWhile(*g->state(), GroupAcross::kUnderWay, false);
  threads_.start();
}

void RankCollectives::fail(const std::exception *why) noexcept {
  const char *problem = threads_.problem();
  const std::string text = why ? why->what() : *problem ? problem : "a replica failed";
  // Must come first: the replicas that threads_ wakes fail as well, and do not know the reason.
  if (!isOver_.exchange(true, std::memory_order_acq_rel)) {
    if (sharedBytes_ > 0) end(formatText("exchange of replicas: {}: {}", {layout_.describe(process_), text}));
    exchange_.fail(text);
  }
  threads_.fail(why);
}

}  // namespace popart::runtime
