// One walk over the schedule gives every op a time (loop bodies and branches are inside the time of their op) and
// records when each storage is read and written. Views alias their input, loop carries alias the loop's results, a
// loop-invariant carry the outer value, a LoopRow its part of the stack; sharing.cpp decides the rest. Values that a
// loop stacks are written directly into the stack, and a carry that is stacked is read there. Then the arena is
// planned.
#include "memory/plan.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <popart/error.hpp>

#include "executable/channel_slice.hpp"
#include "executable/cost.hpp"
#include "memory/sharing.hpp"
#include "memory/storages.hpp"

namespace popart::memory {
namespace {

// From this size on, the scratch memory of a thread is in the arena, where values use the same memory at other times.
// Smaller scratch memory, which caches keep, belongs to the thread; so does that of kernels in lanes.
constexpr int64_t kLargeScratchBytes = int64_t{64} << 10;

class Planner {
 public:
  Planner(const Ir &program, const schedule::Schedule &schedule, const KernelOf &kernelOf, int threads)
      : program_(program), schedule_(schedule), kernelOf_(kernelOf), threads_(threads) {}

  MemoryPlan run() {
    const Graph &main = program_.getMainGraph();
    for (Tensor *t : main.tensorsOfType(TensorType::Variable))  // even if unused: the host may read and write it
      storage(main, t->index());
    visitGraph(main);
    sharing_.run();
    writeScansInPlace();
    readCarriesInStacks();
    copyAssigned();
    place();
    return std::move(plan_);
  }

 private:
  struct Scan {  // after each iteration between the times `start` and `end`
    const Op *loop;
    int row, stack;
    int64_t rowBytes;
    int start, end;
  };

  struct Carry {  // of a loop that changes it, between the times `start` and `end`
    const Op *loop;
    int carry, own;  // in the body, and in the enclosing graph
    int value;       // for the next iteration
    int start, end;
    bool isResultRead;
  };

  // ---- values -----------------------------------------------------------------------------------
  int &slot(const Graph &graph, TensorIndex t) {
    auto &list = plan_.storageOf[&graph];
    if (list.empty()) list.assign(graph.tensorSlots(), -1);
    return list[t.value];
  }

  int storage(const Graph &graph, TensorIndex t) {
    int &s = slot(graph, t);
    if (s >= 0) return s;
    const Tensor &tensor = graph.tensor(t);
    const int64_t bytes = executable::storageBytes(tensor.info, executable::layoutOf(tensor));
    auto outside = [&](Place place, std::vector<const Tensor *> &list) {
      list.push_back(&tensor);
      return storages_.add(place, bytes, static_cast<int64_t>(list.size()) - 1, tensor.id);
    };
    switch (tensor.tensorType()) {
      case TensorType::Variable:
        return s = outside(Place::Variable, plan_.variables);
      case TensorType::Const:
        return s = outside(Place::Constant, plan_.constants);
      default:
        if (executable::channelsOfWhole(executable::layoutOf(tensor)) == 0)
          return s = storages_.add(Place::Arena, bytes, 0, tensor.id);
        const executable::SliceOf slice = executable::wholeOf(tensor);
        const int whole = storage(graph, slice.join->outputs()[0]);
        return slot(graph, t) = storages_.addSlice(bytes, whole, executable::sliceStart(slice), tensor.id);
    }
  }

  // ---- ops --------------------------------------------------------------------------------------
  void visitGraph(const Graph &graph) {
    const std::vector<OpIndex> &order = schedule_.of(graph);
    const std::span<const schedule::Section> sections = schedule_.sectionsOf(graph);
    size_t section = 0, lane = 0;
    for (int i = 0; i < static_cast<int>(order.size()); ++i) {
      if (section < sections.size() && i == sections[section].begin) lanes_.beginSection(time_ + 1), ++sectionsAround_;
      visitOp(graph, graph.op(order[static_cast<size_t>(i)]));
      if (section == sections.size() || i + 1 != sections[section].lanes[lane].end) continue;
      lanes_.endLane(time_);
      if (++lane == sections[section].lanes.size()) lane = 0, ++section, --sectionsAround_;
    }
  }

