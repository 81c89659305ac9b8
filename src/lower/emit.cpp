// One walk over the schedule: every op becomes a step whose operands are buffers of the plan. Views, and assignments of
// values that already share their variable's memory, emit no step.
#include "lower/emit.hpp"

#include <map>
#include <unordered_map>
#include <unordered_set>

#include "executable/cost.hpp"
#include "lower/program_tensors.hpp"

namespace popart::lower {
namespace {

using executable::Executable;
using executable::Step;

class Emitter {
 public:
  Emitter(const Ir &program, const schedule::Schedule &schedule, const Kernels &kernels, const memory::MemoryPlan &plan)
      : program_(program),
        schedule_(schedule),
        kernels_(kernels),
        plan_(plan),
        result_(std::make_shared<Executable>()) {}

  std::shared_ptr<Executable> run() {
    for (const memory::Storage &s : plan_.storages)
      result_->buffers.push_back({s.place, s.bytes, s.offset, s.name, s.stack, s.stride, s.initial});
    for (const Tensor *t : plan_.variables)
      result_->variables.push_back({t->id, t->info, executable::layoutOf(*t), t->tensorData(), t->isOptimizerState,
                                    t->isRemote, t->variableSettings});
    for (const memory::Storage &s : plan_.storages)
      if (s.place == memory::Place::Variable) result_->variables[static_cast<size_t>(s.offset)].sharers = s.sharers;
    for (const Tensor *t : plan_.constants) result_->constants.push_back(constant(*t));
    collectStreams();
    findHostMemory();
    findCached(program_.getMainGraph(), program_.getMainGraph());
    for (const auto &[repeated, used] : used_)
      if (staysInCache(*repeated)) cached_.insert(repeated);
    emitGraph(program_.getMainGraph(), result_->main);
    for (const memory::Copy &c : plan_.assigned) result_->main.steps.push_back(copyStep(c, "assign"));
    result_->arenaBytes = plan_.arenaBytes;
    result_->memory.arenaBytes = plan_.arenaBytes - plan_.scratchBytes;
    result_->memory.largestLiveSetBytes = plan_.largestLiveSetBytes - plan_.scratchBytes;
    result_->memory.scratchBytes = result_->memory.scratchBytesInArena = plan_.scratchBytes;
    for (const auto &[op, s] : plan_.scratchOf)
      result_->memory.largestScratchBytes =
          std::max(result_->memory.largestScratchBytes, plan_.storages[static_cast<size_t>(s)].bytes);
    for (const auto &v : result_->variables)
      (v.isRemote ? result_->memory.remoteBytes : result_->memory.variableBytes) +=
          executable::storageBytes(v.info, v.layout);
    for (const auto &c : result_->constants) result_->memory.constantBytes += c.data.nbytes();
    result_->fallbacks = kernels_.fallbacks;
    return result_;
  }

 private:
  // Finds the graphs whose data stays in a core's cache (Step::staysInCache), and their data: the main graph runs
  // repeatedly, and so do bodies of loops, with the graphs that they call. `repeated`: which of these the graph belongs
  // to.
  void findCached(const Graph &graph, const Graph &repeated) {
    repeated_[&graph] = &repeated;
    std::unordered_set<int> &used = used_[&repeated];
    for (const Op *op : graph.ops()) {
      for (const auto *list : {&op->inputs(), &op->outputs()})
        for (const TensorIndex t : *list)
          if (t.valid()) used.insert(plan_.of(graph, t));
      if (op->has(Trait::Internal)) continue;  // its graph describes a kernel
      for (const Graph *called : op->getCalledGraphs()) {
        const Graph &inner = op->is(Role::Loop) ? *called : repeated;
        findCached(*called, inner);
        if (&inner != &repeated) used_[&repeated].insert(used_[&inner].begin(), used_[&inner].end());
      }
    }
  }
  bool staysInCache(const Graph &repeated) const {
    int64_t bytes = 0;
    for (const int s : used_.at(&repeated))
      if (s >= 0 && plan_.storages[static_cast<size_t>(s)].whole < 0)
        bytes += plan_.storages[static_cast<size_t>(s)].bytes;
    return executable::staysInCache(bytes);
  }

