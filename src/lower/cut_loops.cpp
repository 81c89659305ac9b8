// See cut_loops.hpp. New ops take the position of the last loop of the wave. Chunk c of a part at `depth` has turn
// c + depth: ops of a turn wait only for earlier turns, and for ops of their own chunk.
#include "lower/cut_loops.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <popart/logging.hpp>

#include "executable/cost.hpp"
#include "ir/program_order.hpp"
#include "lower/loop_waves.hpp"
#include "lower/program_tensors.hpp"
#include "ops/control/loops.hpp"
#include "ops/pieces.hpp"

namespace popart::lower {
namespace {

constexpr int64_t kCounts[] = {2, 3, 4, 6, 8, 12, 16};  // numbers of chunks to try
// Least length of a chunk. Shorter loops do not pack the weights they read (assignLayouts), which changes the order of
// sums.
constexpr int64_t kFewestIterations = 4;
constexpr double kLeastSaving = 0.1;  // of the time in order: chunks need memory, and predictions are rough

// Number of iterations before `chunk`; if chunks are unequal, the first ones have one more.
int64_t beginOf(int64_t chunk, int64_t chunks, int64_t trips) {
  return chunk * (trips / chunks) + std::min(chunk, trips % chunks);
}
int64_t lengthOf(int64_t chunk, int64_t chunks, int64_t trips) {
  return beginOf(chunk + 1, chunks, trips) - beginOf(chunk, chunks, trips);
}

// Kernels for products of few rows add in another order than those for many rows, so a chunk's product must not have
// few rows if the whole product does not.
bool keepsSums(const Wave &wave, int64_t chunks) {
  constexpr int64_t kMostOfFew = 16;
  return std::ranges::all_of(wave.parts, [&](const WavePart &part) {
    if (!part.op->is(Role::MatMul)) return true;
    const int64_t rows = part.op->inInfo(0).nelms() / part.op->inShape(0).back();
    return rows <= kMostOfFew || rows / wave.trips * (wave.trips / chunks) > kMostOfFew;
  });
}

// ---- prediction ---------------------------------------------------------------------------------

// Estimates of the kernels that products and the element-wise ops after them become. Only operands that no op before
// them makes are read from memory.
struct Work {
  double flops = 0, bytes = 0;
  int kernels = 0;
};

// Time of kernels in sequence, each with as many tasks as threads.
double elapsed(double nanoseconds, int kernels, int threads, double wakeUps = 1) {
  const int count = std::max(1, kernels), used = executable::threadsThatPay(nanoseconds / count, threads, threads);
  return nanoseconds / used + wakeUps * count * executable::wakeUpNanoseconds(used);
}

// The same on one thread.
double aloneOn(double flops, double bytes) {
  return executable::staysInCache(static_cast<int64_t>(bytes)) ? executable::predictedCachedNanoseconds(flops, bytes)
                                                               : executable::predictedNanoseconds(flops, bytes);
}

// An iteration reads the operands of its loop from memory; of stacks, only rows.
Work workOf(const Graph &body) {
  Work work;
  const auto isGiven = [&](TensorIndex t) {
    const Op *maker = body.tensor(t).getProducerUnsafe();
    return !maker || maker->is(Role::LoopRow);
  };
  for (const Op *op : body.ops()) {
    work.flops += costOf(*op).flops;
    work.kernels += op->is(Role::MatMul);
    if (op->is(Role::LoopRow)) continue;
    for (TensorIndex t : op->inputs())
      if (t.valid() && isGiven(t)) work.bytes += static_cast<double>(body.info(t).nbytes());
  }
  for (TensorIndex t : body.outputs())
    if (!isGiven(t)) work.bytes += static_cast<double>(body.info(t).nbytes());
  return work;
}

// Kernels of an iteration are short: data that it reads repeatedly comes from the nearest cache, faster than other
// cached data, and threads wait for each other more than they work.
double iterationOf(const Work &work, int threads) {
  constexpr double kNearer = 3, kWaiting = 2;
  const double alone = executable::predictedCachedNanoseconds(work.flops, work.bytes / kNearer);
  return elapsed(alone, work.kernels, threads, kWaiting);
}

class Prediction {
 public:
  Prediction(const Graph &graph, const Wave &wave, int threads) : wave_(wave), threads_(threads) {
    for (const WavePart &part : wave.parts) {
      if (part.isLoop()) {
        loops_.push_back({workOf(*part.op->getCalledGraphs().front()), part.depth});
        continue;
      }
      const Cost cost = costOf(*part.op);
      const bool isFused = part.op->has(Trait::Elementwise);
      between_ += aloneOn(cost.flops, isFused ? 0 : cost.bytesRead + cost.bytesWritten);
      kernels_ += !isFused && !part.op->has(Trait::View);
    }
    for (TensorIndex t : wave.whole) joins_ += aloneOn(0, 2 * static_cast<double>(graph.info(t).nbytes()));
  }