  void visitOp(const Graph &graph, const Op &op) {
    ++time_;
    if (op.is(Role::VariableAssign)) {
      visitAssign(graph, op);
    } else if (op.is(Role::HostLoad)) {
      storages_.define(storage(graph, op.outputs()[0]), time_);
    } else if (op.is(Role::HostStore)) {
      sharing_.readOutsideKernels(storage(graph, op.inputs()[0]), time_);
    } else if (op.is(Role::RemoteLoad) || op.is(Role::RemoteStore)) {
      for (TensorIndex t : op.inputs())
        if (t.valid()) sharing_.readOutsideKernels(storage(graph, t), time_);
      for (TensorIndex t : op.outputs()) storages_.define(storage(graph, t), time_);
    } else if (op.is(Role::Loop)) {
      visitLoop(graph, op);
    } else if (op.is(Role::If)) {
      visitIf(graph, op);
    } else if (op.is(Role::LoopRow)) {
      visitRow(graph, op);
    } else if (executable::joinsSlices(op)) {
      storages_.define(storage(graph, op.outputs()[0]), time_);
    } else if (executable::isFreeView(op)) {
      const int in = storage(graph, op.inputs()[0]);
      slot(graph, op.outputs()[0]) = in;
    } else {
      visitKernel(graph, op);
    }
  }

  void visitAssign(const Graph &graph, const Op &op) {
    const TensorIndex variable = op.inputs()[0], value = op.inputs()[1];
    const bool isSame = graph.tensor(variable).layout == graph.tensor(value).layout;
    sharing_.addAssign(storage(graph, variable), storage(graph, value),
                       isSame ? Sharing::Layouts::Same : Sharing::Layouts::Different, time_);
  }

  void visitKernel(const Graph &graph, const Op &op) {
    KernelUse use;
    use.kernel = kernelOf_(op);
    if (!use.kernel) throw internal_error("{}: the memory plan needs its kernel", op.debugName());
    use.time = time_;
    for (TensorIndex t : op.inputs()) {
      use.in.push_back(t.valid() ? storage(graph, t) : -1);
      if (t.valid()) storages_.use(use.in.back(), time_);
    }
    for (TensorIndex t : op.outputs()) {
      use.out.push_back(t.valid() ? storage(graph, t) : -1);
      if (t.valid()) storages_.define(use.out.back(), time_);
    }
    const TemporaryBytes bytes = temporaryBytes(*use.kernel, threads_);
    if (bytes.shared > 0) plan_.sharedOf[&op] = addTemporary(bytes.shared, op.str() + "/shared");
    if (bytes.scratch > 0 && sectionsAround_ == 0)
      storages_.markScratch(plan_.scratchOf[&op] = addTemporary(bytes.scratch, op.str() + "/scratch"));
    sharing_.addKernel(std::move(use));
  }

  // Memory of the kernel that runs now.
  int addTemporary(int64_t bytes, std::string name) {
    const int storage = storages_.add(Place::Arena, bytes, 0, std::move(name));
    storages_.keep(storage, time_, time_);
    return storage;
  }

  // ---- control ----------------------------------------------------------------------------------
  // Whether the rows are inside their stack in the first and the last iteration, and so in all.
  static bool staysInside(const Op &loop, const Op &row) {
    if (!loop.hasAttr("trip_count")) return false;
    const int64_t most = row.inShape(0)[0] - row.attrInt("rows"), first = row.attrInt("first");
    int64_t last = 0;
    return !__builtin_mul_overflow(loop.attrInt("trip_count") - 1, row.attrInt("step"), &last) &&
           !__builtin_add_overflow(last, first, &last) && std::min(first, last) >= 0 && std::max(first, last) <= most;
  }

