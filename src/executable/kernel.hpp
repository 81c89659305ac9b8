// Kernel: what planning knows of one compiled operation of an executable, on any device, and Backend: the factory of
// kernels. Everything that can fail, allocate or decide happens in Backend::createKernel. Running a kernel is up to the
// device: executable/host_kernel.hpp has the kernels of the host's processors.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <popart/ir.hpp>

#include "executable/layout.hpp"

namespace popart::executable {

struct KernelRequest;

struct OperandDesc {
  TensorInfo info;
  const Layout *layout = nullptr;
  const TensorData *constant = nullptr;  // value, when known at compile time (in C order)
  bool connected = true;                 // false: absent optional input or output
};

struct CollectiveSpec;

// Immutable and shareable: the same kernel object serves every engine, replica and thread. Keeps values, and no pointer
// to the graph it was made from.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::string name() const = 0;  // implementation chosen, for reports: "gemm_nn 8x2"
  // Units of work; those of one round are independent. Outputs may be partitioned by KernelRequest::threads, sums only
  // by shapes, so that results do not depend on the number of threads.
  virtual int tasks() const { return 1; }
  // Rounds: the last task of each round, plus one, ascending up to tasks(). All tasks of a round end before the next
  // one begins, so that running tasks in ascending order is always valid. Empty: all tasks are one round.
  virtual std::span<const int> roundEnds() const { return {}; }
  // Scratch memory of a run: for each task that runs at one time, and for all tasks together.
  virtual int64_t scratchBytes() const { return 0; }
  virtual int64_t sharedBytes() const { return 0; }
  // Work of all tasks of a run, for the cost model (executable/cost.hpp): what the row of its op states, see withCost.
  double flops() const { return cost_.flops; }
  // Bytes read and written. A kernel says so itself only where it passes over an operand more often than once.
  virtual double bytes() const { return cost_.bytesRead + cost_.bytesWritten; }
  bool hasCost() const { return hasCost_; }
  // A task's fraction of the whole cost; the fractions of all tasks add up to 1.
  virtual double share(int task) const {
    (void)task;
    return 1.0 / tasks();
  }
  // Of a kernel in which replicas publish operands, wait for one another, or both; null: of all others.
  virtual const CollectiveSpec *collectiveSpec() const { return nullptr; }
  // Output `output` may share memory with input `input` (same bytes, written only after it was read by the same task).
  virtual bool canOverwrite(int input, int output) const {
    (void)input, (void)output;
    return false;
  }

 private:
  friend std::shared_ptr<const Kernel> withCost(std::unique_ptr<Kernel> kernel, const KernelRequest &request);
  Cost cost_;
  bool hasCost_ = false;
};

struct KernelRequest {
  const Op *op;
  std::vector<OperandDesc> inputs;
  std::vector<OperandDesc> outputs;
  int threads = 1;  // that will share the tasks, at most; never changes a bit of the results
};
// What a backend returns: the kernel it made, with the cost that the row of the request's op states (costOf) and the
// bytes by which layouts pad its operands.
std::shared_ptr<const Kernel> withCost(std::unique_ptr<Kernel> kernel, const KernelRequest &request);
// The operands of an op as its graph states them: infos, layouts, values of constants.
KernelRequest requestOf(const Op &op);
// Whether the op is a no-op: a view of plain memory.
bool isFreeView(const Op &op);
// Whether the memory plan alone carries the op out: views of plain memory, rows of stacks, assignments to variables.
bool takesNoStep(const Op &op);
// The layout that the tensor names, and the other way round. layoutOf throws popart::error for an unknown name.
const Layout *layoutOf(const Tensor &tensor);
void setLayout(Tensor &tensor, const Layout *layout);

class Backend;

// A rewrite of lowered programs for one backend only. `threads`: what the program is planned for.
struct BackendPass {
  const char *name, *meaning;  // as in the table of all passes
  void (*run)(Ir &program, const Backend &backend, int threads);
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // What programs lowered for this backend depend on besides its name: the instruction set, sizes of panels. Stored
  // programs are for one variant.
  virtual std::string variant() const { return {}; }
  // Run after all other passes, in this order. Each keeps what the program computes, to the bit.
  virtual std::span<const BackendPass> passes() const { return {}; }
  // A kernel withCost; nullptr and a reason when this backend has none for the request.
  virtual std::shared_ptr<const Kernel> createKernel(const KernelRequest &request, std::string &reason) const = 0;
  // Whether createKernel would accept requestOf(op), with the same reasons; used to decide on decompositions and
  // fusion.
  virtual bool supports(const Op &op, std::string &reason) const = 0;
  // The layout that the kernels of `op` prefer for this operand; null: plain. Lowering asks for operands that the op's
  // row leaves to the backend (OperandLayout::Chosen), and keeps a layout only where createKernel accepts it.
  enum class Side : uint8_t { In, Out };
  virtual const Layout *wantedLayout(const Op &op, Side side, int index) const {
    (void)op, (void)side, (void)index;
    return nullptr;
  }
};

}  // namespace popart::executable