  double inOrder() const {
    double sum = elapsed(between_, kernels_, threads_);
    for (const Loop &loop : loops_) sum += static_cast<double>(wave_.trips) * iterationOf(loop.work, threads_);
    return sum;
  }

  double together(int64_t chunks) const {
    double sum = joins_;
    for (int64_t turn = 0; turn < chunks + wave_.depth - 1; ++turn) sum += turnOf(turn, chunks);
    return sum;
  }

 private:
  struct Loop {
    Work work;
    int depth;
  };

  // The loops of a turn are divided among groups of threads. A turn takes as long as the longest loop with the ops
  // before it, or as all loops together if there are more than groups.
  double turnOf(int64_t turn, int64_t chunks) const {
    std::vector<const Loop *> running;
    for (const Loop &loop : loops_)
      if (turn >= loop.depth && turn < loop.depth + chunks) running.push_back(&loop);
    const int groups = std::min(static_cast<int>(running.size()), threads_), threads = threads_ / groups;
    const auto readers = static_cast<double>(std::ranges::count_if(loops_, [](const Loop &l) { return l.depth > 0; }));
    const double ops = elapsed(between_ / static_cast<double>(chunks), kernels_, threads) / readers;
    double longest = 0, all = 0;
    for (const Loop *loop : running) {
      const double time = static_cast<double>(lengthOf(0, chunks, wave_.trips)) * iterationOf(loop->work, threads) +
                          (loop->depth > 0 ? ops : 0);
      longest = std::max(longest, time);
      all += time;
    }
    return std::max(longest, all / groups) + (groups > 1 ? executable::wakeUpNanoseconds(threads_) : 0);
  }

  const Wave &wave_;
  const int threads_;
  std::vector<Loop> loops_;
  double between_ = 0;  // nanoseconds of the ops between the loops, on one thread
  int kernels_ = 0;     // number of kernels that they become
  double joins_ = 0;    // nanoseconds of the copies that join stacks
};

// The number of chunks of each loop of the wave; 1: the loops do not change.
int64_t chooseChunks(const Graph &graph, const Wave &wave, int threads, LaneRule rule) {
  const Prediction prediction(graph, wave, threads);
  int64_t best = 1;
  double least = 0;
  for (const int64_t chunks : kCounts) {
    if (chunks * kFewestIterations > wave.trips || !keepsSums(wave, chunks)) continue;
    const double time = prediction.together(chunks);
    if (best == 1 || time < least) best = chunks, least = time;
  }
  if (best == 1) return 1;
  const double inOrder = prediction.inOrder();
  const bool pays = rule == LaneRule::Always || least < (1 - kLeastSaving) * inOrder;
  logging::devicex::info(
      "{} loops in a row of {} iterations run {}: predicted {} us in {} chunks, {} us in order, on {} threads",
      wave.depth, wave.trips, pays ? "in chunks" : "in order", std::llround(least / 1e3), best,
      std::llround(inOrder / 1e3), threads);
  return pays ? best : 1;
}

// ---- bodies -------------------------------------------------------------------------------------

Graph &createGraph(Ir &ir, const GraphId &source) {
  GraphId id;
  for (int n = 1; id.empty() || ir.hasGraph(id); ++n) id = source + "/" + std::to_string(n);
  return ir.createGraph(id);
}

// Constants share their values with those of the source.
Graph &copyBody(const Graph &source) {
  Graph &copy = createGraph(source.getIr(), source.id);
  std::vector<TensorIndex> inside(source.tensorSlots());
  for (const Tensor *t : source.tensors()) {
    const TensorIndex n =
        copy.addTensor(copy.freeId(copy.addScope(source.removeScope(t->id))), t->info, t->tensorType());
    inside[t->index().value] = n;
    if (t->hasTensorData()) copy.tensor(n).setTensorData(t->tensorData());
    copy.tensor(n).layout = t->layout;
  }
  std::map<OpIndex, OpIndex> copies;
  for (const Op *op : programOrder(source)) {
    std::unique_ptr<Op> clone = op->clone();
    clone->settings = copySettings(*op, copy);
    clone->id = copy.getIr().getAndIncrOpsCounter();
    const OpIndex o = copies[op->index()] = copy.addOp(std::move(clone))->index();
    for (InIndex i = 0; i < op->inputCount(); ++i)
      if (op->hasInput(i)) copy.connectInput(o, i, inside[op->inputs()[static_cast<size_t>(i)].value]);
    for (OutIndex i = 0; i < op->outputCount(); ++i)
      if (op->hasOutput(i)) copy.connectOutput(o, i, inside[op->outputs()[static_cast<size_t>(i)].value]);
  }
  for (const auto &[before, after] : source.constraints()) copy.addConstraint(copies.at(before), copies.at(after));
  const auto inner = [&](std::vector<TensorIndex> list) {
    for (TensorIndex &t : list) t = inside[t.value];
    return list;
  };
  copy.setInputs(inner(source.inputs()));
  copy.setOutputs(inner(source.outputs()));
  return copy;
}

// Lets iterations count from `begin` on, except for reads of `cut` stacks, which have only the rows of the chunk.
void beginAt(Graph &body, int64_t begin, const std::set<TensorIndex> &cut, const Op &loop) {
  const TensorIndex iteration = body.inputs()[0];
  std::vector<Use> others;
  for (const Use &use : body.tensor(iteration).uses()) {
    Op &op = body.op(use.op);
    if (!op.is(Role::LoopRow))
      others.push_back(use);
    else if (!cut.contains(op.inputs()[0]))
      op.mutableAttributes().set("first", op.attrInt("first") + begin * op.attrInt("step"));
  }
  if (begin == 0 || (others.empty() && std::ranges::count(body.outputs(), iteration) == 0)) return;
  OpEmitter emitter(body, others.empty() ? loop : body.op(others.front().op));
  const TensorIndex whole =
      emitter.emit("Add", {iteration, emitter.scalar(body.info(iteration).dataType(), static_cast<double>(begin))});
  for (const Use &use : others) body.replaceUse(use, whole);
  body.replaceOutputs(iteration, whole);
}

// ---- the chunks ---------------------------------------------------------------------------------

class WaveCutter {
 public:
  WaveCutter(Graph &graph, const Wave &wave, int64_t chunks) : graph_(graph), wave_(wave), chunks_(chunks) {
    for (const WavePart &part : wave.parts)
      if (part.isLoop()) place_ = std::max(place_, part.op->place());
  }