  // Whether `row` is a row of a stack that no iteration changes, so that visitLoop keeps it until the loop ends.
  static bool isRowOf(const Op &loop, const Op &row) {
    const Graph &body = *loop.getCalledGraphs().front();
    const TensorIndex stack = row.inputs()[0];
    if (&row.getGraph() != &body || row.inputs()[1] != body.inputs()[0] || !staysInside(loop, row)) return false;
    if (body.tensor(stack).tensorType() == TensorType::Const) return true;
    for (size_t i = 2; i < body.inputs().size(); ++i)
      if (body.inputs()[i] == stack) return body.outputs()[i - 1] == stack;
    return false;
  }

  void visitRow(const Graph &graph, const Op &op) {
    const TensorIndex out = op.outputs()[0];
    if (!loop_ || !isRowOf(*loop_, op))
      throw internal_error("{}: the memory plan expects rows inside of a stack that their loop does not change",
                           op.debugName());
    const int64_t rowBytes = graph.info(out).nbytes() / op.attrInt("rows");
    slot(graph, out) =
        storages_.addRow(graph.info(out).nbytes(), storage(graph, op.inputs()[0]), op.attrInt("first") * rowBytes,
                         op.attrInt("step") * rowBytes, graph.tensor(out).id);
    plan_.rows[loop_].push_back(slot(graph, out));
  }

  void visitLoop(const Graph &graph, const Op &op) {
    const Graph &body = *op.getCalledGraphs().front();
    const int start = time_++;
    const int carries = op.inputCount() - 2;
    for (int i : {0, 1})
      if (op.hasInput(i)) sharing_.readOutsideKernels(storage(graph, op.inputs()[i]), start);
    const int iteration = storage(body, body.inputs()[0]), condition = storage(body, body.inputs()[1]);
    std::vector<int> carried(carries);
    std::vector<bool> invariant(carries);
    for (int j = 0; j < carries; ++j) {
      const TensorIndex in = body.inputs()[2 + j];
      const int outer = storage(graph, op.inputs()[2 + j]);
      sharing_.readOutsideKernels(outer, start);
      invariant[j] = body.outputs()[1 + j] == in;
      carried[j] = invariant[j] ? (slot(body, in) = outer) : storage(body, in);
      if (!invariant[j]) sharing_.addFirstValue(outer, carried[j], start);
    }
    const Op *const around = std::exchange(loop_, &op);
    visitGraph(body);
    loop_ = around;
    const int end = ++time_;

    const int next = storage(body, body.outputs()[0]);
    for (int s : {iteration, condition, next}) storages_.keep(s, start, end);
    sharing_.readOutsideKernels(next, end);
    for (int j = 0; j < carries; ++j) {
      if (invariant[j]) {
        sharing_.readOutsideKernels(carried[j], end);
        if (j < op.outputCount() && op.hasOutput(j)) slot(graph, op.outputs()[j]) = carried[j];
        continue;
      }
      storages_.keep(carried[j], start, end);
      const int value = storage(body, body.outputs()[1 + j]);
      storages_.use(value, end);
      sharing_.addCarriedMove(value, carried[j], start, end);
      const bool isResultRead = j < op.outputCount() && isRead(graph, op.outputs()[j]);
      carries_.push_back({&op, carried[j], ownMemory(carried[j]), value, start, end, isResultRead});
      if (j < op.outputCount() && op.hasOutput(j)) slot(graph, op.outputs()[j]) = carries_.back().own;
    }
    copyCarried(op, body, carried, invariant, start, end);
    for (int j = carries; j < op.outputCount(); ++j) visitScan(graph, op, body, j, start, end);
  }

