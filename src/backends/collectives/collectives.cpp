// See collectives.hpp. A kernel runs in rounds: one task publishes the operands and waits for the group, `parts_` tasks
// work, one task waits for the end; if the replica's own result is not complete then, `parts_` tasks complete it.
#include "backends/collectives/collectives.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include <popart/op.hpp>

#include "base/element_types.hpp"
#include "executable/collectives.hpp"
#include "executable/host_kernel.hpp"

namespace popart::collectives {
namespace {

using executable::CollectiveKind;
using executable::CollectiveSpec;
using executable::Join;
using executable::KernelArgs;
using executable::KernelRequest;
using executable::OperandDesc;
using executable::Update;

// Elements of part `i` of `n`; parts begin at cache lines.
struct Range {
  Range(int64_t size, int i, int n) {
    constexpr int64_t kLine = 64;
    const int64_t lines = (size + kLine - 1) / kLine;
    begin = std::min(size, lines * i / n * kLine), end = std::min(size, lines * (i + 1) / n * kLine);
  }
  int64_t begin, end;
};

void copyElements(void *to, int64_t at, const void *from, int64_t start, int64_t count, int64_t width) {
  if (count > 0 && (to != from || at != start))
    std::memcpy(static_cast<char *>(to) + at * width, static_cast<const char *>(from) + start * width,
                static_cast<size_t>(count * width));
}

executable::CollectiveHandle *handleIn(const executable::RunContext &context, const CollectiveSpec &spec) {
  executable::Collectives *replicas = context.collectives();
  return replicas ? &replicas->handle(context.replica(), spec) : nullptr;
}

void reportProblem(executable::RunContext &context) noexcept {
  const executable::Collectives *replicas = context.collectives();
  context.reportText("a collective cannot run", replicas ? replicas->problem() : "there are no replicas");
}

// Waits for the group. The operands that other replicas read were published by a separate step, or this kernel
// publishes them.
class CollectiveKernel final : public executable::HostKernel {
 public:
  CollectiveKernel(std::string name, CollectiveSpec spec, int parts, std::vector<int64_t> replaces = {},
                   int64_t scratchBytes = 0)
      : name_(std::move(name)),
        spec_(std::move(spec)),
        replaces_(std::move(replaces)),
        scratchBytes_(scratchBytes),
        parts_(parts),
        ends_{1, 1 + parts, 2 + parts, 2 + parts + (hasOwnPart() ? parts : 0)} {}
  std::string name() const override { return name_; }
  int tasks() const override { return ends_.back(); }
  std::span<const int> roundEnds() const override {
    return {ends_.data(), hasOwnPart() ? ends_.size() : ends_.size() - 1};
  }
  double share(int task) const override { return task == 0 || task > parts_ ? 0.0 : 1.0 / parts_; }
  int64_t scratchBytes() const override { return scratchBytes_; }
  int64_t sharedBytes() const override { return sizeof(bool); }
  bool canOverwrite(int input, int output) const override {
    return spec_.kind == CollectiveKind::Reduce && static_cast<size_t>(input) == replaced(static_cast<size_t>(output));
  }
  const CollectiveSpec *collectiveSpec() const override { return &spec_; }
  executable::CollectiveHandle *takeHandle(const executable::RunContext &context) const override {
    return handleIn(context, spec_);
  }
  void run(const KernelArgs &args, int task) const noexcept override {
    auto *goesOn = static_cast<bool *>(args.shared);
    if (task == 0) {
      *goesOn = args.handle && (isPublished() || args.handle->publish(args.in, args.out)) && args.handle->wait();
      if (!*goesOn) reportProblem(args.context);
    } else if (!*goesOn) {
      return;
    } else if (task <= parts_) {
      args.handle->work(args);
    } else if (task == parts_ + 1) {
      args.handle->end();
    } else {
      takeOwnPart(args, task - parts_ - 2);
    }
  }

 private:
  bool isPublished() const { return spec_.channel >= 0; }
  // A Scatter writes the padding after the last element. If a separate step published the operands, the joined values
  // are in published memory and are copied.
  bool hasOwnPart() const { return spec_.kind == CollectiveKind::Scatter || isPublished(); }

