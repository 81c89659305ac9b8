// A meeting goes in rounds, one each time that the program comes to it. Publishing is counted under a lock; the last
// member opens the round. The pieces of work are then taken by whoever is there, so that a member that comes late finds
// them done, and nobody waits for its share.
//
// One wait per meeting is enough, because of what a member does between two rounds of one meeting: it publishes round
// n + 1 only after the end of its round n, and that end comes when all pieces of n are done. So when round n + 1 opens,
// every member has published it, has left round n, and nobody reads or writes what belongs to round n any more: the
// counters of pieces start again there. Before that, a late member of round n still reads the counters of n, which say
// that nothing is left. For the same reason `end` needs no second wait for the others: what a member published is
// neither read nor written once all pieces are done. Waiting for pieces cannot last: who takes one finishes it.
//
// The last member takes those that wait off the count of idle replicas before it wakes them, so that the count is
// exact: when all replicas are idle and some of them wait, nobody will ever come.
#include "runtime/thread_collectives.hpp"

#include <algorithm>
#include <exception>

#include "base/threads/wait_while.hpp"

namespace popart::runtime {

using executable::CollectiveSpec;

namespace {

bool isAlike(const ReplicaGrouping &a, const ReplicaGrouping &b) {
  return a.getGroupSize() == b.getGroupSize() && a.getStride() == b.getStride();
}

}  // namespace

ThreadCollectives::ThreadCollectives(int replicas, bool spin) : replicas_(replicas), spin_(spin) {}

ThreadCollectives::Meeting::Meeting(const CollectiveSpec &spec, int replicas)
    : grouping(static_cast<unsigned>(replicas), static_cast<unsigned>(spec.stride),
               static_cast<unsigned>(spec.groupSize)),
      sites(std::make_unique<Site[]>(grouping.getNumGroups())) {
  const size_t members = grouping.getGroupSize(), operands = spec.elements.size();
  for (unsigned g = 0; g < grouping.getNumGroups(); ++g) {
    sites[g].operands.assign(members, {std::vector<const void *>(operands), std::vector<void *>(operands)});
    sites[g].rounds.assign(members, 0);
  }
}

void ThreadCollectives::add(const CollectiveSpec &spec) {
  Meeting *&meeting = bySpec_[&spec];
  Meeting *&shared = spec.channel < 0 ? meeting : byChannel_[spec.channel];
  if (!shared) shared = meetings_.emplace_back(std::make_unique<Meeting>(spec, replicas_)).get();
  if (!shared->work && !spec.resultElements.empty()) shared->work = std::make_unique<CollectiveWork>(spec);
  meeting = shared;
}

ThreadCollectives::Meeting &ThreadCollectives::meetingOf(const CollectiveSpec &spec) const noexcept {
  const auto found = bySpec_.find(&spec);
  if (found == bySpec_.end()) std::terminate();  // every engine adds what its kernels will meet in
  return *found->second;
}

template <class Visit>
void ThreadCollectives::forEachSite(Visit visit) {
  for (const auto &meeting : meetings_)
    for (unsigned g = 0; g < meeting->grouping.getNumGroups(); ++g) visit(*meeting, g, meeting->sites[g]);
}

bool ThreadCollectives::publish(int replica, const CollectiveSpec &spec, const void *const *in,
                                void *const *out) noexcept {
  const Meeting &meeting = meetingOf(spec);
  Site &site = meeting.siteOf(replica);
  PublishedOperands &own = site.operands[meeting.memberAt(replica)];
  std::copy_n(in, own.in.size(), own.in.begin());
  std::copy_n(out, own.out.size(), own.out.begin());
  const std::lock_guard guard(lock_);
  if (problem_.load(std::memory_order_relaxed) != Problem::None) return false;
  if (++site.published < static_cast<int>(site.operands.size())) return true;
  idle_ -= site.waiting;
  site.published = site.waiting = 0;
  site.taken.store(0, std::memory_order_relaxed);
  site.done.store(0, std::memory_order_relaxed);
  site.opened.fetch_add(1, std::memory_order_acq_rel);
  site.opened.notify_all();
  return true;
}

bool ThreadCollectives::meet(int replica, const CollectiveSpec &spec) noexcept {
  const Meeting &meeting = meetingOf(spec);
  Site &site = meeting.siteOf(replica);
  uint32_t &round = site.rounds[meeting.memberAt(replica)];
  if (site.opened.load(std::memory_order_acquire) == round) {
    const std::lock_guard guard(lock_);
    if (site.opened.load(std::memory_order_relaxed) == round) {
      ++site.waiting;
      if (++idle_ == replicas_) stop(whyNobodyComes());
    }
  }
  waitWhile(site.opened, round, spin_);
  ++round;
  return problem_.load(std::memory_order_acquire) == Problem::None;
}

void ThreadCollectives::work(int replica, const CollectiveSpec &spec) noexcept {
  const Meeting &meeting = meetingOf(spec);
  Site &site = meeting.siteOf(replica);
  const int pieces = meeting.work->pieces();
  for (int piece; (piece = site.taken.fetch_add(1, std::memory_order_relaxed)) < pieces;) {
    meeting.work->run(piece, site.operands);
    if (site.done.fetch_add(1, std::memory_order_acq_rel) + 1 == pieces) site.done.notify_all();
  }
}

void ThreadCollectives::end(int replica, const CollectiveSpec &spec) noexcept {
  const Meeting &meeting = meetingOf(spec);
  const Site &site = meeting.siteOf(replica);
  const int pieces = meeting.work->pieces();
  for (int done; (done = site.done.load(std::memory_order_acquire)) < pieces;) waitWhile(site.done, done, spin_);
}

// Of a group whose members wait in several meetings, each waits for the others.
ThreadCollectives::Problem ThreadCollectives::whyNobodyComes() {
  Problem why = Problem::None;
  forEachSite([&](const Meeting &one, unsigned group, const Site &site) {
    if (site.waiting == 0) return;
    if (why == Problem::None) why = Problem::NobodyComes;
    forEachSite([&](const Meeting &other, unsigned otherGroup, const Site &otherSite) {
      if (&site != &otherSite && otherSite.waiting > 0 && group == otherGroup && isAlike(one.grouping, other.grouping))
        why = Problem::DifferentSteps;
    });
  });
  return why;
}

// With the lock. The first problem counts.
void ThreadCollectives::stop(Problem problem) noexcept {
  if (problem == Problem::None || problem_.load(std::memory_order_relaxed) != Problem::None) return;
  problem_.store(problem, std::memory_order_release);
  forEachSite([](const Meeting &, unsigned, Site &site) {
    site.opened.fetch_add(1, std::memory_order_acq_rel);
    site.opened.notify_all();
  });
}

void ThreadCollectives::start() noexcept {
  const std::lock_guard guard(lock_);
  problem_.store(Problem::None, std::memory_order_relaxed);
  idle_ = 0;
  forEachSite([](const Meeting &, unsigned, Site &site) {
    site.published = site.waiting = 0;
    site.opened.store(0, std::memory_order_relaxed);
    std::fill(site.rounds.begin(), site.rounds.end(), 0);
  });
}

void ThreadCollectives::finish() noexcept {
  const std::lock_guard guard(lock_);
  if (++idle_ == replicas_) stop(whyNobodyComes());
}

void ThreadCollectives::fail() noexcept {
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
      return "the other replicas of its group do not come to it: they ended their run, or wait for others in another "
             "group. Conditions and trip counts around collectives must be the same on all of them";
  }
  return "";
}

}  // namespace popart::runtime
