// Collectives for tests of a process that runs some of a program's replicas: one kind notes what replicas publish, the
// other one lets replicas go on with what was noted of those that run elsewhere.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "runtime/thread_collectives.hpp"

namespace popart::test {

using Bytes = std::vector<char>;

// What replicas published: by number of the spec in the order of the program, replica and round; of each operand.
using Published = std::map<std::tuple<size_t, int, size_t>, std::vector<Bytes>>;

// Numbers specs in the order in which replicas ask for them, which is that of the program.
class SpecNumbers {
 public:
  size_t of(const executable::CollectiveSpec &spec) {
    return numbers_.try_emplace(&spec, numbers_.size()).first->second;
  }

 private:
  std::map<const executable::CollectiveSpec *, size_t> numbers_;
};

// All replicas as threads; what they publish is kept.
class NotingCollectives final : public executable::Collectives {
 public:
  explicit NotingCollectives(int replicas) : inner_(replicas, false) {}
  int replicas() const noexcept override { return inner_.replicas(); }
  executable::CollectiveHandle &handle(int replica, const executable::CollectiveSpec &spec) override {
    std::unique_ptr<Handle> &own = handles_[{&spec, replica}];
    if (!own) own = std::make_unique<Handle>(*this, inner_.handle(replica, spec), spec, numbers_.of(spec), replica);
    return *own;
  }
  const char *problem() const noexcept override { return inner_.problem(); }
  void start() noexcept override { inner_.start(); }
  void finish() noexcept override { inner_.finish(); }
  void fail(const std::exception *why) noexcept override { inner_.fail(why); }
  std::exception_ptr takeInterrupt() noexcept override { return inner_.takeInterrupt(); }

  const Published &published() const { return published_; }

 private:
  struct Handle final : executable::CollectiveHandle {
    Handle(NotingCollectives &collectives, executable::CollectiveHandle &handle, const executable::CollectiveSpec &of,
           size_t at, int r)
        : all(collectives), inner(handle), spec(of), number(at), replica(r) {}
    bool publish(const void *const *in, void *const *out) noexcept override {
      const auto width = static_cast<size_t>(getDataTypeInfo(spec.type).nbytes);
      std::vector<Bytes> operands;
      for (size_t i = 0; i < spec.elements.size(); ++i) {
        const auto *bytes = static_cast<const char *>(in[i]);
        operands.emplace_back(bytes, bytes + static_cast<size_t>(spec.elements[i]) * width);
      }
      {
        const std::lock_guard guard(all.lock_);
        all.published_[{number, replica, round++}] = std::move(operands);
      }
      return inner.publish(in, out);
    }
    bool wait() noexcept override { return inner.wait(); }
    void work(const executable::KernelArgs &args) noexcept override { inner.work(args); }
    void end() noexcept override { inner.end(); }

    NotingCollectives &all;
    executable::CollectiveHandle &inner;
    const executable::CollectiveSpec &spec;
    const size_t number;
    const int replica;
    size_t round = 0;
  };

  runtime::ThreadCollectives inner_;
  SpecNumbers numbers_;
  std::map<std::pair<const executable::CollectiveSpec *, int>, std::unique_ptr<Handle>> handles_;
  std::mutex lock_;
  Published published_;
};

// The replicas of one process, as threads. In groups with replicas elsewhere, these have published what was noted.
class PartCollectives final : public executable::Collectives {
 public:
  PartCollectives(int replicas, const executable::LocalReplicas &local, const Published &published)
      : replicas_(replicas), local_(local), published_(published), threads_(replicas, local, false) {}
  int replicas() const noexcept override { return replicas_; }
  executable::CollectiveHandle &handle(int replica, const executable::CollectiveSpec &spec) override {
    const size_t number = numbers_.of(spec);
    std::unique_ptr<Handle> &own = handles_[{&spec, replica}];
    if (own) return *own;
    const ReplicaGrouping grouping(static_cast<unsigned>(replicas_), static_cast<unsigned>(spec.stride),
                                   static_cast<unsigned>(spec.groupSize));
    const unsigned group = grouping.getGroupAt(static_cast<unsigned>(replica));
    std::vector<int> members;
    for (unsigned m = 0; m < grouping.getGroupSize(); ++m)
      members.push_back(static_cast<int>(grouping.getReplicaAt(group, m)));
    if (std::ranges::all_of(members, [&](int m) { return isLocal(m); })) return threads_.handle(replica, spec);
    std::unique_ptr<Site> &site = spec.channel < 0 ? bySpec_[{&spec, group}] : byChannel_[{spec.channel, group}];
    if (!site) site = std::make_unique<Site>(std::move(members));
    if (!spec.resultElements.empty()) site->work = std::make_unique<runtime::CollectiveWork>(spec);
    if (spec.channel < 0 || spec.resultElements.empty()) site->number = number;
    for (const auto &sizes : {spec.elements, spec.resultElements})
      for (const int64_t elements : sizes) site->largest = std::max(site->largest, 8 * static_cast<size_t>(elements));
    own = std::make_unique<Handle>(*this, *site, replica);
    return *own;
  }
  const char *problem() const noexcept override { return "the others do not come"; }
  void start() noexcept override { threads_.start(); }
  void finish() noexcept override { threads_.finish(); }
  void fail(const std::exception *why) noexcept override {
    threads_.fail(why);
    ++failures;
    const std::lock_guard guard(lock_);
    failed_ = true;
    changed_.notify_all();
  }
  std::exception_ptr takeInterrupt() noexcept override { return threads_.takeInterrupt(); }

