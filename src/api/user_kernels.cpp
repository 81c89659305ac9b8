// The registry of user kernels and the backend that provides them, with plain layouts and one task. An exception is
// reported to the run that called the kernel, and ends it.
#include "api/user_kernels.hpp"

#include <map>
#include <mutex>

#include <popart/userkernel.hpp>

namespace popart {
namespace {

std::mutex registryMutex;
std::map<OperatorIdentifier, UserKernel> &registry() {
  static std::map<OperatorIdentifier, UserKernel> kernels;
  return kernels;
}

const UserKernel *findKernel(const OperatorIdentifier &opid) {
  std::lock_guard lock(registryMutex);
  auto it = registry().find(opid);
  return it == registry().end() ? nullptr : &it->second;
}

class RegisteredKernel : public executable::HostKernel {
 public:
  RegisteredKernel(const executable::KernelRequest &request, UserKernel kernel)
      : op_(request.op->clone()), what_("kernel of " + op_->debugName()), kernel_(std::move(kernel)) {
    op_->settings.graph = nullptr;  // the kernel outlives the program
    for (const auto &operand : request.inputs) inInfos_.push_back(operand.connected ? operand.info : TensorInfo());
    for (const auto &operand : request.outputs) outInfos_.push_back(operand.connected ? operand.info : TensorInfo());
  }
  std::string name() const override { return "user kernel of " + op_->opid.str(); }
  void run(const executable::KernelArgs &args, int) const noexcept override {
    try {
      kernel_(KernelCall(*op_, inInfos_, outInfos_, args.in, args.out));
    } catch (const std::exception &e) {
      args.context.reportText(what_, e.what());
    } catch (...) {
      args.context.reportText(what_, "an exception that is not a std::exception");
    }
  }

 private:
  std::unique_ptr<Op> op_;
  std::string what_;  // for reports
  UserKernel kernel_;
  std::vector<TensorInfo> inInfos_, outInfos_;
};

class UserKernelBackend : public executable::Backend {
 public:
  std::string name() const override { return "user"; }
  std::shared_ptr<const executable::Kernel> createKernel(const executable::KernelRequest &request,
                                                         std::string &reason) const override {
    const UserKernel *kernel = findKernel(request.op->opid);
    if (!kernel) {
      reason = "no kernel is registered for " + request.op->opid.str();
      return nullptr;
    }
    const auto isPlain = [](const executable::OperandDesc &o) { return !o.connected || !o.layout; };
    for (const auto *operands : {&request.inputs, &request.outputs})
      for (const auto &operand : *operands)
        if (!isPlain(operand)) {
          reason = "user kernels take plain layouts only";
          return nullptr;
        }
    return withCost(std::make_unique<RegisteredKernel>(request, *kernel), request);
  }
  bool supports(const Op &op, std::string &reason) const override {
    if (findKernel(op.opid)) return true;
    reason = "no kernel is registered for " + op.opid.str();
    return false;
  }
};

}  // namespace

void registerKernel(const OperatorIdentifier &opid, UserKernel kernel) {
  std::lock_guard lock(registryMutex);
  if (!registry().emplace(opid, std::move(kernel)).second)
    throw error("registerKernel: there is a kernel for {} already. Register each operator once", opid);
}

const executable::Backend &userKernelBackend() {
  static UserKernelBackend backend;
  return backend;
}

}  // namespace popart
