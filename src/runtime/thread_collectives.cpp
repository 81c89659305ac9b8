// A collective works in rounds, one each time that the program reaches it. The last member to publish opens the round.
// The members that have arrived then take the pieces of work. A member that arrives late finds them done, and no member
// waits for the share of a late one.
//
// One wait per collective is enough, because of what a member does between two rounds of one collective: it publishes
// round n + 1 only after the end of its round n, and that end comes when all pieces of n are done. So when round n + 1
// opens, every member has published it and has left round n, and nobody reads or writes the data of round n any more.
// The counters of pieces restart there. Before that, a late member of round n still reads the counters of n, which
// say that nothing is left. For the same reason `end` needs no second wait for the others: the addresses that a member
// published are neither read nor written once all pieces are done. The wait for pieces always ends: a member that takes
// a piece finishes it.
//
// Collectives use atomics only. Only a replica that is about to sleep takes the lock: it records where it sleeps, and
// checks whether any replica is left that could open a round. Replicas that run are not on the list. So if everybody
// sleeps in a round that is not open, or has ended, no round can open any more. A sleeper whose round is open is about
// to wake up.
#include "runtime/thread_collectives.hpp"

#include <algorithm>

#include <popart/error.hpp>

#include "base/threads/shared_sleep.hpp"
#include "base/threads/wait_while.hpp"

namespace popart::runtime {

using executable::CollectiveSpec;

// The members of one group in this process, for one collective.
struct alignas(64) ThreadCollectives::Site {
  unsigned first = 0;                       // number in the group of the first of these members
  std::vector<PublishedOperands> operands;  // by member, from the first on
  std::unique_ptr<GroupAcross> across;      // null: all members of the group are in this process
  // Of the spec that is waited for, not of the one that is only published.
  const CollectiveWork *work = nullptr;
  std::span<const PublishedOperands> sources;
  std::atomic<int> published{0};       // members, in the round that is not open yet
  std::atomic<uint32_t> opened{0};     // rounds in which all members have published
  std::atomic<int> taken{0}, done{0};  // pieces, in the round that was opened last
};

class ThreadCollectives::Handle final : public executable::CollectiveHandle {
 public:
  Handle(ThreadCollectives &all, Collective &collective, unsigned replica);

  bool publish(const void *const *in, void *const *out) noexcept override;
  bool wait() noexcept override;
  void work(const executable::KernelArgs &args) noexcept override;
  void end() noexcept override;

  // Whether a member has not published what this one waits for.
  bool waits() const noexcept { return site_.opened.load(std::memory_order_acquire) == round_; }
  // Whether this handle and `other` wait for members of the same group.
  bool isOtherCollectiveOfSameGroup(const Handle &other) const noexcept;

 private:
  friend ThreadCollectives;
  ThreadCollectives &all_;
  Collective &collective_;
  const unsigned replica_;
  Site &site_;
  PublishedOperands &own_;
  uint32_t round_ = 0;  // how often it has waited here
};

// One collective of the program, with the data of all replicas of this process.
struct ThreadCollectives::Collective {
  Collective(ThreadCollectives &all, const CollectiveSpec &spec)
      : grouping(static_cast<unsigned>(all.replicas_), static_cast<unsigned>(spec.stride),
                 static_cast<unsigned>(spec.groupSize)) {
    const auto first = static_cast<unsigned>(all.local_.first), end = first + static_cast<unsigned>(all.local_.count);
    for (unsigned r = first; r < end; ++r) {
      std::unique_ptr<Site> &site = sites[grouping.getGroupAt(r)];
      if (site) continue;
      site = std::make_unique<Site>();
      site->first = grouping.getIndexInGroupAt(r);
      unsigned members = 0;
      for (unsigned member = 0; member < grouping.getGroupSize(); ++member) {
        const unsigned other = grouping.getReplicaAt(grouping.getGroupAt(r), member);
        if (other >= first && other < end)
          ++members;
        else if (!all.across_)
          throw internal_error("ThreadCollectives: a group has replica {}, expected replicas {} to {} alone", other,
                               first, end - 1);
      }
      site->operands.resize(members);
    }
    for (unsigned r = first; r < end; ++r) handles.push_back(std::make_unique<Handle>(all, *this, r));
  }
  // Makes room for the addresses that members publish in a step with this spec.
  void add(const CollectiveSpec &spec, const MakeAcross &across) {
    const bool waits = !spec.resultElements.empty();
    if (!work && waits) work = std::make_unique<CollectiveWork>(spec);
    for (const auto &[group, site] : sites) {
      for (PublishedOperands &own : site->operands) {
        own.in.resize(std::max(own.in.size(), spec.elements.size()));
        own.out.resize(std::max({own.out.size(), spec.elements.size(), spec.resultElements.size()}));
      }
      if (!waits || site->work) continue;
      if (site->operands.size() < grouping.getGroupSize()) site->across = across(spec, group);
      site->work = work.get();
      site->sources = site->operands;
    }
  }

