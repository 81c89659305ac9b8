// DepthFirst: ops that split into the same independent parts (such as the products, softmax and element-wise ops of
// attention, by batch and head) run as one kernel that takes part after part through all of them. Intermediate values
// stay in the cache of one core, and those without another reader need memory for only one part per thread. The pass
// that makes such ops is in depth_first_pass.cpp.
#include "backends/cpu/depth_first.hpp"

#include <array>
#include <map>
#include <unordered_map>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/parted_kernel.hpp"
#include "memory/arena.hpp"
#include "schedule/schedule.hpp"

namespace popart::cpu {
namespace {

using executable::HostKernel;
using executable::Kernel;
using executable::KernelArgs;
using executable::KernelRequest;
using executable::OperandDesc;

// An operand of a member: an operand of the whole kernel, or scratch memory for the current part.
struct PassOperand {
  enum class Place : uint8_t { Absent, Input, Output, Scratch } place = Place::Absent;
  size_t index = 0;       // Input, Output
  int64_t offset = 0;     // Scratch: in bytes
  int64_t partBytes = 0;  // Scratch
};

struct Member {
  std::shared_ptr<const HostKernel> kernel;  // in parts
  PartOperands cut;
  std::vector<PassOperand> in, out;
};

class DepthFirstKernel final : public HostKernel {
 public:
  DepthFirstKernel(std::vector<Member> members, int64_t parts, int64_t sharedScratch,
                   std::vector<std::vector<bool>> canOverwrite)
      : members_(std::move(members)),
        parts_(parts),
        sharedScratch_(sharedScratch),
        canOverwrite_(std::move(canOverwrite)) {}

  std::string name() const override {
    std::string text = "depth first";
    for (const Member &m : members_) text += (&m == &members_.front() ? ": " : ", ") + m.kernel->name();
    return text;
  }
  int tasks() const override { return static_cast<int>(parts_); }
  int64_t scratchBytes() const override {
    int64_t own = 0;
    for (const Member &m : members_) own = std::max(own, m.kernel->scratchBytes());
    return sharedScratch_ + own;
  }
  bool canOverwrite(int input, int output) const override {
    return canOverwrite_[static_cast<size_t>(input)][static_cast<size_t>(output)];
  }

  void run(const KernelArgs &args, int part) const noexcept override {
    std::array<const void *, kMostChainOperands> in;
    std::array<void *, kMostChainOperands> out;
    for (size_t l = 0; l < members_.size(); ++l) {
      const Member &m = members_[l];
      args.context.enterLink(static_cast<int>(l));
      for (size_t i = 0; i < m.in.size(); ++i) in[i] = address(m.in[i], args, part);
      for (size_t o = 0; o < m.out.size(); ++o) out[o] = const_cast<void *>(address(m.out[o], args, part));
      KernelArgs inner = args;
      inner.in = in.data();
      inner.out = out.data();
      inner.scratch = static_cast<char *>(args.scratch) + sharedScratch_;
      const int64_t tasks = m.kernel->tasks() / parts_;
      for (int64_t t = part * tasks; t < (part + 1) * tasks; ++t) m.kernel->run(inner, static_cast<int>(t));
    }
    args.context.enterLink(0);
  }

 private:
  // Address of the operand's part 0, as if all parts were stored: the kernel itself adds the offset of the current
  // part.
  static const void *address(const PassOperand &o, const KernelArgs &args, int64_t part) noexcept {
    switch (o.place) {
      case PassOperand::Place::Absent:
        return nullptr;
      case PassOperand::Place::Input:
        return args.in[o.index];
      case PassOperand::Place::Output:
        return args.out[o.index];
      case PassOperand::Place::Scratch:
        return reinterpret_cast<const void *>(reinterpret_cast<intptr_t>(args.scratch) + o.offset - part * o.partBytes);
    }
    return nullptr;
  }

  std::vector<Member> members_;
  int64_t parts_, sharedScratch_;
  std::vector<std::vector<bool>> canOverwrite_;  // [input][output]
};

// Makes the kernel of one DepthFirst op.
class Planner {
 public:
  Planner(const KernelRequest &request, const Graph &body, int64_t parts)
      : request_(request), body_(body), parts_(parts), rootOf_(body.tensorSlots()) {
    for (size_t i = 0; i < rootOf_.size(); ++i) rootOf_[i] = static_cast<uint32_t>(i);
    for (size_t i = 0; i < body.inputs().size(); ++i) inputOf_[body.inputs()[i].value] = i;
  }