  void run() {
    for (int64_t turn = 0; turn < chunks_ + wave_.depth - 1; ++turn)
      for (const WavePart &part : wave_.parts) {
        const int64_t chunk = turn - part.depth;
        if (chunk >= 0 && chunk < chunks_) part.isLoop() ? addLoop(part, chunk) : addOp(part, chunk);
      }
    for (TensorIndex t : wave_.whole) joinRows(t);
    for (auto part = wave_.parts.rbegin(); part != wave_.parts.rend(); ++part) {
      if (wave_.kept.contains(part->op->index())) continue;
      const GraphId body = part->isLoop() ? part->op->getCalledGraphs().front()->id : GraphId();
      graph_.eraseOpAndOutputs(part->op->index());
      if (!body.empty()) graph_.getIr().removeGraph(body);
    }
    int64_t place = 0;  // with equal places for all new ops, ops that later passes derive from them would have them too
    for (Op *op : programOrder(graph_)) op->settings.sequence = place++;
  }

 private:
  Op::Settings settingsOf(const Op &op) const {
    Op::Settings settings = copySettings(op, graph_);
    settings.sequence = place_;
    return settings;
  }

  // The chunk's operand for an input of the part.
  TensorIndex inputOf(const WavePart &part, size_t i, int64_t chunk) {
    const TensorIndex t = part.op->inputs()[i];
    if (part.rows[i] == OperandRows::All) return t;
    if (part.rows[i] == OperandRows::Made) return rows_.at(t)[static_cast<size_t>(chunk)];
    TensorIndex &slice = slices_[{t, chunk}];
    const int64_t block = graph_.info(t).dim(0) / wave_.trips, begin = beginOf(chunk, chunks_, wave_.trips);
    const auto list = [&](int64_t value) { return std::vector<int64_t>{value}; };
    if (!slice.valid())
      slice = graph_
                  .addConnectedOp(opDef("Slice"), {t}, {graph_.freeId(graph_.tensor(t).id)},
                                  {{"axes", list(0)},
                                   {"starts", list(block * begin)},
                                   {"ends", list(block * (begin + lengthOf(chunk, chunks_, wave_.trips)))}},
                                  settingsOf(*part.op))
                  ->outputs()[0];
    return slice;
  }

  static bool isCut(const WavePart &part, size_t i) { return part.rows[i] != OperandRows::All; }

  void addRows(TensorIndex whole, Op &made, OutIndex o) {
    rows_[whole].push_back(graph_.createOutput(made.index(), o, graph_.freeId(graph_.tensor(whole).id)));
  }