  // After each iteration, results of the body are copied to the carries; one that is another carry is copied twice.
  void copyCarried(const Op &op, const Graph &body, const std::vector<int> &carried, const std::vector<bool> &invariant,
                   int start, int end) {
    std::vector<Copy> &copies = plan_.carried[&op], last;
    std::set<int> carries;
    for (int c : carried) carries.insert(storages_.find(c));
    for (size_t j = 0; j < carried.size(); ++j) {
      if (invariant[j]) continue;
      int value = storage(body, body.outputs()[1 + j]);
      const int64_t bytes = storages_.bytes(carried[j]);
      if (carries.count(storages_.find(value))) {
        sharing_.readOutsideKernels(value, end);
        const int temporary = storages_.add(Place::Arena, bytes, 0, op.str() + "/carry");
        storages_.keep(temporary, start, end);
        copies.push_back({value, temporary, bytes});
        value = temporary;
      }
      last.push_back({value, carried[j], bytes});
    }
    copies.insert(copies.end(), last.begin(), last.end());
  }

  static bool isRead(const Graph &graph, TensorIndex t) {
    return t.valid() && (!graph.tensor(t).uses().empty() || graph.tensor(t).isGraphOutput());
  }

  // A second number for the memory of a carry, with the loop's initial value and its result: the number in the body may
  // later mean rows of a stack (readCarriesInStacks).
  int ownMemory(int carry) {
    const int own = storages_.add(Place::Arena, storages_.bytes(carry), 0, "");
    storages_.join(own, carry);
    return own;
  }

  void visitScan(const Graph &graph, const Op &op, const Graph &body, int j, int start, int end) {
    if (!op.hasOutput(j)) return;
    const int stack = storage(graph, op.outputs()[j]), row = storage(body, body.outputs()[1 + j]);
    storages_.keep(stack, start, end);
    sharing_.readOutsideKernels(row, end);
    const int64_t rowBytes = body.info(body.outputs()[1 + j]).nbytes();
    scans_.push_back({&op, row, stack, rowBytes, start, end});
  }

  // If a stacked value lives only in one iteration, its producer writes it directly into the stack.
  void writeScansInPlace() {
    for (const Scan &s : scans_) {
      const int row = storages_.find(s.row);
      if (storages_.place(row) != Place::Arena || storages_.bytes(row) != s.rowBytes || !fitsRows(s.rowBytes)) continue;
      if (storages_.firstDefinition(row) <= s.start || storages_.lastUse(row) > s.end) continue;
      if (storages_.bytes(s.stack) < s.rowBytes || storages_.hasSlices(row)) continue;  // fewer bytes: it never runs
      storages_.makeScanRow(row, s.stack);
      plan_.rows[s.loop].push_back(row);
      inPlace_.push_back(s);
    }
  }

  // If the next value of a carry is a row of a stack, the next iteration reads it in that row. The carry's own memory
  // keeps the initial value, which nothing in the loop may change then, and gets the last value when the loop ends.
  void readCarriesInStacks() {
    for (size_t s = 0; s < inPlace_.size();) {
      size_t end = s;
      while (end < inPlace_.size() && inPlace_[end].loop == inPlace_[s].loop) ++end;
      readCarriesInStacks(std::span(inPlace_).subspan(s, end - s));
      s = end;
    }
  }

  // The stacks of one loop. Not if its body has lanes: they would read rows that other lanes write.
  void readCarriesInStacks(std::span<const Scan> scans) {
    const auto [start, end] = std::pair(scans.front().start, scans.front().end);
    if (lanes_.hasSectionBetween(start, end)) return;
    std::map<int, const Scan *> stacked;  // by the storage of the row
    for (const Scan &s : scans) stacked.emplace(storages_.find(s.row), &s);
    const auto first = std::ranges::lower_bound(carries_, end, {}, &Carry::end);  // loops are sorted by their ends
    std::vector<std::pair<const Carry *, const Scan *>> found;
    for (auto c = first; c != carries_.end() && c->end == end; ++c)
      if (const auto s = stacked.find(storages_.find(c->value));
          s != stacked.end() && storages_.bytes(c->carry) == s->second->rowBytes)
        found.emplace_back(&*c, s->second);
    if (found.empty()) return;
    const std::set<int> written = writtenWithin(start, end, first - carries_.begin());
    for (const auto &[carry, scan] : found)
      if (!written.contains(storages_.find(carry->carry))) readInStack(*carry, *scan);
  }