  std::atomic<int> failures{0};

 private:
  struct Site {
    explicit Site(std::vector<int> all) : members(std::move(all)), operands(members.size()) {}
    const std::vector<int> members;
    std::vector<runtime::PublishedOperands> operands;  // by member
    std::unique_ptr<runtime::CollectiveWork> work;
    size_t number = 0, largest = 0, published = 0, worked = 0;
    std::vector<std::unique_ptr<Bytes>> memory;  // of members elsewhere
  };

  struct Handle final : executable::CollectiveHandle {
    Handle(PartCollectives &collectives, Site &at, int r) : all(collectives), site(at), replica(r) {}
    bool publish(const void *const *in, void *const *out) noexcept override {
      const std::lock_guard guard(all.lock_);
      if (all.failed_) return false;
      runtime::PublishedOperands &own = site.operands[all.place(site, replica)];
      own.in.assign(in, in + all.count(in));
      own.out.assign(out, out + all.count(out));
      ++site.published;
      all.changed_.notify_all();
      return true;
    }
    bool wait() noexcept override {
      std::unique_lock guard(all.lock_);
      const size_t wanted = all.locals(site) * (round + 1);
      all.changed_.wait(guard, [&] { return all.failed_ || site.published >= wanted; });
      return !all.failed_;
    }
    void work(const executable::KernelArgs &args) noexcept override {
      const std::lock_guard guard(all.lock_);
      if (site.worked == round) all.workOn(site, site.operands[all.place(site, replica)], args);
    }
    void end() noexcept override { ++round; }

    PartCollectives &all;
    Site &site;
    const int replica;
    size_t round = 0;
  };

  bool isLocal(int replica) const { return replica >= local_.first && replica < local_.first + local_.count; }
  static size_t count(const void *const *list) {  // a null ends it
    size_t n = 0;
    while (list[n]) ++n;
    return n;
  }
  static size_t count(void *const *list) { return count(const_cast<const void *const *>(list)); }
  size_t locals(const Site &site) const {
    return static_cast<size_t>(std::ranges::count_if(site.members, [&](int m) { return isLocal(m); }));
  }
  static size_t place(const Site &site, int replica) {
    return static_cast<size_t>(std::ranges::find(site.members, replica) - site.members.begin());
  }
  void workOn(Site &site, const runtime::PublishedOperands &own, const executable::KernelArgs &args) {
    site.memory.clear();
    const auto keep = [&](Bytes bytes) {
      return static_cast<void *>(site.memory.emplace_back(std::make_unique<Bytes>(std::move(bytes)))->data());
    };
    for (size_t m = 0; m < site.members.size(); ++m) {
      if (isLocal(site.members[m])) continue;
      site.operands[m] = {};
      for (const Bytes &operand : published_.at({site.number, site.members[m], site.worked}))
        site.operands[m].in.push_back(keep(operand));
      for (size_t o = 0; o < own.out.size(); ++o) site.operands[m].out.push_back(keep(Bytes(site.largest)));
    }
    for (int piece = 0; piece < site.work->pieces(); ++piece)
      site.work->run(piece, site.operands, site.operands, own, args);
    ++site.worked;
  }

  const int replicas_;
  const executable::LocalReplicas local_;
  const Published &published_;
  runtime::ThreadCollectives threads_;
  SpecNumbers numbers_;
  std::map<std::pair<const executable::CollectiveSpec *, unsigned>, std::unique_ptr<Site>> bySpec_;
  std::map<std::pair<int64_t, unsigned>, std::unique_ptr<Site>> byChannel_;
  std::map<std::pair<const executable::CollectiveSpec *, int>, std::unique_ptr<Handle>> handles_;
  std::mutex lock_;
  std::condition_variable changed_;
  bool failed_ = false;
};

}  // namespace popart::test
