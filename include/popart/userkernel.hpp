// Kernels of user operators: the counterpart of PopART's Opx for devices without Poplar. A kernel is a function over
// host memory; it is registered under the operator's identifier, next to its OpCreator:
//
//   static popart::RegisterKernel cubeKernel(Cube, [](const popart::KernelCall &call) {
//     const float *x = call.input<float>(0);
//     float *y = call.output<float>(0);
//     for (int64_t i = 0; i < call.inInfo(0).nelms(); ++i) y[i] = x[i] * x[i] * x[i];
//   });
#pragma once
#include <functional>
#include <vector>

#include <popart/error.hpp>
#include <popart/op.hpp>
#include <popart/operatoridentifier.hpp>

namespace popart {

// One call of a kernel: operands in C order. Absent optional operands are null pointers with an unset info.
class KernelCall {
 public:
  KernelCall(const Op &op, const std::vector<TensorInfo> &inInfos, const std::vector<TensorInfo> &outInfos,
             const void *const *in, void *const *out)
      : op_(op), inInfos_(inInfos), outInfos_(outInfos), in_(in), out_(out) {}
  const Op &op() const { return op_; }  // class and attributes; no longer in a graph
  int inputCount() const { return static_cast<int>(inInfos_.size()); }
  int outputCount() const { return static_cast<int>(outInfos_.size()); }
  const TensorInfo &inInfo(int i) const { return inInfos_.at(static_cast<size_t>(i)); }
  const TensorInfo &outInfo(int i) const { return outInfos_.at(static_cast<size_t>(i)); }
  const void *inputData(int i) const { return in_[i]; }
  void *outputData(int i) const { return out_[i]; }
  // Throw popart::error if the element type is not T.
  template <class T>
  const T *input(int i) const {
    check(inInfo(i).dataType() == getDataType<T>(), "kernel of {}: input {} has another type: got {}, asked for {}",
          op_.debugName(), i, inInfo(i).dataType(), getDataType<T>());
    return static_cast<const T *>(in_[i]);
  }
  template <class T>
  T *output(int i) const {
    check(outInfo(i).dataType() == getDataType<T>(), "kernel of {}: output {} has another type: got {}, asked for {}",
          op_.debugName(), i, outInfo(i).dataType(), getDataType<T>());
    return static_cast<T *>(out_[i]);
  }

 private:
  const Op &op_;
  const std::vector<TensorInfo> &inInfos_, &outInfos_;
  const void *const *in_;
  void *const *out_;
};

// Computes every output from the inputs. A session does not make two calls at the same time. An exception ends the run:
// Session::run throws runtime_error.
using UserKernel = std::function<void(const KernelCall &)>;

// Throws popart::error if the operator already has a kernel.
void registerKernel(const OperatorIdentifier &opid, UserKernel kernel);

// Registers at static initialisation.
struct RegisterKernel {
  RegisterKernel(const OperatorIdentifier &opid, UserKernel kernel) { registerKernel(opid, std::move(kernel)); }
};

}  // namespace popart