  // Storages that kernels of the loop between these times, and of loops inside it, write. `carry`: its first one.
  std::set<int> writtenWithin(int start, int end, std::ptrdiff_t carry) const {
    std::set<int> written;
    const std::vector<KernelUse> &kernels = sharing_.kernels();
    for (auto k = std::ranges::lower_bound(kernels, start, {}, &KernelUse::time); k != kernels.end() && k->time < end;
         ++k)
      for (const int s : k->out)
        if (s >= 0) written.insert(storages_.find(s));
    for (; carry > 0 && carries_[static_cast<size_t>(carry) - 1].start > start; --carry)
      written.insert(storages_.find(carries_[static_cast<size_t>(carry) - 1].carry));
    return written;
  }

  void readInStack(const Carry &c, const Scan &s) {
    const int row = storages_.addRowBefore(s.stack, c.own, s.rowBytes, c.loop->str() + "/carry");
    storages_.keep(row, s.start, s.end);
    plan_.rows[s.loop].push_back(row);
    readElsewhere_.emplace(c.carry, row);
    std::erase_if(plan_.carried[s.loop], [&](const Copy &copy) { return copy.from == c.value && copy.to == c.carry; });
    if (c.isResultRead) plan_.results[s.loop].push_back({row, c.own, s.rowBytes});
  }

  void visitIf(const Graph &graph, const Op &op) {
    const int start = time_;
    sharing_.readOutsideKernels(storage(graph, op.inputs()[0]), start);
    std::vector<int> results;
    for (TensorIndex t : op.outputs())
      if (t.valid()) results.push_back(storage(graph, t));
    size_t first = 1;  // input of the op that is the branch's first
    for (const char *name : {"then_branch", "else_branch"}) {
      const Graph &branch = program_.getGraph(op.attributes().getAttribute<GraphRef>(name).id);
      for (size_t i = 0; i < branch.inputs().size(); ++i)
        slot(branch, branch.inputs()[i]) = storage(graph, op.inputs()[first + i]);
      first += branch.inputs().size();
      visitGraph(branch);
      ++time_;
      for (int i = 0; i < op.outputCount(); ++i)
        if (op.hasOutput(i)) sharing_.readOutsideKernels(storage(branch, branch.outputs()[i]), time_);
    }
    for (int s : results) storages_.keep(s, start, time_);
    for (size_t i = 1; i < op.inputs().size(); ++i)
      if (op.hasInput(static_cast<int>(i))) sharing_.readOutsideKernels(storage(graph, op.inputs()[i]), time_);
  }

  // ---- the end of the program -------------------------------------------------------------------
  void copyAssigned() {
    std::vector<Copy> last;
    const int end = time_ + static_cast<int>(2 * sharing_.copies().size());
    for (const Sharing::Assign &a : sharing_.copies()) {
      int from = a.value;
      ++time_;
      if (storages_.place(from) == Place::Variable) {  // another copy may overwrite it, so read it first
        const int temporary = storages_.add(Place::Arena, storages_.bytes(from), 0, "assign");
        storages_.keep(temporary, 0, end);
        plan_.assigned.push_back({from, temporary, storages_.bytes(from)});
        from = temporary;
      }
      storages_.use(from, time_);
      last.push_back({from, a.variable, storages_.bytes(a.variable)});
    }
    plan_.assigned.insert(plan_.assigned.end(), last.begin(), last.end());
  }