  static executable::ConstantSpec constant(const Tensor &t) {
    const executable::Layout *layout = executable::layoutOf(t);
    if (t.tensorData().nbytes() != executable::storageBytes(t.info, layout))
      throw internal_error("emit: constant '{}' is not in layout {}: got {} bytes", t.id, t.layout,
                           t.tensorData().nbytes());
    return {t.tensorData(), layout};
  }

  bool isLoaded(const Graph &graph, TensorIndex t) const {
    const auto loaded = loaded_.find(&graph);
    return loaded != loaded_.end() && loaded->second.contains(t);
  }

  int buffer(const Graph &graph, TensorIndex t) const {
    const int s = isLoaded(graph, t) ? loaded_.at(&graph).at(t) : plan_.of(graph, t);
    if (s < 0) throw internal_error("emit: tensor '{}' has no place in the memory plan", graph.tensor(t).id);
    return s;
  }
  int optionalBuffer(const Graph &graph, TensorIndex t) const { return t.valid() ? buffer(graph, t) : -1; }

  static void nameStep(Step &step, const Op &op) {
    step.name = op.str();
    step.layer = op.name();
  }

  static Step copyStep(const memory::Copy &copy, std::string name) {
    Step step;
    step.kind = Step::Kind::Copy;
    step.name = std::move(name);
    step.in = {copy.from};
    step.out = {copy.to};
    step.bytes = copy.bytes;
    return step;
  }

  void emitGraph(const Graph &graph, executable::Program &program) {
    const std::vector<OpIndex> &order = schedule_.of(graph);
    int done = 0;
    for (const schedule::Section &section : schedule_.sectionsOf(graph)) {
      emitOps(graph, {order.data() + done, order.data() + section.begin}, program);
      program.steps.push_back(lanesStep(graph, order, section));
      done = section.end();
    }
    emitOps(graph, std::span(order).subspan(static_cast<size_t>(done)), program);
  }

  Step lanesStep(const Graph &graph, const std::vector<OpIndex> &order, const schedule::Section &section) {
    Step step;
    step.kind = Step::Kind::Lanes;
    int begin = section.begin;
    for (const schedule::Lane &lane : section.lanes) {
      step.name += (step.name.empty() ? "lanes " : " | ") + lane.name;
      auto inner = std::make_shared<executable::Program>();
      emitOps(graph, {order.data() + begin, order.data() + lane.end}, *inner);
      step.programs.push_back(inner);
      step.threads.push_back(lane.threads);
      begin = lane.end;
    }
    return step;
  }

  void emitOps(const Graph &graph, std::span<const OpIndex> ops, executable::Program &program) {
    for (OpIndex o : ops) {
      const Op &op = graph.op(o);
      if (executable::takesNoStep(op)) continue;
      if (op.is(Role::HostLoad)) {
        program.steps.push_back(hostStep(graph, op, Step::Kind::HostLoad));
      } else if (op.is(Role::HostStore)) {
        program.steps.push_back(hostStep(graph, op, Step::Kind::HostStore));
      } else if (op.is(Role::RemoteLoad) || op.is(Role::RemoteStore)) {
        program.steps.push_back(remoteStep(graph, op));
      } else if (op.is(Role::Loop)) {
        program.steps.push_back(loopStep(graph, op));
      } else if (op.is(Role::If)) {
        program.steps.push_back(ifStep(graph, op));
      } else {
        program.steps.push_back(kernelStep(graph, op));
      }
    }
  }