  const ReplicaGrouping grouping;
  std::unique_ptr<CollectiveWork> work;             // of groups that have all members in this process
  std::map<unsigned, std::unique_ptr<Site>> sites;  // by group, of those with replicas of this process
  std::vector<std::unique_ptr<Handle>> handles;     // by local replica
};

// ---- a replica --------------------------------------------------------------------------------

ThreadCollectives::Handle::Handle(ThreadCollectives &all, Collective &collective, unsigned replica)
    : all_(all),
      collective_(collective),
      replica_(replica),
      site_(*collective.sites.at(collective.grouping.getGroupAt(replica))),
      own_(site_.operands[collective.grouping.getIndexInGroupAt(replica) - site_.first]) {}

bool ThreadCollectives::Handle::publish(const void *const *in, void *const *out) noexcept {
  if (!all_.goesOn()) return false;
  std::copy_n(in, own_.in.size(), own_.in.begin());
  std::copy_n(out, own_.out.size(), own_.out.begin());
  if (site_.published.fetch_add(1, std::memory_order_acq_rel) + 1 < static_cast<int>(site_.operands.size()))
    return true;
  site_.published.store(0, std::memory_order_relaxed);
  site_.taken.store(0, std::memory_order_relaxed);
  site_.done.store(0, std::memory_order_relaxed);
  if (GroupAcross *const across = site_.across.get()) {
    if (!all_.waitForOthers(replica_ - all_.local_.first, *across, GroupAcross::Wait::Place)) return false;
    across->begin(site_.operands);
    site_.work = &across->work();
    site_.sources = across->results();
  }
  site_.opened.fetch_add(1, std::memory_order_acq_rel);
  site_.opened.notify_all();
  all_.wait_.ring();
  return true;
}

bool ThreadCollectives::Handle::wait() noexcept {
  if (!changesSoon(site_.opened, round_, all_.spin_)) all_.sleep(*this);
  ++round_;
  return all_.goesOn() && (!site_.across || all_.completes(*site_.across, replica_ - all_.local_.first));
}

void ThreadCollectives::Handle::work(const executable::KernelArgs &args) noexcept {
  const int pieces = site_.work->pieces();
  for (int piece; (piece = site_.taken.fetch_add(1, std::memory_order_relaxed)) < pieces;) {
    site_.work->run(piece, site_.sources, site_.operands, own_, args);
    if (site_.done.fetch_add(1, std::memory_order_acq_rel) + 1 == pieces) site_.done.notify_all();
  }
}

void ThreadCollectives::Handle::end() noexcept {
  const int pieces = site_.work->pieces();
  for (int done; (done = site_.done.load(std::memory_order_acquire)) < pieces;) waitWhile(site_.done, done, all_.spin_);
  if (site_.across) site_.across->leave();
}

bool ThreadCollectives::Handle::isOtherCollectiveOfSameGroup(const Handle &other) const noexcept {
  const ReplicaGrouping &own = collective_.grouping, &its = other.collective_.grouping;
  return &site_ != &other.site_ && own.getGroupSize() == its.getGroupSize() && own.getStride() == its.getStride() &&
         own.getGroupAt(replica_) == its.getGroupAt(other.replica_);
}

// ---- all of them ------------------------------------------------------------------------------

ThreadCollectives::ThreadCollectives(int replicas, const executable::LocalReplicas &local, bool spin, MakeAcross across)
    : replicas_(replicas),
      local_(local),
      spin_(spin),
      across_(std::move(across)),
      sleeping_(static_cast<size_t>(local.count)) {}

ThreadCollectives::~ThreadCollectives() = default;

executable::CollectiveHandle &ThreadCollectives::handle(int replica, const CollectiveSpec &spec) {
  const auto known = bySpec_.find(&spec);
  Collective *collective = known != bySpec_.end() ? known->second : nullptr;
  if (!collective) {
    Collective *&shared = spec.channel < 0 ? collective : byChannel_[spec.channel];
    if (!shared) shared = collectives_.emplace_back(std::make_unique<Collective>(*this, spec)).get();
    shared->add(spec, across_);
    bySpec_[&spec] = collective = shared;
  }
  return *collective->handles[static_cast<size_t>(replica - local_.first)];
}

void ThreadCollectives::sleep(Handle &handle) noexcept {
  const int64_t local = handle.replica_ - local_.first;
  const Handle *&sleeper = sleeping_[static_cast<size_t>(local)];
  {
    const std::lock_guard guard(lock_);
    sleeper = &handle;
    stopIfNobodyComes();
  }
  sleepWhile(local, handle.site_.opened, handle.round_);
  const std::lock_guard guard(lock_);
  sleeper = nullptr;
}

// Of the first replica, which has the thread of the caller. It may end the run: by what `wait` throws.
template <class F>
void ThreadCollectives::interruptible(const F &wait) noexcept {
  try {
    wait();
  } catch (const RunEnded &) {  // the thread that ends the run knows the reason
    fail(nullptr);
  } catch (...) {
    interrupt_ = std::current_exception();
    fail(nullptr);
  }
}

template <class T>
void ThreadCollectives::sleepWhile(int64_t local, const std::atomic<T> &number, T value) noexcept {
  if (local > 0) return popart::sleepWhile(number, value);
  interruptible([&] { wait_.sleepWhile(number, value); });
}

// Polls for a while, then sleeps. On a machine where other threads want to run it sleeps at once: there a thread that
// polls uses up its share of the processor, which the steps after the wait need. Whether the run continues.
bool ThreadCollectives::waitForOthers(int64_t local, GroupAcross &group, GroupAcross::Wait what) noexcept {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kPolls{50};
  std::chrono::nanoseconds waited{0};
  if (!group.hasToWait(what, waited)) return goesOn();
  const bool polls = !lostProcessorLately();
  for (const Clock::time_point begin = Clock::now(); goesOn() && group.hasToWait(what, waited);
       waited = Clock::now() - begin) {
    if (!polls || waited > kPolls) group.sleep(what, waited);
    if (local == 0) interruptible(lookAtInterrupts);
  }
  if (local == 0) waited_.fetch_add(waited.count(), std::memory_order_relaxed);
  return goesOn();
}

// A replica that waits here is not among the sleepers: the operation always ends, at the latest at its timeout.
bool ThreadCollectives::completes(GroupAcross &group, int64_t local) noexcept {
  const std::atomic<uint32_t> *const state = group.state();
  if (!state) return waitForOthers(local, group, GroupAcross::Wait::Operands) && group.isComplete();
  if (state->load(std::memory_order_acquire) == GroupAcross::kUnderWay) {
    const auto begin = std::chrono::steady_clock::now();
    if (!changesSoon(*state, GroupAcross::kUnderWay, spin_)) sleepWhile(local, *state, GroupAcross::kUnderWay);
    const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - begin;
    if (local == 0) waited_.fetch_add(waited.count(), std::memory_order_relaxed);
  }
  return goesOn() && group.isComplete();
}

// Called with the lock. If the members of a group wait in several collectives, each of them waits for the others.
void ThreadCollectives::stopIfNobodyComes() noexcept {
  const auto waits = [](const Handle *handle) { return handle && handle->waits(); };
  const auto waiting = std::ranges::count_if(sleeping_, waits);
  if (waiting == 0 || waiting + ended_ < local_.count) return;
  const bool areApart = std::ranges::any_of(sleeping_, [&](const Handle *one) {
    return waits(one) && std::ranges::any_of(sleeping_, [&](const Handle *other) {
             return waits(other) && one->isOtherCollectiveOfSameGroup(*other);
           });
  });
  stop(areApart ? Problem::DifferentSteps : Problem::NobodyComes);
}

// Called with the lock. The first problem is kept.
void ThreadCollectives::stop(Problem problem) noexcept {
  if (!goesOn()) return;
  problem_.store(problem, std::memory_order_release);
  for (const auto &collective : collectives_)
    for (const auto &[group, site] : collective->sites) {
      site->opened.fetch_add(1, std::memory_order_acq_rel);
      site->opened.notify_all();
    }
  wait_.ring();
}

void ThreadCollectives::start() noexcept {
  const std::lock_guard guard(lock_);
  problem_.store(Problem::None, std::memory_order_relaxed);
  ended_ = 0;
  for (const auto &collective : collectives_) {
    for (const auto &[group, site] : collective->sites) {
      site->published.store(0, std::memory_order_relaxed);
      site->opened.store(0, std::memory_order_relaxed);
    }
    for (const auto &handle : collective->handles) handle->round_ = 0;
  }
}

void ThreadCollectives::finish() noexcept {
  const std::lock_guard guard(lock_);
  ++ended_;
  stopIfNobodyComes();
}

void ThreadCollectives::fail(const std::exception *) noexcept {
  const std::lock_guard guard(lock_);
  stop(Problem::ReplicaFailed);
}

const char *ThreadCollectives::problem() const noexcept {
  switch (problem_.load(std::memory_order_acquire)) {
    case Problem::None:
      break;
    case Problem::ReplicaFailed:
      return "another replica failed";
    case Problem::DifferentSteps:
      return "the replicas of its group came to different collectives. Conditions and trip counts around collectives "
             "must be the same on all of them";
    case Problem::NobodyComes:
      return "the other replicas of its group do not reach it: they ended their run, or wait for others in another "
             "group. Conditions and trip counts around collectives must be the same on all of them";
  }
  return "";
}

}  // namespace popart::runtime
