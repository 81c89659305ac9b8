// Kernel: one compiled operation of an executable, and Backend: who makes kernels. The contract between compile time
// and run time: everything that can fail, allocate or decide happens in Backend::createKernel; Kernel::run only
// computes.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <popart/ir.hpp>

#include "executable/layout.hpp"
#include "executable/run_context.hpp"

namespace popart::executable {

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
  void *shared = nullptr;  // Kernel::sharedBytes() bytes that all tasks of one run see, aligned alike; uninitialised
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
  // Pieces of work; those of one round are independent. Outputs may be cut as KernelRequest::threads suggests, sums as
  // shapes say, so that results do not depend on the number of threads.
  virtual int tasks() const { return 1; }
  // Rounds: the last task of each round, plus one, ascending up to tasks(). All tasks of a round end before the next one
  // begins, so that running tasks in ascending order is always right. Empty: all tasks are one round.
  virtual std::span<const int> roundEnds() const { return {}; }
  virtual int64_t scratchBytes() const { return 0; }
  virtual int64_t sharedBytes() const { return 0; }
  // What planning knows of the cost (executable/cost.hpp). Bytes read and written by all tasks; negative: those of its
  // operands. The part of the whole cost that a task is; the parts of all tasks add up to 1.
  virtual double flops() const { return 0; }
  virtual double bytes() const { return -1; }
  virtual double share(int task) const {
    (void)task;
    return 1.0 / tasks();
  }
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
  int threads = 1;  // that will share the tasks, at most; never changes a bit of the results
};
// The operands of an op as its graph states them: infos, layouts, values of constants.
KernelRequest requestOf(const Op &op);
// Whether the op takes no work: a view of plain memory.
bool isFreeView(const Op &op);
// Writes the layout's name to the tensor.
void setLayout(Tensor &tensor, const Layout &layout);

class Backend;

// A rewrite of lowered programs that only one backend wants. `threads`: what the program is planned for.
struct BackendPass {
  const char *name, *meaning;  // as in the table of all passes
  void (*run)(Ir &program, const Backend &backend, int threads);
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // What programs lowered for this backend depend on beside its name: the instruction set, sizes of panels. Stored
  // programs are for one variant.
  virtual std::string variant() const { return {}; }
  // Run after all other passes, in this order. Each keeps what the program computes, to the bit.
  virtual std::span<const BackendPass> passes() const { return {}; }
  // nullptr and a reason when this backend has no kernel for the request.
  virtual std::shared_ptr<const Kernel> createKernel(const KernelRequest &request, std::string &reason) const = 0;
  // Whether createKernel would accept requestOf(op), with the same reasons; used to decide on decompositions and fusion.
  virtual bool supports(const Op &op, std::string &reason) const = 0;
  // Columns per panel of the packed weights its matrix products like; 0: it works on plain memory only.
  virtual int panelWidth() const { return 0; }
};

}  // namespace popart::executable