  Step kernelStep(const Graph &graph, const Op &op) {
    Step step;
    nameStep(step, op);
    step.op = op.debugName();
    step.kernel = kernels_.of.at(&op);
    step.staysInCache = cached_.contains(repeated_.at(&graph));
    for (TensorIndex t : op.inputs()) step.in.push_back(optionalBuffer(graph, t));
    for (TensorIndex t : op.outputs()) step.out.push_back(optionalBuffer(graph, t));
    if (const auto shared = plan_.sharedOf.find(&op); shared != plan_.sharedOf.end()) step.shared = shared->second;
    if (const auto scratch = plan_.scratchOf.find(&op); scratch != plan_.scratchOf.end())
      step.scratch = scratch->second;
    else
      result_->scratchBytesPerThread = std::max(result_->scratchBytesPerThread, step.kernel->scratchBytes());
    return step;
  }

  // ---- host streams -----------------------------------------------------------------------------
  void collectStreams() {
    for (const Graph *graph : schedule::programGraphs(program_))
      for (const Op *op : graph->ops()) {
        if (op->is(Role::HostLoad)) inputStream(*op);
        if (op->is(Role::HostStore)) outputStream(*op);
      }
  }
  int inputStream(const Op &op) {
    const std::string &id = op.attrString("stream");
    const auto [it, fresh] = inputStreams_.try_emplace(id, static_cast<int>(result_->inputs.size()));
    if (fresh) result_->inputs.push_back({id, op.outInfo(0)});
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
    result_->outputs.push_back({id, op.inInfo(0)});
    return it->second;
  }

  // ---- memory of the host -----------------------------------------------------------------------
  // Chooses the loads and stores that can use the host's memory (Step::canShareHostMemory).
  void findHostMemory() {
    const std::vector<Graph *> graphs = schedule::programGraphs(program_);
    std::vector<Writers> writers(plan_.storages.size());
    std::unordered_map<std::string, int> stores;  // of each stream
    for (const Graph *graph : graphs) {
      findWriters(*graph, writers);
      for (const Op *op : graph->ops())
        if (op->is(Role::HostStore)) ++stores[op->attrString("stream")];
    }
    for (const Graph *graph : graphs) {
      if (!schedule_.sectionsOf(*graph).empty()) continue;  // lanes would wait for one another
      for (const OpIndex o : schedule_.of(*graph))
        if (const Op &op = graph->op(o); op.is(Role::HostLoad)) shareLoad(*graph, op);
      shareStores(*graph, writers, stores);
    }
  }

  // A loaded value gets a buffer in addition to its storage, which the first in-place op may write: kernels read the
  // buffer and write the storage.
  void shareLoad(const Graph &graph, const Op &load) {
    const TensorIndex loaded = load.outputs()[0];
    const int s = plan_.of(graph, loaded);
    if (plan_.storages[static_cast<size_t>(s)].place != memory::Place::Arena) return;
    std::vector<TensorIndex> same{loaded};  // and its views
    for (size_t i = 0; i < same.size(); ++i) {
      const Tensor &tensor = graph.tensor(same[i]);
      if (tensor.isGraphOutput()) return;
      for (const Use &use : tensor.uses()) {
        const Op &reader = graph.op(use.op);
        if (reader.has(Trait::Call) || (executable::takesNoStep(reader) && !executable::isFreeView(reader))) return;
        if (executable::isFreeView(reader)) same.push_back(reader.outputs()[0]);
      }
    }
    const auto own = static_cast<int>(result_->buffers.size());
    result_->buffers.push_back(result_->buffers[static_cast<size_t>(s)]);
    for (const TensorIndex t : same) loaded_[&graph].emplace(t, own);
    sharing_.insert(&load);
  }

  struct Writers {
    const Graph *graph = nullptr;  // the graph of all writers
    bool areKnown = true;          // false: some are values of loops or branches, or in several graphs
    int last = -1;                 // position of the last writer in the order of the graph
  };

