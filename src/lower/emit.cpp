// One walk over the schedule of each flat graph numbers every op with a time (loop bodies and branches lie inside their
// op's range), asks the backends for kernels, and records who reads and writes which storage when. Views share with
// their input, loop carries with the loop's results, an invariant carry with the outer value; the rest is decided in
// sharing.cpp. Then kernels are chained depth first, the arena is planned and the steps get their buffers.
#include "lower/emit.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "lower/depth_first.hpp"
#include "lower/sharing.hpp"
#include "lower/storage.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

using executable::Executable;
using executable::Layout;
using executable::OperandDesc;
using executable::Program;
using executable::Step;
using Place = Storages::Place;

class Emitter {
 public:
  Emitter(const Ir &flat, const Layouts &layouts, const LowerOptions &options)
      : flat_(flat), layouts_(layouts), options_(options), result_(std::make_shared<Executable>()) {}

  std::shared_ptr<Executable> run() {
    const Graph &main = flat_.getMainGraph();
    collectStreams(main);
    auto program = std::make_shared<Program>();
    emitGraph(main, *program);
    sharing_.run();
    if (options_.fuse) chainKernels();
    finish(*program);
    return result_;
  }

 private:
  // ---- values -----------------------------------------------------------------------------------
  int &slot(const Graph &graph, TensorIndex t) {
    auto &list = storageOf_[&graph];
    if (list.empty()) list.assign(graph.tensorSlots(), -1);
    return list[t.value];
  }

  int storage(const Graph &graph, TensorIndex t) {
    int &s = slot(graph, t);
    if (s >= 0) return s;
    const Tensor &tensor = graph.tensor(t);
    const Layout &layout = layouts_.of(graph, t);
    const int64_t bytes = executable::storageBytes(tensor.info, layout);
    switch (tensor.tensorType()) {
      case TensorType::Variable:
        result_->variables.push_back(
            {tensor.id, tensor.info, layout, tensor.tensorData(), false, tensor.isOptimizerState});
        return s = storages_.add(Place::Variable, bytes, static_cast<int64_t>(result_->variables.size()) - 1,
                                 tensor.id);
      case TensorType::Const: {
        TensorData data = tensor.tensorData();
        if (layout.kind != Layout::Kind::Plain) {
          TensorData packed(TensorInfo(DataType::UINT8, {bytes}));
          executable::pack(tensor.info, layout, data.data(), packed.mutableData());
          data = packed;
        }
        result_->constants.push_back({data, layout});
        return s = storages_.add(Place::Constant, bytes, static_cast<int64_t>(result_->constants.size()) - 1,
                                 tensor.id);
      }
      default:
        return s = storages_.add(Place::Arena, bytes, 0, tensor.id);
    }
  }

  OperandDesc describe(const Graph &graph, TensorIndex t) const {
    if (!t.valid()) return {TensorInfo(), {}, nullptr, false};
    const Tensor &tensor = graph.tensor(t);
    return {tensor.info, layouts_.of(graph, t),
            tensor.tensorType() == TensorType::Const ? &tensor.tensorData() : nullptr, true};
  }

  // ---- ops --------------------------------------------------------------------------------------
  void emitGraph(const Graph &graph, Program &program) {
    programs_.push_back(&program);
    if (graph.isMain())  // every variable exists, used or not: the host may read and write it
      for (Tensor *t : graph.tensorsOfType(TensorType::Variable)) storage(graph, t->index());
    for (OpIndex o : schedule::schedule(graph)) {
      const Op &op = graph.op(o);
      ++time_;
      if (op.is("VariableAssign")) {
        emitAssign(graph, op);
      } else if (op.is("HostLoad")) {
        emitHost(graph, op, program, Step::Kind::HostLoad);
      } else if (op.is("HostStore")) {
        emitHost(graph, op, program, Step::Kind::HostStore);
      } else if (op.is("Loop")) {
        emitLoop(graph, op, program);
      } else if (op.is("If")) {
        emitIf(graph, op, program);
      } else if (isFreeView(graph, op)) {
        const int in = storage(graph, op.inputs()[0]);
        slot(graph, op.outputs()[0]) = in;
      } else {
        emitKernel(graph, op, program);
      }
    }
  }

  void emitAssign(const Graph &graph, const Op &op) {
    const TensorIndex variable = op.inputs()[0], value = op.inputs()[1];
    const bool alike = layouts_.of(graph, variable) == layouts_.of(graph, value);
    sharing_.addAssign(storage(graph, variable), storage(graph, value),
                       alike ? Sharing::Layouts::Same : Sharing::Layouts::Different, time_);
  }
  bool isFreeView(const Graph &graph, const Op &op) const {
    return op.has(Trait::View) && !op.isUserOp() && layouts_.of(graph, op.inputs()[0]).kind == Layout::Kind::Plain &&
           layouts_.of(graph, op.outputs()[0]).kind == Layout::Kind::Plain;
  }