  std::unique_ptr<Kernel> make(std::string &reason) {
    for (OpIndex o : schedule::orderOps(body_)) {
      const Op &op = body_.op(o);
      if (executable::isFreeView(op))
        rootOf_[op.outputs()[0].value] = root(op.inputs()[0]);
      else if (!addMember(op, reason))
        return nullptr;
    }
    for (size_t o = 0; o < body_.outputs().size(); ++o) outputOf_[root(body_.outputs()[o])] = o;
    if (!everySharedValueIsCut(reason)) return nullptr;
    const int64_t scratch = placeInside();
    std::vector<Member> members;
    for (Draft &d : drafts_) {
      for (TensorIndex t : d.op->inputs()) d.member.in.push_back(operand(t));
      for (TensorIndex t : d.op->outputs()) d.member.out.push_back(operand(t));
      members.push_back(std::move(d.member));
    }
    return std::make_unique<DepthFirstKernel>(std::move(members), parts_, scratch, overwrites());
  }

 private:
  struct Draft {
    const Op *op;
    std::shared_ptr<const Kernel> whole;
    Member member;
  };

  uint32_t root(TensorIndex t) const { return rootOf_[t.value]; }
  // Bytes of one value; values inside the chain have plain layout.
  int64_t bytesOf(uint32_t r) const { return body_.info(TensorIndex{r}).nbytes(); }

  bool addMember(const Op &op, std::string &reason) {
    KernelRequest request = executable::requestOf(op);
    request.threads = request_.threads;
    for (size_t i = 0; i < op.inputs().size(); ++i)
      if (op.inputs()[i].valid())
        if (const auto it = inputOf_.find(op.inputs()[i].value); it != inputOf_.end())
          request.inputs[i] = request_.inputs[it->second];
    if (op.inputs().size() > kMostChainOperands || op.outputs().size() > kMostChainOperands)
      return reason = op.opType() + " in it has too many operands", false;
    Draft draft{&op, backend().createKernel(request, reason), {}};
    if (!draft.whole) return false;
    if (draft.whole->sharedBytes() > 0) return reason = op.opType() + " in it passes values between tasks", false;
    if (const auto *parted = dynamic_cast<const PartedKernel *>(draft.whole.get()))
      draft.member.kernel = parted->inParts(parts_, draft.member.cut);
    if (!draft.member.kernel) return reason = op.opType() + " in it cannot be split into parts", false;
    drafts_.push_back(std::move(draft));
    return true;
  }

  static bool isCut(uint64_t mask, size_t i) { return (mask >> i & 1) != 0; }

  template <class F>
  void forOperands(const Draft &d, F &&f) const {
    for (size_t i = 0; i < d.op->inputs().size(); ++i)
      if (d.op->inputs()[i].valid()) f(root(d.op->inputs()[i]), isCut(d.member.cut.inputs, i), false, i);
    for (size_t o = 0; o < d.op->outputs().size(); ++o)
      if (d.op->outputs()[o].valid()) f(root(d.op->outputs()[o]), isCut(d.member.cut.outputs, o), true, o);
  }

  // Whether each shared value is split. Part p then depends on nothing that another part writes.
  bool everySharedValueIsCut(std::string &reason) {
    struct Access {
      int members = 0;
      bool cut = true;
    };
    std::map<uint32_t, Access> made;
    for (const Draft &d : drafts_)
      forOperands(d, [&](uint32_t r, bool, bool written, size_t) {
        if (written) made[r];
      });
    for (const Draft &d : drafts_)
      forOperands(d, [&](uint32_t r, bool cut, bool, size_t) {
        const auto it = made.find(r);
        if (it == made.end()) return;
        ++it->second.members;
        it->second.cut &= cut && bytesOf(r) % parts_ == 0 && body_.tensor(TensorIndex{r}).layout.empty();
      });
    for (const auto &[r, access] : made)
      if (access.members > 1 && !access.cut)
        return reason = "value '" + body_.tensor(TensorIndex{r}).id + "' in it cannot be split into parts", false;
    return true;
  }

