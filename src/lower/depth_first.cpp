// A chain begins at a kernel that falls into parts by itself (a batched product) and takes in the kernels after it as
// long as this holds: memory that one of them writes and another one touches is cut into the same parts by both. Part p
// of the chain then depends on nothing that another part writes.
#include "lower/depth_first.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "memory/arena.hpp"

namespace popart::lower {
namespace {

using executable::Kernel;
using executable::KernelArgs;
using executable::PartOperands;
using executable::Step;

constexpr size_t kMostOperands = 32;  // of one kernel in a chain

// An operand of a kernel in the chain: of the chain itself, or a piece of scratch memory that holds the part at hand.
struct Operand {
  enum class Place : uint8_t { Absent, Input, Output, Scratch } place = Place::Absent;
  size_t index = 0;       // Input, Output
  int64_t offset = 0;     // Scratch: in bytes
  int64_t partBytes = 0;  // Scratch
};

struct Link {
  std::shared_ptr<const Kernel> kernel;
  std::vector<Operand> in, out;
};

class DepthFirstKernel final : public Kernel {
 public:
  DepthFirstKernel(std::vector<Link> links, int64_t parts, int64_t sharedScratch)
      : links_(std::move(links)), parts_(parts), sharedScratch_(sharedScratch) {}

  std::string name() const override {
    std::string text = "depth first";
    for (const Link &link : links_) text += (&link == &links_.front() ? ": " : ", ") + link.kernel->name();
    return text;
  }
  int tasks() const override { return static_cast<int>(parts_); }
  int64_t scratchBytes() const override {
    int64_t own = 0;
    for (const Link &link : links_) own = std::max(own, link.kernel->scratchBytes());
    return sharedScratch_ + own;
  }
  double flops() const override {
    double sum = 0;
    for (const Link &link : links_) sum += link.kernel->flops();
    return sum;
  }

  void run(const KernelArgs &args, int part) const noexcept override {
    std::array<const void *, kMostOperands> in;
    std::array<void *, kMostOperands> out;
    for (size_t l = 0; l < links_.size(); ++l) {
      const Link &link = links_[l];
      args.context.enterLink(static_cast<int>(l));
      for (size_t i = 0; i < link.in.size(); ++i) in[i] = address(link.in[i], args, part);
      for (size_t o = 0; o < link.out.size(); ++o) out[o] = const_cast<void *>(address(link.out[o], args, part));
      const KernelArgs inner{in.data(), out.data(), static_cast<char *>(args.scratch) + sharedScratch_, args.context};
      const int64_t tasks = link.kernel->tasks() / parts_;
      for (int64_t t = part * tasks; t < (part + 1) * tasks; ++t) link.kernel->run(inner, static_cast<int>(t));
    }
    args.context.enterLink(0);
  }

 private:
  // Where the operand's first part would lie: the kernel adds the distance to the part at hand itself.
  static const void *address(const Operand &o, const KernelArgs &args, int64_t part) noexcept {
    switch (o.place) {
      case Operand::Place::Absent:
        return nullptr;
      case Operand::Place::Input:
        return args.in[o.index];
      case Operand::Place::Output:
        return args.out[o.index];
      case Operand::Place::Scratch:
        return reinterpret_cast<const void *>(reinterpret_cast<intptr_t>(args.scratch) + o.offset - part * o.partBytes);
    }
    return nullptr;
  }

  std::vector<Link> links_;
  int64_t parts_, sharedScratch_;
};

// A kernel step of a chain in the making.
struct Member {
  const Step *step;
  std::shared_ptr<const Kernel> kernel;  // in parts
  PartOperands cut;
  int time;
};

// How the members of a chain use one storage.
struct Use {
  int members = 0;
  bool written = false;
  bool cut = true;  // by every operand that is this storage
  bool isShared() const { return members > 1 && written; }
};

class Chain {
 public:
  Chain(int64_t parts, Storages &storages) : parts_(parts), storages_(storages) {}

  bool add(const Step &step, int time) {
    if (step.kind != Step::Kind::Kernel || step.in.size() > kMostOperands || step.out.size() > kMostOperands)
      return false;
    Member member{&step, nullptr, {}, time};
    member.kernel = step.kernel->inParts(parts_, member.cut);
    if (!member.kernel) return false;
    auto uses = uses_;
    for (const auto &[storage, own] : usesOf(member)) {
      Use &use = uses[storage];
      ++use.members;
      use.written |= own.written;
      use.cut &= own.cut;
      if (use.isShared() && !use.cut) return false;
    }
    uses_ = std::move(uses);
    members_.push_back(std::move(member));
    return true;
  }