  void emitKernel(const Graph &graph, const Op &op, Program &program) {
    executable::KernelRequest request{&op, {}, {}, options_.threads};
    Step step;
    step.name = op.str();
    Emitted emitted;
    emitted.time = time_;
    for (TensorIndex t : op.inputs()) {
      request.inputs.push_back(describe(graph, t));
      emitted.in.push_back(t.valid() ? storage(graph, t) : -1);
      if (t.valid()) storages_.use(emitted.in.back(), time_);
    }
    for (TensorIndex t : op.outputs()) {
      request.outputs.push_back(describe(graph, t));
      emitted.out.push_back(t.valid() ? storage(graph, t) : -1);
      if (t.valid()) storages_.define(emitted.out.back(), time_);
    }
    step.kernel = chooseKernel(op, request);
    step.in = emitted.in;
    step.out = emitted.out;
    emitted.kernel = step.kernel.get();
    result_->scratchBytesPerThread = std::max(result_->scratchBytesPerThread, step.kernel->scratchBytes());
    result_->sharedScratchBytes = std::max(result_->sharedScratchBytes, step.kernel->sharedBytes());
    program.steps.push_back(std::move(step));
    sharing_.addKernel(std::move(emitted));
  }

  std::shared_ptr<const executable::Kernel> chooseKernel(const Op &op, const executable::KernelRequest &request) {
    std::string reasons;
    for (size_t b = 0; b < options_.backends.size(); ++b) {
      std::string reason;
      if (auto kernel = options_.backends[b]->createKernel(request, reason)) {
        if (b > 0) result_->fallbacks.push_back({op.str(), options_.backends[b - 1]->name(), reasons});
        return kernel;
      }
      reasons += (reasons.empty() ? "" : "; ") + options_.backends[b]->name() + ": " + reason;
    }
    throw error("{}: no backend of this device has a kernel for it: {}", op.debugName(), reasons);
  }

  // ---- host streams -----------------------------------------------------------------------------
  void collectStreams(const Graph &main) {
    for (Graph *graph : flat_.getAllGraphs())
      for (Op *op : graph->ops()) {
        if (op->is("HostLoad")) inputStream(main, *op);
        if (op->is("HostStore")) outputStream(*op);
      }
  }
  int inputStream(const Graph &, const Op &op) {
    const std::string &id = op.attrString("stream");
    const auto [it, fresh] = inputStreams_.try_emplace(id, static_cast<int>(result_->inputs.size()));
    if (fresh) result_->inputs.push_back({id, op.outInfo(0), 1, false});
    return it->second;
  }
  int outputStream(const Op &op) {
    const std::string &id = op.attrString("stream");
    const auto [it, fresh] = outputStreams_.try_emplace(id, static_cast<int>(result_->outputs.size()));
    if (!fresh) {
      const TensorInfo &info = result_->outputs[static_cast<size_t>(it->second)].info;
      if (info != op.inInfo(0))
        throw error("{}: stream '{}' gets values of several types or shapes: got {} and {}. Use two streams",
                    op.debugName(), id, info, op.inInfo(0));
      return it->second;
    }
    using Return = executable::OutputStream::Return;
    const std::string &kind = op.attrString("return");
    const Return r = kind == "final"    ? Return::Final
                     : kind == "everyn" ? Return::EveryN
                     : kind == "sum"    ? Return::Sum
                                        : Return::All;
    result_->outputs.push_back({id, op.inInfo(0), r, op.attrInt("period")});
    return it->second;
  }

  void emitHost(const Graph &graph, const Op &op, Program &program, Step::Kind kind) {
    Step step;
    step.kind = kind;
    step.name = op.str();
    const bool load = kind == Step::Kind::HostLoad;
    const TensorIndex t = load ? op.outputs()[0] : op.inputs()[0];
    if (layouts_.of(graph, t).kind != Layout::Kind::Plain)
      throw internal_error("{}: a host stream must have plain layout", op.debugName());
    const int s = storage(graph, t);
    load ? storages_.define(s, time_) : sharing_.readOutsideKernels(s, time_);
    (load ? step.out : step.in) = {s};
    step.stream = load ? inputStream(graph, op) : outputStream(op);
    step.bytes = graph.info(t).nbytes();
    program.steps.push_back(std::move(step));
  }

