// Kernel: one compiled operation of an executable, and Backend: who makes kernels. The contract between compile time
// and run time: everything that can fail, allocate or decide happens in Backend::createKernel; Kernel::run only
// computes.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <popart/op.hpp>

#include "executable/run_context.hpp"

namespace popart::executable {

// How a tensor's elements lie in memory. Plain: C order. ChannelsLast: (N, spatial…, C) for a logical (N, C, spatial…).
// Packed: a logical matrix [rows, columns] (or its transpose) as panels [ceil(columns/panel)][rows][panel], zero
// padded.
struct Layout {
  enum class Kind : uint8_t { Plain, ChannelsLast, Packed, PackedConv };
  Kind kind = Kind::Plain;
  int32_t panel = 0;  // Packed, PackedConv: columns per panel
  // Packed: the stored matrix is the transpose of the logical one. PackedConv: panels of input channels, see
  // layout.cpp.
  bool transposed = false;
  int32_t groups = 1;  // PackedConv
  bool operator==(const Layout &) const = default;
  std::string str() const;
};
// Bytes a tensor of this info takes in this layout (padding included).
int64_t storageBytes(const TensorInfo &info, const Layout &layout);

struct OperandDesc {
  TensorInfo info;
  Layout layout;
  const TensorData *constant = nullptr;  // value, when known at compile time (Plain layout)
  bool connected = true;                 // false: absent optional input or output
};

// Pointers for one call, resolved when the engine is loaded; unconnected operands are null.
struct KernelArgs {
  const void *const *in;
  void *const *out;
  void *scratch;        // Kernel::scratchBytes() bytes, private to the running thread, 64-byte aligned; uninitialised
  RunContext &context;  // of the running thread: where values outside their domain are reported
};

// Operands that a kernel in parts (Kernel::inParts) cuts with it: bit i for input or output i.
struct PartOperands {
  uint64_t inputs = 0, outputs = 0;
};

// Immutable and shareable: the same kernel object serves every replica and thread.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::string name() const = 0;  // implementation chosen, for reports: "gemm_nn 8x2"
  // Independent pieces of work; decided by shapes alone so that results do not depend on the number of threads.
  virtual int tasks() const { return 1; }
  virtual int64_t scratchBytes() const { return 0; }
  virtual double flops() const { return 0; }
  // Output `output` may share memory with input `input` (same bytes, written only after it was read by the same task).
  virtual bool canOverwrite(int input, int output) const {
    (void)input, (void)output;
    return false;
  }
  virtual void run(const KernelArgs &args, int task) const noexcept = 0;

  // How many equal parts the work falls into by itself: the batch of a product. 1: none.
  virtual int64_t parts() const { return 1; }
  // The same computation, to the bit, with tasks [p * tasks() / count, (p + 1) * tasks() / count) as part p of `count`:
  // they touch only the p-th of `count` equal pieces of the memory of each operand that `cut` names. nullptr when the
  // work does not fall apart like that.
  virtual std::shared_ptr<const Kernel> inParts(int64_t count, PartOperands &cut) const {
    (void)count, (void)cut;
    return nullptr;
  }
};

struct KernelRequest {
  const Op *op;
  std::vector<OperandDesc> inputs;
  std::vector<OperandDesc> outputs;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // nullptr and a reason when this backend has no kernel for the request.
  virtual std::unique_ptr<Kernel> createKernel(const KernelRequest &request, std::string &reason) const = 0;
  // Whether createKernel would accept the op with plain layouts; used to decide on decompositions. Same reasons.
  virtual bool supports(const Op &op, std::string &reason) const = 0;
  // Columns per panel of the packed weights its matrix products like; 0: it works on plain memory only.
  virtual int panelWidth() const { return 0; }
};

}  // namespace popart::executable