  void findWriters(const Graph &graph, std::vector<Writers> &writers) const {
    auto writersOf = [&](TensorIndex t) {
      const int s = t.valid() ? plan_.of(graph, t) : -1;
      return s < 0 ? nullptr : &writers[static_cast<size_t>(s)];
    };
    if (&graph != &program_.getMainGraph())
      for (const auto *list : {&graph.inputs(), &graph.outputs()})
        for (TensorIndex t : *list)
          if (Writers *w = writersOf(t)) w->areKnown = false;
    const std::vector<OpIndex> &order = schedule_.of(graph);
    for (size_t i = 0; i < order.size(); ++i)
      for (TensorIndex t : graph.op(order[i]).outputs()) {
        Writers *w = writersOf(t);
        if (!w) continue;
        w->areKnown &= !w->graph || w->graph == &graph;
        w->graph = &graph;
        w->last = static_cast<int>(i);
      }
  }

  // A value is computed directly in the host's memory if nothing writes its storage after the store, and if it is known
  // which value of the stream it is.
  void shareStores(const Graph &graph, const std::vector<Writers> &writers,
                   const std::unordered_map<std::string, int> &stores) {
    const std::vector<OpIndex> &order = schedule_.of(graph);
    std::unordered_set<int> taken;
    for (size_t i = 0; i < order.size(); ++i) {
      const Op &op = graph.op(order[i]);
      if (!op.is(Role::HostStore) || stores.at(op.attrString("stream")) != 1) continue;
      const int s = plan_.of(graph, op.inputs()[0]);
      const memory::Storage &storage = plan_.storages[static_cast<size_t>(s)];
      const Writers &w = writers[static_cast<size_t>(s)];
      if (storage.place != memory::Place::Arena || storage.bytes != op.inInfo(0).nbytes() || !w.areKnown ||
          w.graph != &graph || w.last > static_cast<int>(i) || isLoaded(graph, op.inputs()[0]))
        continue;
      if (taken.insert(s).second) sharing_.insert(&op);
    }
  }

  Step hostStep(const Graph &graph, const Op &op, Step::Kind kind) {
    const bool load = kind == Step::Kind::HostLoad;
    const TensorIndex t = load ? op.outputs()[0] : op.inputs()[0];
    if (!graph.tensor(t).layout.empty())
      throw internal_error("{}: a host stream must have plain layout", op.debugName());
    Step step;
    step.kind = kind;
    nameStep(step, op);
    (load ? step.out : step.in) = {buffer(graph, t)};
    if (load) step.in = {plan_.of(graph, t)};
    step.stream = load ? inputStream(op) : outputStream(op);
    step.bytes = graph.info(t).nbytes();
    step.canShareHostMemory = sharing_.contains(&op);
    return step;
  }

  Step remoteStep(const Graph &graph, const Op &op) {
    const Graph &main = program_.getMainGraph();
    const TensorIndex remote = remoteVariable(op);
    const bool load = op.is(Role::RemoteLoad);
    const TensorIndex value = load ? op.outputs()[0] : op.inputs()[0];
    if (graph.tensor(value).layout != main.tensor(remote).layout)
      throw internal_error("{}: the value must have the layout of the remote variable: got {}, expected {}",
                           op.debugName(), graph.tensor(value).layout, main.tensor(remote).layout);
    Step step;
    step.kind = load ? Step::Kind::RemoteLoad : Step::Kind::RemoteStore;
    nameStep(step, op);
    step.op = op.debugName();
    const int row = op.hasInput(1) ? buffer(graph, op.inputs()[1]) : -1;
    step.in = {load ? buffer(main, remote) : buffer(graph, value), row};
    step.out = {load ? buffer(graph, value) : buffer(main, remote)};
    step.bytes = executable::storageBytes(graph.info(value), executable::layoutOf(graph.tensor(value)));
    if (row < 0) return step;
    step.rowCount = main.info(remote).shape().front();
    step.isSignedRow = op.inInfo(1).dataType() == DataType::INT32;
    return step;
  }