  // ---- control ----------------------------------------------------------------------------------
  void emitLoop(const Graph &graph, const Op &op, Program &program) {
    const Graph &body = *op.getCalledGraphs().front();
    const int start = time_++;
    const int carries = op.inputCount() - 2;
    Step step;
    step.kind = Step::Kind::Loop;
    step.name = op.str();
    step.in = {loopInput(graph, op, 0, start), loopInput(graph, op, 1, start)};
    step.tripCount = op.hasAttr("trip_count") ? op.attrInt("trip_count") : -1;
    step.iteration = storage(body, body.inputs()[0]);
    const int condition = storage(body, body.inputs()[1]);

    std::vector<int> carried(carries);
    std::vector<bool> invariant(carries);
    for (int j = 0; j < carries; ++j) {
      const TensorIndex in = body.inputs()[2 + j];
      const int outer = storage(graph, op.inputs()[2 + j]);
      sharing_.readOutsideKernels(outer, start);
      invariant[j] = body.outputs()[1 + j] == in;
      carried[j] = invariant[j] ? (slot(body, in) = outer) : storage(body, in);
      if (!invariant[j]) step.initial.push_back({outer, carried[j], storages_.bytes(carried[j])});
    }
    auto inner = std::make_shared<Program>();
    emitGraph(body, *inner);
    const int end = ++time_;

    for (int s : {step.iteration, condition}) storages_.keep(s, start, end);
    step.condition = storage(body, body.outputs()[0]);
    storages_.keep(step.condition, start, end);
    for (int j = 0; j < carries; ++j) {
      if (invariant[j]) {
        sharing_.readOutsideKernels(carried[j], end);
        continue;
      }
      storages_.keep(carried[j], start, end);
      const int value = storage(body, body.outputs()[1 + j]);
      storages_.use(value, end);
      sharing_.addCarriedMove(value, carried[j], start);
    }
    addCarriedMoves(step, body, carried, invariant, start, end);
    for (int j = 0; j < op.outputCount(); ++j) loopResult(graph, op, body, step, carried, j, start, end);
    step.programs = {inner};
    program.steps.push_back(std::move(step));
  }

  int loopInput(const Graph &graph, const Op &op, int i, int time) {
    if (!op.hasInput(i)) return -1;
    const int s = storage(graph, op.inputs()[i]);
    sharing_.readOutsideKernels(s, time);
    return s;
  }

  // After each iteration body results move to the carries; a result that is another carry goes through a temporary.
  void addCarriedMoves(Step &step, const Graph &body, const std::vector<int> &carried,
                       const std::vector<bool> &invariant, int start, int end) {
    std::vector<Step::Move> last;
    std::set<int> carries;
    for (int c : carried) carries.insert(storages_.find(c));
    for (size_t j = 0; j < carried.size(); ++j) {
      if (invariant[j]) continue;
      int value = storage(body, body.outputs()[1 + j]);
      const int64_t bytes = storages_.bytes(carried[j]);
      if (carries.count(storages_.find(value))) {
        sharing_.readOutsideKernels(value, end);
        const int temporary = storages_.add(Place::Arena, bytes, 0, step.name + "/carry");
        storages_.keep(temporary, start, end);
        step.carried.push_back({value, temporary, bytes});
        value = temporary;
      }
      last.push_back({value, carried[j], bytes});
    }
    step.carried.insert(step.carried.end(), last.begin(), last.end());
  }

  void loopResult(const Graph &graph, const Op &op, const Graph &body, Step &step, const std::vector<int> &carried,
                  int j, int start, int end) {
    if (!op.hasOutput(j)) return;
    if (j < static_cast<int>(carried.size())) {  // the carry itself is the result
      slot(graph, op.outputs()[j]) = carried[j];
      return;
    }
    const int to = storage(graph, op.outputs()[j]);
    storages_.keep(to, start, end);
    const TensorIndex from = body.outputs()[1 + j];
    sharing_.readOutsideKernels(storage(body, from), end);
    step.scans.push_back({storage(body, from), to, body.info(from).nbytes()});
  }