  void takeOwnPart(const KernelArgs &args, int part) const {
    const bool scatters = spec_.kind == CollectiveKind::Scatter;
    for (size_t o = 0; o < spec_.resultElements.size(); ++o) {
      const int64_t width = spec_.update ? spec_.updated[o].elementBytes : getDataTypeInfo(spec_.type).nbytes;
      const int64_t results = spec_.resultElements[o], given = spec_.update ? results : spec_.elements[o];
      const int64_t first = scatters ? args.context.replica() / spec_.stride % spec_.groupSize * results : 0;
      const Range own(results, part, parts_);
      const int64_t last = std::clamp(given - first, own.begin, own.end);
      if (isPublished())
        copyElements(args.out[o], own.begin, args.in[replaced(o)], first + own.begin, last - own.begin, width);
      std::memset(static_cast<char *>(args.out[o]) + last * width, 0, static_cast<size_t>((own.end - last) * width));
    }
  }

  // The operand whose memory result o takes.
  size_t replaced(size_t o) const { return spec_.update ? static_cast<size_t>(replaces_[o]) : o; }

  std::string name_;
  CollectiveSpec spec_;
  std::vector<int64_t> replaces_;  // by result, of an update
  int64_t scratchBytes_;
  int parts_;
  std::array<int, 4> ends_;
};

// Publishes its results, which other replicas change until the step that waits. The results are the operands, or copies
// if the program also reads those elsewhere.
class PublishKernel final : public executable::HostKernel {
 public:
  PublishKernel(CollectiveSpec spec, std::vector<int64_t> bytes) : spec_(std::move(spec)), bytes_(std::move(bytes)) {}
  std::string name() const override { return "publish to replicas"; }
  bool canOverwrite(int input, int output) const override { return input == output; }
  const CollectiveSpec *collectiveSpec() const override { return &spec_; }
  executable::CollectiveHandle *takeHandle(const executable::RunContext &context) const override {
    return handleIn(context, spec_);
  }
  void run(const KernelArgs &args, int) const noexcept override {
    for (size_t o = 0; o < bytes_.size(); ++o) copyElements(args.out[o], 0, args.in[o], 0, bytes_[o], 1);
    if (!args.handle || !args.handle->publish(args.out, args.out)) reportProblem(args.context);
  }

 private:
  CollectiveSpec spec_;
  std::vector<int64_t> bytes_;  // by operand
};

struct KindOf {
  Role role;
  const char *kernel;
  CollectiveKind kind;
};
constexpr KindOf kKinds[] = {{Role::CollectiveReduce, "reduce over replicas", CollectiveKind::Reduce},
                             {Role::CollectiveScatter, "reduce and scatter over replicas", CollectiveKind::Scatter},
                             {Role::CollectiveGather, "gather over replicas", CollectiveKind::Gather}};

struct JoinOf {
  const char *name;
  Join join;
};
constexpr JoinOf kJoins[] = {{"Add", Join::Add},   {"Mul", Join::Mul},        {"Min", Join::Min},
                             {"Max", Join::Max},   {"LogicalAnd", Join::And}, {"LogicalOr", Join::Or},
                             {"Local", Join::Keep}};

// The fields of the spec that all kinds of collectives have, without operands and results.
CollectiveSpec specOf(const KernelRequest &request) {
  const Op &op = *request.op;
  CollectiveSpec spec;
  if (op.hasAttr("op"))
    for (const JoinOf &j : kJoins)
      if (op.attrString("op") == j.name) spec.join = j.join;
  if (op.hasAttr("channel")) spec.channel = op.attrInt("channel");
  spec.groupSize = static_cast<int>(op.attrInt("group_size"));
  spec.stride = static_cast<int>(op.attrInt("stride"));
  spec.type = request.inputs[0].info.dataType();
  return spec;
}

bool joins(DataType type, std::string &reason) {
  if (forElement(kRealElements, type, [](auto) {})) return true;
  return reason = "it joins no elements of type " + toText(type), false;
}

// The unsigned type of the same size, for elements that are only moved; the type itself if there is none.
DataType movedAs(DataType type) {
  for (const DataType same : {DataType::UINT8, DataType::UINT16, DataType::UINT32, DataType::UINT64})
    if (getDataTypeInfo(same).nbytes == getDataTypeInfo(type).nbytes) return same;
  return type;
}

// Number of parts for work on `bytes` bytes.
int partsFor(int64_t bytes, const KernelRequest &request) {
  constexpr int64_t kBytesOfPart = int64_t{1} << 16;
  return static_cast<int>(std::clamp<int64_t>(bytes / kBytesOfPart, 1, request.threads));
}

int64_t elementsOf(const OperandDesc &o) {
  return executable::storageBytes(o.info, o.layout) / getDataTypeInfo(o.info.dataType()).nbytes;
}

class CollectivesBackend final : public executable::Backend {
 public:
  std::string name() const override { return "collectives"; }