  // Storages that were joined get the number of their target; copies that became unnecessary are removed.
  void place() {
    const Storages::Placed placed = storages_.place(lanes_);
    std::vector<int> number(storages_.size(), -1);
    for (size_t s = 0; s < number.size(); ++s) {
      if (storages_.find(static_cast<int>(s)) != static_cast<int>(s)) continue;
      number[s] = static_cast<int>(plan_.storages.size());
      plan_.storages.push_back(placed.storages[s]);
    }
    auto final = [&](int s) {
      if (s < 0) return s;
      const auto row = readElsewhere_.find(s);
      return number[static_cast<size_t>(storages_.find(row == readElsewhere_.end() ? s : row->second))];
    };
    auto resolve = [&](std::vector<Copy> &copies) {
      for (Copy &c : copies) c.from = final(c.from), c.to = final(c.to);
      std::erase_if(copies, [](const Copy &c) { return c.from == c.to; });
    };
    for (auto &[graph, list] : plan_.storageOf)
      for (int &s : list) s = final(s);
    for (Storage &s : plan_.storages) s.stack = final(s.stack), s.initial = final(s.initial), s.whole = final(s.whole);
    for (auto &[op, rows] : plan_.rows)
      for (int &s : rows) s = final(s);
    for (auto *temporary : {&plan_.sharedOf, &plan_.scratchOf})
      for (auto &[op, s] : *temporary) s = final(s);
    for (auto *moves : {&plan_.carried, &plan_.results})
      for (auto &[op, copies] : *moves) resolve(copies);
    resolve(plan_.assigned);
    plan_.arenaBytes = placed.arenaBytes;
    plan_.largestLiveSetBytes = placed.largestLiveSetBytes;
    plan_.scratchBytes = placed.scratchBytes;
  }