  void emitIf(const Graph &graph, const Op &op, Program &program) {
    const int start = time_;
    Step step;
    step.kind = Step::Kind::If;
    step.name = op.str();
    step.in = {storage(graph, op.inputs()[0])};
    sharing_.readOutsideKernels(step.in[0], start);
    std::vector<int> results;
    for (TensorIndex t : op.outputs()) results.push_back(t.valid() ? storage(graph, t) : -1);
    size_t first = 1;  // input of the op that is the branch's first
    for (const char *name : {"then_branch", "else_branch"}) {
      const Graph &branch = flat_.getGraph(op.attributes().getAttribute<GraphRef>(name).id);
      for (size_t i = 0; i < branch.inputs().size(); ++i)
        slot(branch, branch.inputs()[i]) = storage(graph, op.inputs()[first + i]);
      first += branch.inputs().size();
      auto inner = std::make_shared<Program>();
      emitGraph(branch, *inner);
      ++time_;
      for (size_t i = 0; i < results.size(); ++i) {
        if (results[i] < 0) continue;
        Step copy;
        copy.kind = Step::Kind::Copy;
        copy.in = {storage(branch, branch.outputs()[i])};
        copy.out = {results[i]};
        copy.bytes = branch.info(branch.outputs()[i]).nbytes();
        copy.name = op.str() + "/result";
        sharing_.readOutsideKernels(copy.in[0], time_);
        inner->steps.push_back(std::move(copy));
      }
      step.programs.push_back(inner);
    }
    for (int s : results)
      if (s >= 0) storages_.keep(s, start, time_);
    for (size_t i = 1; i < op.inputs().size(); ++i)
      if (op.hasInput(static_cast<int>(i))) sharing_.readOutsideKernels(storage(graph, op.inputs()[i]), time_);
    program.steps.push_back(std::move(step));
  }

  void chainKernels() {
    KernelTimes times;
    for (const Emitted &k : sharing_.kernels()) times.emplace(k.kernel, k.time);
    int64_t &scratch = result_->scratchBytesPerThread;
    for (Program *p : programs_)
      scratch = std::max(scratch, chainDepthFirst(p->steps, times, storages_, options_.threads));
  }

  // ---- finish -----------------------------------------------------------------------------------
  void finish(Program &program) {
    appendAssigns(program);
    const Storages::Planned plan = storages_.plan();
    result_->buffers = plan.buffers;
    result_->iterations = options_.iterations;
    auto &m = result_->memory;
    m.arenaBytes = plan.arenaBytes;
    m.largestLiveSetBytes = plan.largestLiveSetBytes;
    for (const auto &v : result_->variables) m.variableBytes += executable::storageBytes(v.info, v.layout);
    for (const auto &c : result_->constants) m.constantBytes += c.data.nbytes();
    m.scratchBytes = result_->scratchBytesPerThread * options_.threads + result_->sharedScratchBytes;
    result_->main = program;
    if (options_.maxMemoryBytes > 0 && m.total() > options_.maxMemoryBytes) refuse(plan);
  }

  void appendAssigns(Program &program) {
    std::vector<Step> last;
    for (const Sharing::Assign &a : sharing_.copies()) {
      int from = a.value;
      ++time_;
      if (storages_.place(from) == Place::Variable) {  // may be overwritten by another copy: read it first
        const int temporary = storages_.add(Place::Arena, storages_.bytes(from), 0, "assign");
        storages_.keep(temporary, 0, time_ + static_cast<int>(sharing_.copies().size()));
        program.steps.push_back(copyStep(from, temporary));
        from = temporary;
      }
      storages_.use(from, time_);
      last.push_back(copyStep(from, a.variable));
    }
    for (Step &s : last) program.steps.push_back(std::move(s));
  }
  Step copyStep(int from, int to) const {
    Step step;
    step.kind = Step::Kind::Copy;
    step.name = "assign";
    step.in = {from};
    step.out = {to};
    step.bytes = storages_.bytes(to);
    return step;
  }

  [[noreturn]] void refuse(const Storages::Planned &plan) const {
    std::string largest;
    for (const auto &item : plan.largest) largest += "\n  " + item.name + ": " + toText(item.bytes) + " bytes";
    const auto &m = result_->memory;
    const std::string text = formatText(
        "the program does not fit the memory limit: got {} bytes ({} activations, {} variables, {} constants, {} "
        "scratch), expected at most {}",
        {toText(m.total()), toText(m.arenaBytes), toText(m.variableBytes), toText(m.constantBytes),
         toText(m.scratchBytes), toText(options_.maxMemoryBytes)});
    throw memory_allocation_err(text +
                                    ". Use a smaller batch, recompute activations, or accumulate gradients over "
                                    "smaller batches. Largest tensors:" +
                                    largest,
                                text);
  }

  const Ir &flat_;
  const Layouts &layouts_;
  const LowerOptions &options_;
  std::shared_ptr<Executable> result_;
  Storages storages_;
  std::unordered_map<const Graph *, std::vector<int>> storageOf_;
  Sharing sharing_{storages_};
  std::unordered_map<std::string, int> inputStreams_, outputStreams_;
  std::vector<Program *> programs_;  // of every graph
  int time_ = 0;
};

}  // namespace

std::shared_ptr<Executable> emit(const Ir &flat, const Layouts &layouts, const LowerOptions &options) {
  return Emitter(flat, layouts, options).run();
}

}  // namespace popart::lower
