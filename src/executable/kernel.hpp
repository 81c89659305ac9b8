// Kernel: what planning needs to know about one compiled operation of an executable, on any device. Backend: the
// factory of kernels. Everything that can fail, allocate or decide happens in Backend::createKernel. Devices define how
// kernels run: executable/host_kernel.hpp has the kernels of the host's processors.
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
  const TensorData *constant = nullptr;  // value if known at compile time, in C order
  bool connected = true;                 // false: absent optional input or output
};

struct CollectiveSpec;

// Immutable: all engines, replicas and threads can use the same object. It stores values, but no pointer into the graph
// it was made from.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::string name() const = 0;  // name of the implementation, for reports: "gemm_nn 8x2"
  // Units of work; those of one round are independent. KernelRequest::threads may decide how outputs are divided; how
  // sums are divided depends only on shapes, so that results do not depend on the number of threads.
  virtual int tasks() const { return 1; }
  // Rounds: the last task of each round, plus one, ascending up to tasks(). All tasks of a round end before the next
  // one begins, so that running tasks in ascending order is always valid. Empty: all tasks are one round.
  virtual std::span<const int> roundEnds() const { return {}; }
  // Scratch memory of a run: for each task that runs at the same time, and for all tasks together.
  virtual int64_t scratchBytes() const { return 0; }
  virtual int64_t sharedBytes() const { return 0; }
  // Work of all tasks of a run, for the cost model (executable/cost.hpp): the cost in the row of its op, see withCost.
  double flops() const { return cost_.flops; }
  // Bytes read and written. Only kernels that read an operand more than once, or not whole, override it.
  virtual double bytes() const { return cost_.bytesRead + cost_.bytesWritten; }
  bool hasCost() const { return hasCost_; }
  // A task's fraction of the whole cost; the fractions of all tasks add up to 1.
  virtual double share(int task) const {
    (void)task;
    return 1.0 / tasks();
  }
  // For kernels in which replicas publish operands, wait for one another, or both; null for all others.
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

// Where threads have their scratch memory one after the other: bytes from one to the next, whole cache lines.
constexpr int64_t scratchStride(int64_t scratchBytes) { return (scratchBytes + 63) / 64 * 64; }

struct KernelRequest {
  const Op *op;
  std::vector<OperandDesc> inputs;
  std::vector<OperandDesc> outputs;
  int threads = 1;  // largest number that share the tasks; never changes a bit of the results
};
// The result of a backend: the kernel, with the cost that the row of the request's op states (costOf) and the bytes by
// which layouts pad its operands.
std::shared_ptr<const Kernel> withCost(std::unique_ptr<Kernel> kernel, const KernelRequest &request);
// The operands of an op, from its graph: infos, layouts, values of constants.
KernelRequest requestOf(const Op &op);
// Whether the op is a no-op: a view of plain memory.
bool isFreeView(const Op &op);
// Whether the memory plan makes the op unnecessary: views of plain memory, rows of stacks, assignments to variables.
bool takesNoStep(const Op &op);
// The layout of a tensor, by the name in its facts, and the reverse. layoutOf throws popart::error for an unknown name.
const Layout *layoutOf(const Tensor &tensor);
void setLayout(Tensor &tensor, const Layout *layout);

class Backend;

// A rewrite of lowered programs for a single backend. `threads`: number of threads that the program is planned for.
struct BackendPass {
  const char *name, *meaning;  // as in the table of all passes
  void (*run)(Ir &program, const Backend &backend, int threads);
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  // What lowered programs depend on besides the backend's name: the instruction set, sizes of panels. Stored programs
  // are for one variant.
  virtual std::string variant() const { return {}; }
  // Passes that run after all others, in this order. They keep every result, bit by bit.
  virtual std::span<const BackendPass> passes() const { return {}; }
  // A kernel, made by withCost; nullptr and a reason if this backend has none for the request.
  virtual std::shared_ptr<const Kernel> createKernel(const KernelRequest &request, std::string &reason) const = 0;
  // Whether createKernel would accept requestOf(op), with the same reasons; used to decide on decompositions and
  // fusion.
  virtual bool supports(const Op &op, std::string &reason) const = 0;
  // The layout that the kernels of `op` prefer for this operand; null: plain. Lowering asks only for operands that the
  // row of the op leaves to the backend (OperandLayout::Chosen), and uses a layout only if createKernel accepts it.
  enum class Side : uint8_t { In, Out };
  virtual const Layout *wantedLayout(const Op &op, Side side, int index) const {
    (void)op, (void)side, (void)index;
    return nullptr;
  }
};

}  // namespace popart::executable
