// See collectives.hpp. A kernel runs in three rounds: begin, the parts of the replica's share, end.
#include "backends/collectives/collectives.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <popart/op.hpp>

#include "base/element_types.hpp"
#include "executable/collectives.hpp"
#include "executable/host_kernel.hpp"

namespace popart::collectives {
namespace {

using executable::CollectiveSpec;
using executable::Join;
using executable::KernelArgs;
using executable::KernelRequest;
using executable::Meeting;
using executable::OperandDesc;

class CollectiveKernel final : public executable::HostKernel {
 public:
  CollectiveKernel(std::string name, CollectiveSpec spec, int parts)
      : name_(std::move(name)), spec_(std::move(spec)), parts_(parts), ends_{1, 1 + parts, 2 + parts} {}
  std::string name() const override { return name_; }
  int tasks() const override { return parts_ + 2; }
  std::span<const int> roundEnds() const override { return ends_; }
  double share(int task) const override { return task == 0 || task > parts_ ? 0.0 : 1.0 / parts_; }
  int64_t sharedBytes() const override { return sizeof(bool); }
  bool canOverwrite(int input, int output) const override {
    return spec_.meeting == Meeting::Reduce && input == output;
  }
  void run(const KernelArgs &args, int task) const noexcept override {
    executable::RunContext &context = args.context;
    executable::Collectives *replicas = context.collectives();
    auto *meets = static_cast<bool *>(args.shared);
    if (task == 0) {
      *meets = replicas && replicas->begin(context.replica(), spec_, args.in, args.out);
      if (!*meets)
        context.reportText("a collective cannot run", replicas ? replicas->problem() : "there are no replicas");
    } else if (*meets && task <= parts_) {
      replicas->work(context.replica(), spec_, task - 1, parts_);
    } else if (*meets && !replicas->end(context.replica(), spec_)) {
      context.reportText("a collective cannot run", replicas->problem());
    }
  }

 private:
  std::string name_;
  CollectiveSpec spec_;
  int parts_;
  std::array<int, 3> ends_;
};

struct MeetingOf {
  const char *type, *kernel;
  Meeting meeting;
};
constexpr MeetingOf kMeetings[] = {{"CollectiveReduce", "reduce over replicas", Meeting::Reduce},
                                   {"CollectiveScatter", "reduce and scatter over replicas", Meeting::Scatter},
                                   {"CollectiveGather", "gather over replicas", Meeting::Gather}};

struct JoinOf {
  const char *name;
  Join join;
};
constexpr JoinOf kJoins[] = {{"Add", Join::Add},   {"Mul", Join::Mul},        {"Min", Join::Min},
                             {"Max", Join::Max},   {"LogicalAnd", Join::And}, {"LogicalOr", Join::Or},
                             {"Local", Join::Keep}};

class CollectivesBackend final : public executable::Backend {
 public:
  std::string name() const override { return "collectives"; }

  bool supports(const Op &op, std::string &reason) const override {
    if (meetingOf(op)) return true;
    return reason = "it has kernels for collectives over replicas only", false;
  }

  std::shared_ptr<const executable::Kernel> createKernel(const KernelRequest &request,
                                                         std::string &reason) const override {
    const Op &op = *request.op;
    const MeetingOf *row = meetingOf(op);
    if (!row) return supports(op, reason), nullptr;
    CollectiveSpec spec;
    spec.meeting = row->meeting;
    for (const JoinOf &j : kJoins)
      if (op.attrString("op") == j.name) spec.join = j.join;
    spec.groupSize = static_cast<int>(op.attrInt("group_size"));
    spec.stride = static_cast<int>(op.attrInt("stride"));
    spec.type = request.inputs[0].info.dataType();
    if (!forElement(kRealElements, spec.type, [](auto) {}))
      return reason = "it joins no elements of type " + toText(spec.type), nullptr;
    int64_t bytes = 0;
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      const OperandDesc &in = request.inputs[i], &out = request.outputs[i];
      if (in.layout != out.layout || (in.layout && spec.meeting != Meeting::Reduce))
        return reason = "operand and result must have one layout: got " + executable::layoutName(in.layout) + " and " +
                        executable::layoutName(out.layout),
               nullptr;
      const int width = getDataTypeInfo(spec.type).nbytes;
      spec.elements.push_back(executable::storageBytes(in.info, in.layout) / width);
      spec.resultElements.push_back(executable::storageBytes(out.info, out.layout) / width);
      bytes += spec.elements.back() * width;
    }
    constexpr int64_t kBytesOfPart = int64_t{1} << 16;
    const auto parts = static_cast<int>(std::clamp<int64_t>(bytes / kBytesOfPart, 1, request.threads));
    return withCost(std::make_unique<CollectiveKernel>(row->kernel, std::move(spec), parts), request);
  }

 private:
  static const MeetingOf *meetingOf(const Op &op) {
    for (const MeetingOf &m : kMeetings)
      if (op.def().type() == m.type) return &m;
    return nullptr;
  }
};

}  // namespace

const executable::Backend &backend() {
  static const CollectivesBackend instance;
  return instance;
}

}  // namespace popart::collectives