  // Drops members at the end that share nothing they or others write.
  void trim() {
    while (!members_.empty() && !sharesAnything(members_.back())) {
      for (const auto &[storage, own] : usesOf(members_.back())) --uses_[storage].members;
      members_.pop_back();
    }
  }
  size_t size() const { return members_.size(); }

  // The step that stands for the members; storages get their new lives.
  Step make() {
    const int first = members_.front().time, last = members_.back().time;
    const std::map<int, int64_t> scratch = placeInside(first, last);
    Step step;
    step.kind = Step::Kind::Kernel;
    std::vector<Link> links;
    for (const Member &m : members_) {
      step.name += (step.name.empty() ? "" : "+") + m.step->name;
      Link link{m.kernel, {}, {}};
      for (int s : m.step->in) link.in.push_back(operand(s, scratch, Operand::Place::Input, step.in));
      for (int s : m.step->out) link.out.push_back(operand(s, scratch, Operand::Place::Output, step.out));
      links.push_back(std::move(link));
    }
    for (const auto &[storage, use] : uses_)
      if (use.members > 0 && !scratch.count(storage)) storages_.keep(storage, first, last);
    step.kernel = std::make_shared<DepthFirstKernel>(std::move(links), parts_, scratchBytes_);
    return step;
  }

 private:
  std::map<int, Use> usesOf(const Member &member) const {
    std::map<int, Use> uses;
    auto note = [&](const std::vector<executable::BufferIndex> &operands, uint64_t cut, bool written) {
      for (size_t i = 0; i < operands.size(); ++i) {
        if (operands[i] < 0) continue;
        Use &use = uses[storages_.find(operands[i])];
        use.members = 1;
        use.written |= written;
        use.cut &= (cut >> i & 1) != 0 && storages_.bytes(operands[i]) % parts_ == 0;
      }
    };
    note(member.step->in, member.cut.inputs, false);
    note(member.step->out, member.cut.outputs, true);
    return uses;
  }

  bool sharesAnything(const Member &member) const {
    const auto own = usesOf(member);
    return std::any_of(own.begin(), own.end(), [&](const auto &entry) { return uses_.at(entry.first).isShared(); });
  }

  // Offsets in scratch memory of the storages that nothing outside the chain touches.
  std::map<int, int64_t> placeInside(int first, int last) {
    std::vector<int> inside;
    std::vector<memory::Interval> intervals;
    for (const auto &[storage, use] : uses_) {
      if (!use.isShared() || storages_.place(storage) != Storages::Place::Arena) continue;
      if (storages_.firstDefinition(storage) < first || storages_.lastUse(storage) > last) continue;
      inside.push_back(storage);
      intervals.push_back(
          {storages_.bytes(storage) / parts_, storages_.firstDefinition(storage), storages_.lastUse(storage)});
    }
    const memory::ArenaPlan plan = memory::planArena(intervals);
    std::map<int, int64_t> offsets;
    for (size_t i = 0; i < inside.size(); ++i) {
      offsets[inside[i]] = plan.offsets[i];
      storages_.drop(inside[i]);
    }
    scratchBytes_ = plan.bytes;
    return offsets;
  }

  Operand operand(int s, const std::map<int, int64_t> &scratch, Operand::Place place,
                  std::vector<executable::BufferIndex> &list) const {
    if (s < 0) return {};
    if (const auto found = scratch.find(storages_.find(s)); found != scratch.end())
      return {Operand::Place::Scratch, 0, found->second, storages_.bytes(s) / parts_};
    list.push_back(s);
    return {place, list.size() - 1, 0, 0};
  }

  int64_t parts_;
  Storages &storages_;
  std::vector<Member> members_;
  std::map<int, Use> uses_;
  int64_t scratchBytes_ = 0;
};

}  // namespace

int64_t chainDepthFirst(std::vector<Step> &steps, const KernelTimes &times, Storages &storages, int threads) {
  // Parts are shared out whole: with few of them a thread would wait for the others.
  const int64_t fewest = 4 * threads;
  std::vector<Step> result;
  int64_t scratch = 0;
  for (size_t i = 0; i < steps.size();) {
    const int64_t parts = steps[i].kind == Step::Kind::Kernel ? steps[i].kernel->parts() : 1;
    Chain chain(parts, storages);
    if (parts >= fewest)
      for (size_t j = i; j < steps.size() && steps[j].kernel && chain.add(steps[j], times.at(steps[j].kernel.get()));)
        ++j;
    chain.trim();
    if (chain.size() < 2) {
      result.push_back(std::move(steps[i++]));
      continue;
    }
    result.push_back(chain.make());
    scratch = std::max(scratch, result.back().kernel->scratchBytes());
    i += chain.size();
  }
  steps = std::move(result);
  return scratch;
}

}  // namespace popart::lower