  // ---- control ----------------------------------------------------------------------------------
  Step loopStep(const Graph &graph, const Op &op) {
    const Graph &body = *op.getCalledGraphs().front();
    Step step;
    step.kind = Step::Kind::Loop;
    nameStep(step, op);
    step.op = op.debugName();
    step.in = {optionalBuffer(graph, op.inputs()[0]), optionalBuffer(graph, op.inputs()[1])};
    step.tripCount = op.hasAttr("trip_count") ? op.attrInt("trip_count") : -1;
    step.iteration = buffer(body, body.inputs()[0]);
    step.condition = buffer(body, body.outputs()[0]);
    const int carries = op.inputCount() - 2;
    for (int j = 0; j < carries; ++j) {
      const int outer = buffer(graph, op.inputs()[2 + j]), carry = buffer(body, body.inputs()[2 + j]);
      const memory::Storage &storage = plan_.storages[static_cast<size_t>(carry)];
      const int own = storage.initial < 0 ? carry : storage.initial;
      if (outer != own) step.initial.push_back({outer, own, storage.bytes});
    }
    if (const auto rows = plan_.rows.find(&op); rows != plan_.rows.end()) step.rows = rows->second;
    for (const memory::Copy &c : plan_.carried.at(&op)) step.carried.push_back({c.from, c.to, c.bytes});
    if (const auto results = plan_.results.find(&op); results != plan_.results.end())
      for (const memory::Copy &c : results->second) step.results.push_back({c.from, c.to, c.bytes});
    for (int j = carries; j < op.outputCount(); ++j) {
      if (!op.hasOutput(j)) continue;
      const int64_t bytes = body.info(body.outputs()[1 + j]).nbytes();
      const int from = buffer(body, body.outputs()[1 + j]), to = buffer(graph, op.outputs()[j]);
      if (!plan_.isScanRow(from, to)) step.scans.push_back({from, to, bytes});
    }
    auto inner = std::make_shared<executable::Program>();
    emitGraph(body, *inner);
    step.programs = {inner};
    return step;
  }

  Step ifStep(const Graph &graph, const Op &op) {
    Step step;
    step.kind = Step::Kind::If;
    nameStep(step, op);
    step.in = {buffer(graph, op.inputs()[0])};
    for (const char *name : {"then_branch", "else_branch"}) {
      const Graph &branch = program_.getGraph(op.attributes().getAttribute<GraphRef>(name).id);
      auto inner = std::make_shared<executable::Program>();
      emitGraph(branch, *inner);
      for (int i = 0; i < op.outputCount(); ++i) {
        if (!op.hasOutput(i)) continue;
        const TensorIndex from = branch.outputs()[static_cast<size_t>(i)];
        const memory::Copy copy{buffer(branch, from), buffer(graph, op.outputs()[static_cast<size_t>(i)]),
                                branch.info(from).nbytes()};
        inner->steps.push_back(copyStep(copy, op.str() + "/result"));
      }
      step.programs.push_back(inner);
    }
    return step;
  }

  const Ir &program_;
  const schedule::Schedule &schedule_;
  const Kernels &kernels_;
  const memory::MemoryPlan &plan_;
  std::shared_ptr<Executable> result_;
  std::unordered_map<std::string, int> inputStreams_, outputStreams_;
  std::unordered_map<const Graph *, const Graph *> repeated_;
  std::unordered_map<const Graph *, std::unordered_set<int>> used_;  // storages, by graph that is repeated
  std::unordered_set<const Graph *> cached_;                         // repeated graphs whose storages stay in a cache
  std::unordered_set<const Op *> sharing_;                           // loads and stores that can use the host's memory
  std::unordered_map<const Graph *, std::map<TensorIndex, int>> loaded_;  // buffers of the values of such loads
};

}  // namespace

std::shared_ptr<Executable> emit(const Ir &program, const schedule::Schedule &schedule, const Kernels &kernels,
                                 const memory::MemoryPlan &plan) {
  return Emitter(program, schedule, kernels, plan).run();
}

}  // namespace popart::lower