  // Assigns offsets in scratch memory to the values inside the chain; a value may reuse the memory of one whose live
  // range ends where its own begins.
  int64_t placeInside() {
    std::map<uint32_t, int> last;
    for (size_t m = 0; m < drafts_.size(); ++m)
      forOperands(drafts_[m], [&](uint32_t r, bool, bool, size_t) { last[r] = static_cast<int>(m); });
    std::map<uint32_t, size_t> slot;
    std::vector<memory::Interval> intervals;
    for (size_t m = 0; m < drafts_.size(); ++m) {
      const int now = static_cast<int>(m);
      const Draft &d = drafts_[m];
      for (size_t o = 0; o < d.op->outputs().size(); ++o) {
        if (!d.op->outputs()[o].valid()) continue;
        const uint32_t r = root(d.op->outputs()[o]);
        if (outputOf_.count(r)) continue;
        size_t found = intervals.size();
        for (size_t i = 0; i < d.op->inputs().size() && found == intervals.size(); ++i) {
          if (!d.op->inputs()[i].valid()) continue;
          const uint32_t in = root(d.op->inputs()[i]);
          const auto it = slot.find(in);
          if (it != slot.end() && last.at(in) == now && intervals[it->second].last == now &&
              bytesOf(in) == bytesOf(r) && overwritesAll(d, in, o))
            found = it->second;
        }
        if (found == intervals.size()) intervals.push_back({bytesOf(r) / parts_, now, now});
        intervals[found].last = std::max(now, last.at(r));
        slot[r] = found;
      }
    }
    const memory::ArenaPlan plan = memory::planArena(intervals);
    for (const auto &[r, s] : slot) offsetOf_[r] = plan.offsets[s];
    return plan.bytes;
  }

  // Whether output o may overwrite value `in` of the same member, for all operands that are this value.
  bool overwritesAll(const Draft &d, uint32_t in, size_t o) const {
    for (size_t i = 0; i < d.op->inputs().size(); ++i)
      if (d.op->inputs()[i].valid() && root(d.op->inputs()[i]) == in &&
          !d.whole->canOverwrite(static_cast<int>(i), static_cast<int>(o)))
        return false;
    return true;
  }

  // Whether result o of the chain may be written over operand i: readers of the operand read the same part, and run
  // before that part of the result is written.
  std::vector<std::vector<bool>> overwrites() const {
    std::vector<std::vector<bool>> can(body_.inputs().size(), std::vector<bool>(body_.outputs().size(), false));
    for (size_t i = 0; i < can.size(); ++i)
      for (size_t o = 0; o < can[i].size(); ++o) can[i][o] = overwrites(i, o);
    return can;
  }
  bool overwrites(size_t input, size_t output) const {
    const uint32_t in = body_.inputs()[input].value, out = root(body_.outputs()[output]);
    if (bytesOf(in) != bytesOf(out) || bytesOf(out) % parts_ != 0 || request_.inputs[input].layout != nullptr)
      return false;
    bool written = false, good = true;
    for (const Draft &d : drafts_) {
      bool reads = false;
      forOperands(d, [&](uint32_t r, bool cut, bool, size_t) {
        if (r == in) reads = true, good &= cut;
        if (r == out) good &= cut;
      });
      good &= !(written && reads);
      for (size_t o = 0; o < d.op->outputs().size(); ++o) {
        if (!d.op->outputs()[o].valid() || root(d.op->outputs()[o]) != out) continue;
        written = true;
        good &= !reads || overwritesAll(d, in, o);
      }
    }
    return good && written;
  }

  PassOperand operand(TensorIndex t) const {
    if (!t.valid()) return {};
    const uint32_t r = root(t);
    if (const auto it = inputOf_.find(r); it != inputOf_.end()) return {PassOperand::Place::Input, it->second, 0, 0};
    if (const auto it = outputOf_.find(r); it != outputOf_.end()) return {PassOperand::Place::Output, it->second, 0, 0};
    return {PassOperand::Place::Scratch, 0, offsetOf_.at(r), bytesOf(r) / parts_};
  }

  const KernelRequest &request_;
  const Graph &body_;
  const int64_t parts_;
  std::vector<uint32_t> rootOf_;                             // by tensor: the tensor of which it is a view
  std::unordered_map<uint32_t, size_t> inputOf_, outputOf_;  // roots that are operands of the whole kernel
  std::map<uint32_t, int64_t> offsetOf_;
  std::vector<Draft> drafts_;
};

std::unique_ptr<Kernel> refuse(std::string &reason, const char *what) { return reason = what, nullptr; }

}  // namespace

std::unique_ptr<Kernel> depthFirstKernel(const KernelRequest &request, std::string &reason) {
  const Op &op = *request.op;
  const Graph &body = op.getIr().getGraph(op.attributes().getAttribute<GraphRef>("body").id);
  for (TensorIndex t : body.outputs())
    if (!body.tensor(t).hasProducer()) return refuse(reason, "a result of its graph is one of the graph's inputs");
  return Planner(request, body, op.attrInt("parts")).make(reason);
}

std::span<const Entry> depthFirstKernels() {
  static constexpr Entry kEntries[] = {{"DepthFirst", depthFirstKernel}};
  return kEntries;
}

}  // namespace popart::cpu