  bool supports(const Op &op, std::string &reason) const override {
    if (kindOf(op) || op.is(Role::CollectivePublish)) return true;
    return reason = "it has kernels for collectives over replicas only", false;
  }

  std::shared_ptr<const executable::Kernel> createKernel(const KernelRequest &request,
                                                         std::string &reason) const override {
    const Op &op = *request.op;
    if (!supports(op, reason)) return nullptr;
    const KindOf *row = kindOf(op);
    CollectiveSpec spec = specOf(request);
    if (row) spec.kind = row->kind;
    if (spec.kind == CollectiveKind::Gather) spec.type = movedAs(spec.type);
    if (!joins(spec.type, reason)) return nullptr;
    std::vector<int64_t> bytes;
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      const OperandDesc &in = request.inputs[i], &out = request.outputs[i];
      if (in.layout != out.layout || (in.layout && spec.kind != CollectiveKind::Reduce))
        return reason = "operand and result must have one layout: got " + executable::layoutName(in.layout) + " and " +
                        executable::layoutName(out.layout),
               nullptr;
      const int width = getDataTypeInfo(spec.type).nbytes;
      spec.elements.push_back(executable::storageBytes(in.info, in.layout) / width);
      if (row) spec.resultElements.push_back(executable::storageBytes(out.info, out.layout) / width);
      bytes.push_back(executable::storageBytes(in.info, in.layout));
    }
    if (!row) return withCost(std::make_unique<PublishKernel>(std::move(spec), std::move(bytes)), request);
    const int parts = partsFor(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}), request);
    return withCost(std::make_unique<CollectiveKernel>(row->kernel, std::move(spec), parts), request);
  }

 private:
  static const KindOf *kindOf(const Op &op) {
    if (op.hasAttr("replaces")) return nullptr;  // an update, see updateKernel
    for (const KindOf &m : kKinds)
      if (op.is(m.role)) return &m;
    return nullptr;
  }
};

}  // namespace

std::unique_ptr<executable::Kernel> updateKernel(const KernelRequest &request, std::shared_ptr<const Update> update,
                                                 int64_t scratchBytes, std::string &reason) {
  CollectiveSpec spec = specOf(request);
  if (!joins(spec.type, reason)) return nullptr;
  if (request.outputs.size() > CollectiveSpec::kMostUpdated) return reason = "it has too many results", nullptr;
  const std::vector<int64_t> &replaces = request.op->attrInts("replaces");
  spec.elements = {elementsOf(request.inputs[0])};
  // Values that a separate step publishes: the first operand, and the other operands that are replaced.
  size_t slots = 1;
  for (size_t o = 0; o < request.outputs.size(); ++o) {
    const OperandDesc &result = request.outputs[o];
    spec.resultElements.push_back(elementsOf(result));
    const size_t slot = spec.channel < 0 ? o : replaces[o] == 0 ? 0 : slots++;
    spec.updated.push_back({slot, getDataTypeInfo(result.info.dataType()).nbytes});
  }
  spec.update = std::move(update);
  int64_t bytes = 0;
  for (const OperandDesc &o : request.inputs) bytes += executable::storageBytes(o.info, o.layout);
  return std::make_unique<CollectiveKernel>("update over replicas", std::move(spec), partsFor(bytes, request), replaces,
                                            scratchBytes);
}

const executable::Backend &backend() {
  static const CollectivesBackend instance;
  return instance;
}

}  // namespace popart::collectives