  void addOp(const WavePart &part, int64_t chunk) {
    const Op &op = *part.op;
    std::unique_ptr<Op> clone = op.clone();
    clone->settings = settingsOf(op);
    clone->id = graph_.getIr().getAndIncrOpsCounter();
    const std::optional<Pieces> pieces = ops::piecesOf(op, part.firstMade(), 0, wave_.trips);
    for (const auto &[name, at] : pieces->sizes) {
      std::vector<int64_t> sizes = op.attrInts(name);
      sizes[static_cast<size_t>(at)] = op.outShape(0)[0] / wave_.trips * lengthOf(chunk, chunks_, wave_.trips);
      clone->mutableAttributes().set(name, sizes);
    }
    std::vector<TensorIndex> inputs(op.inputs().size());
    for (size_t i = 0; i < inputs.size(); ++i)
      if (op.inputs()[i].valid()) inputs[i] = inputOf(part, i, chunk);  // may add a slice before the op
    Op &made = *graph_.addOp(std::move(clone));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].valid()) graph_.connectInput(made.index(), static_cast<InIndex>(i), inputs[i]);
    for (OutIndex o = 0; o < op.outputCount(); ++o)
      if (op.hasOutput(o)) addRows(op.outputs()[static_cast<size_t>(o)], made, o);
    made.setup();
  }

  void addLoop(const WavePart &part, int64_t chunk) {
    Op &op = *part.op;
    Graph &body = copyBody(*op.getCalledGraphs().front());
    std::set<TensorIndex> cut;
    for (size_t i = 2; i < op.inputs().size(); ++i)
      if (isCut(part, i)) {
        cut.insert(body.inputs()[i]);
        body.tensor(body.inputs()[i]).info = graph_.info(inputOf(part, i, chunk));
      }
    beginAt(body, beginOf(chunk, chunks_, wave_.trips), cut, op);
    Attributes attributes = op.attributes();
    attributes.set("body", GraphRef{body.id});
    attributes.set("trip_count", lengthOf(chunk, chunks_, wave_.trips));
    Op &made = *graph_.addOp(op.def(), std::move(attributes), settingsOf(op));
    if (op.hasInput(1)) graph_.connectInput(made.index(), 1, op.inputs()[1]);
    std::vector<TensorIndex> &carried = carried_[op.index()];
    if (carried.empty()) carried = op.inputs();
    for (const Passed &p : passedBy(op)) {
      const auto i = static_cast<size_t>(p.input);
      graph_.connectInput(made.index(), p.input, isCut(part, i) ? inputOf(part, i, chunk) : carried[i]);
      const bool isLast = chunk + 1 == chunks_;
      if (isLast && p.result.valid() && !isCut(part, i)) {
        graph_.disconnectOutput(op.index(), p.input - 2);
        graph_.connectOutput(made.index(), p.input - 2, p.result);
      } else if (!isLast && p.next != p.inner) {
        const TensorId &id = graph_.tensor(p.result.valid() ? p.result : p.outer).id;
        carried[i] = graph_.createOutput(made.index(), p.input - 2, graph_.freeId(id + "/carried"));
      }
    }
    for (OutIndex o = ops::carriedCount(op); o < op.outputCount(); ++o)
      if (op.hasOutput(o)) addRows(op.outputs()[static_cast<size_t>(o)], made, o);
    made.setup();
  }

  void joinRows(TensorIndex whole) {
    const Tensor &tensor = graph_.tensor(whole);
    const Op &maker = *tensor.getProducer();
    Op &concat = *graph_.addOp(opDef("Concat"), {{"axis", int64_t{0}}}, settingsOf(maker));
    const std::vector<TensorIndex> &rows = rows_.at(whole);
    for (size_t i = 0; i < rows.size(); ++i) graph_.connectInput(concat.index(), static_cast<InIndex>(i), rows[i]);
    graph_.disconnectOutput(maker.index(), tensor.producerOutput());
    graph_.connectOutput(concat.index(), 0, whole);
    concat.setup();
  }

  Graph &graph_;
  const Wave &wave_;
  const int64_t chunks_;
  int64_t place_ = 0;
  std::map<TensorIndex, std::vector<TensorIndex>> rows_;           // rows of stacks that are divided, by chunk
  std::map<std::pair<TensorIndex, int64_t>, TensorIndex> slices_;  // slices of whole stacks, for a chunk
  std::map<OpIndex, std::vector<TensorIndex>> carried_;            // by loop: the carried values for its next chunk
};

}  // namespace

void cutLoops(Ir &flat, int threads, LaneRule rule) {
  if (threads < 2 || rule == LaneRule::Never) return;
  std::vector<std::pair<Graph *, Wave>> waves;  // found before bodies are erased; bodies of waves have no loops
  for (Graph *graph : schedule::programGraphs(flat))
    for (Wave &wave : findWaves(*graph)) waves.emplace_back(graph, std::move(wave));
  for (const auto &[graph, wave] : waves)
    if (const int64_t chunks = chooseChunks(*graph, wave, threads, rule); chunks > 1)
      WaveCutter(*graph, wave, chunks).run();
}

}  // namespace popart::lower