  const Ir &program_;
  const schedule::Schedule &schedule_;
  const KernelOf &kernelOf_;
  const int threads_;
  MemoryPlan plan_;
  const Op *loop_ = nullptr;  // the loop whose body is visited
  std::vector<Scan> scans_, inPlace_;
  std::vector<Carry> carries_;
  std::map<int, int> readElsewhere_;  // carries that are read in stacks → the rows there
  Storages storages_;
  LaneTimes lanes_;
  int sectionsAround_ = 0;  // sections with lanes that contain the op that is visited
  Sharing sharing_{storages_, lanes_};
  int time_ = 0;
};

const char *placeName(Place place) {
  switch (place) {
    case Place::Arena:
      return "arena";
    case Place::Variable:
      return "variable";
    case Place::Constant:
      return "constant";
    case Place::Row:
      return "row";
  }
  return "?";
}

}  // namespace

int MemoryPlan::of(const Graph &graph, TensorIndex t) const {
  const auto it = storageOf.find(&graph);
  return it == storageOf.end() || t.value >= it->second.size() ? -1 : it->second[t.value];
}

bool MemoryPlan::isScanRow(int storage, int stack) const {
  const Storage &row = storages[static_cast<size_t>(storage)];
  return row.place == Place::Row && row.stack == stack && row.offset == 0 && row.stride == row.bytes;
}

TemporaryBytes temporaryBytes(const executable::Kernel &kernel, int threads) {
  const int64_t scratch = executable::scratchStride(kernel.scratchBytes());
  return {kernel.sharedBytes(),
          scratch < kLargeScratchBytes ? 0 : scratch * std::min(threads, executable::widestRound(kernel))};
}

MemoryPlan planMemory(const Ir &program, const schedule::Schedule &schedule, const KernelOf &kernelOf, int threads) {
  MemoryPlan plan = Planner(program, schedule, kernelOf, threads).run();
  shareVariables(plan, program, schedule);
  return plan;
}

std::string print(const MemoryPlan &plan) {
  std::map<int, std::vector<std::string>> values;  // of each storage
  for (const auto &[graph, list] : plan.storageOf)
    for (const Tensor *t : graph->tensors())
      if (const int s = plan.of(*graph, t->index()); s >= 0) values[s].push_back(t->id);
  std::string text = fmt::format("{:>5} {:>8} {:>12} {:>12} {:>11}  values\n", "", "place", "offset", "bytes", "alive");
  for (size_t s = 0; s < plan.storages.size(); ++s) {
    const Storage &storage = plan.storages[s];
    auto names = values.find(static_cast<int>(s));
    if (storage.first < 0 && storage.place == Place::Arena) continue;
    if (names == values.end() && storage.place != Place::Arena) continue;
    std::string list = storage.name;
    if (names != values.end()) {
      std::sort(names->second.begin(), names->second.end());
      for (const std::string &name : names->second)
        if (name != storage.name) list += ", " + name;
    }
    text += fmt::format("{:>5} {:>8} {:>12} {:>12} {:>5}-{:<5}  {}{}{}\n", s, placeName(storage.place), storage.offset,
                        storage.bytes, storage.first, storage.last, list, toText(storage.sharers),
                        storage.whole < 0 ? "" : fmt::format(", a slice of {}", storage.whole));
  }
  for (const auto &[op, rows] : plan.rows)
    for (int s : rows) {
      const Storage &row = plan.storages[static_cast<size_t>(s)];
      text += fmt::format("in each iteration of {}: {} is a row of {}, {:+} bytes{}\n", op->str(), s, row.stack,
                          row.stride, row.initial < 0 ? "" : fmt::format(", {} in the first one", row.initial));
    }
  for (const auto &[op, copies] : plan.carried)
    for (const Copy &c : copies)
      text += fmt::format("after each iteration of {}: {} -> {}, {} bytes\n", op->str(), c.from, c.to, c.bytes);
  for (const auto &[op, copies] : plan.results)
    for (const Copy &c : copies)
      text += fmt::format("after the last iteration of {}: {} -> {}, {} bytes\n", op->str(), c.from, c.to, c.bytes);
  for (const Copy &c : plan.assigned) text += fmt::format("at the end: {} -> {}, {} bytes\n", c.from, c.to, c.bytes);
  text += fmt::format("arena: {} bytes{}\nlargest live set: {} bytes\n", plan.arenaBytes,
                      plan.scratchBytes == 0 ? "" : fmt::format(", {} of them for scratch memory", plan.scratchBytes),
                      plan.largestLiveSetBytes);
  return text;
}

void verify(const MemoryPlan &plan) {
  std::vector<std::tuple<int, int64_t, int, int64_t>> byStart;  // first, offset, last, bytes
  for (const Storage &s : plan.storages)
    if (s.whole >= 0) {
      const Storage &whole = plan.storages.at(static_cast<size_t>(s.whole));
      if (s.offset < whole.offset || s.offset + s.bytes > whole.offset + whole.bytes || whole.place != Place::Arena ||
          s.first < whole.first || s.last > whole.last)
        throw internal_error("memory plan: '{}' is not a slice of '{}': {} bytes at {}, expected some of {} at {}",
                             s.name, whole.name, s.bytes, s.offset, whole.bytes, whole.offset);
    } else if (s.place == Place::Arena && s.first >= 0 && s.bytes > 0) {
      if (s.offset < 0 || s.offset + s.bytes > plan.arenaBytes)
        throw internal_error("memory plan: '{}' is outside the arena of {} bytes: {} bytes at {}", s.name,
                             plan.arenaBytes, s.bytes, s.offset);
      byStart.push_back({s.first, s.offset, s.last, s.bytes});
    } else if (s.place == Place::Row) {
      const int64_t whole = plan.storages.at(static_cast<size_t>(s.stack)).bytes;
      const int64_t start = s.offset + (s.initial < 0 ? 0 : s.stride);  // in the first iteration that uses the row
      if (start < 0 || start + s.bytes > whole)
        throw internal_error("memory plan: row '{}' is outside its stack of {} bytes: {} bytes at {}", s.name, whole,
                             s.bytes, start);
    }
  std::sort(byStart.begin(), byStart.end());
  std::map<int64_t, std::pair<int64_t, int>> alive;  // offset -> bytes, last
  for (const auto &[first, offset, last, bytes] : byStart) {
    std::erase_if(alive, [first = first](const auto &entry) { return entry.second.second < first; });
    const auto above = alive.lower_bound(offset);
    const bool clash = (above != alive.end() && above->first < offset + bytes) ||
                       (above != alive.begin() && std::prev(above)->first + std::prev(above)->second.first > offset);
    if (clash) throw internal_error("memory plan: {} bytes at {} are used twice at time {}", bytes, offset, first);
    alive[offset] = {bytes, last};
  }
}

}  // namespace popart::memory
