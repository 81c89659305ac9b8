// From memory to values: every source tensor refers to a root (a piece of memory) through a path of views. If the root
// was rewritten since, reading a tensor re-applies the path to the root's current value; writing through a view
// computes the root's new value with the inverse of each view on the path, innermost first:
//
//   x ──Slice──▶ v      v += 1   ⇒   x' = update(x, v + 1);  later readers of x see x', of v see v + 1
// A concatenation that shares memory is a root made of parts. Reading it concatenates them again if one has changed;
// writing it rewrites each of them.
#include "lower/flatten.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "ir/hints.hpp"
#include "ops/control/loops.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

struct Ref {
  int root = -1;
  std::vector<const Op *> path;  // in-place view ops of the source graph, outermost first
  TensorIndex cached;            // value at the end of the path …
  int64_t cachedVersion = -1;    // … at this version of the root
};

struct Root {
  TensorIndex value;  // current value in the flat graph
  int64_t version = 0;
  const Op *concat = nullptr;  // concatenates `parts`; null: separate memory
  std::vector<Ref> parts;
  int64_t partsVersion = 0;  // sum of the versions of the parts that `value` contains
};

class Flattener {
 public:
  Flattener(const Ir &source, MainOutputs outputs)
      : source_(source), outputs_(outputs), result_(std::make_unique<Ir>()) {}

  std::unique_ptr<Ir> run() {
    Graph &flat = result_->getMainGraph();
    const Graph &main = source_.getMainGraph();
    Scope scope(main, flat);
    std::vector<std::pair<TensorIndex, int>> variables;  // flat variable, root
    for (Tensor *t : main.tensors()) {
      if (t->hasProducer()) continue;
      const TensorIndex copy = copyLeaf(*t, flat);
      bind(scope, t->index(), newRoot(copy));
      if (t->tensorType() == TensorType::Variable) variables.emplace_back(copy, scope.refs[t->index().value].root);
    }
    inlineGraph(scope);
    for (auto [variable, root] : variables) {
      if (roots_[root].value == variable) continue;
      Op::Settings settings(flat, flat.tensor(variable).id);
      flat.addConnectedOp(opDef("VariableAssign"), {variable, roots_[root].value}, {}, {}, settings);
    }
    if (outputs_ == MainOutputs::Keep)
      for (TensorIndex t : main.outputs()) flat.markOutput(read(scope, scope.refs[t.value]));
    return std::move(result_);
  }

 private:
  struct Scope {
    Scope(const Graph &s, Graph &f) : source(s), flat(f), refs(s.tensorSlots()) {}
    const Graph &source;
    Graph &flat;
    std::vector<Ref> refs;  // by source tensor
  };

  // ---- roots and references ---------------------------------------------------------------------
  int newRoot(TensorIndex value) {
    roots_.emplace_back();
    roots_.back().value = value;
    return static_cast<int>(roots_.size()) - 1;
  }
  void bind(Scope &scope, TensorIndex tensor, int root) {
    Ref ref;
    ref.root = root;
    scope.refs[tensor.value] = std::move(ref);
  }

  TensorIndex applyView(Scope &scope, const Op &view, TensorIndex input) {
    return emit(scope.flat, view, view.def().base(), {input}, view.attributes(),
                scope.flat.freeId(view.outTensor(0)->id));
  }

  // Concatenates the parts again when one of them has changed.
  void refresh(Scope &scope, int index) {
    Root &root = roots_[index];
    if (!root.concat) return;
    const int64_t version = versionOfParts(scope, root);
    if (version == root.partsVersion) return;
    std::vector<TensorIndex> values;
    for (Ref &part : root.parts) values.push_back(read(scope, part));
    root.value = emit(scope.flat, *root.concat, root.concat->def().base(), values, root.concat->attributes(),
                      scope.flat.freeId(root.concat->outTensor(0)->id));
    root.partsVersion = version;
    ++root.version;
  }

  int64_t versionOfParts(Scope &scope, const Root &root) {
    int64_t version = 0;
    for (const Ref &part : root.parts) {
      refresh(scope, part.root);
      version += roots_[part.root].version;
    }
    return version;
  }

  // The root has a new value; that of a concatenation is written to its parts.
  void setValue(Scope &scope, int index, TensorIndex value) {
    Root &root = roots_[index];
    if (root.concat) {
      const std::vector<TensorIndex> parts = writeBack(scope, *root.concat, {}, value);
      for (size_t i = 0; i < root.parts.size(); ++i) write(scope, root.parts[i], parts[i]);
      root.partsVersion = versionOfParts(scope, root);
    }
    root.value = value;
    ++root.version;
  }

  TensorIndex read(Scope &scope, Ref &ref) {
    refresh(scope, ref.root);
    const Root &root = roots_[ref.root];
    if (ref.path.empty()) return root.value;
    if (ref.cachedVersion == root.version) return ref.cached;
    TensorIndex value = root.value;
    for (const Op *view : ref.path) value = applyView(scope, *view, value);
    ref.cached = value;
    ref.cachedVersion = roots_[ref.root].version;
    return value;
  }

  void write(Scope &scope, Ref &ref, TensorIndex newValue) {
    refresh(scope, ref.root);
    std::vector<TensorIndex> seen{roots_[ref.root].value};
    for (size_t i = 0; i + 1 < ref.path.size(); ++i) seen.push_back(applyView(scope, *ref.path[i], seen.back()));
    TensorIndex value = newValue;
    for (size_t i = ref.path.size(); i-- > 0;) value = writeBack(scope, *ref.path[i], {seen[i]}, value)[0];
    setValue(scope, ref.root, value);
    ref.cached = newValue;
    ref.cachedVersion = roots_[ref.root].version;
  }

  // New values of the operand of `view`, if its result is replaced by `written`.
  std::vector<TensorIndex> writeBack(Scope &scope, const Op &view, const std::vector<TensorIndex> &inputs,
                                     TensorIndex written) {
    OpEmitter emitter(scope.flat, view);
    const size_t first = scope.flat.opSlots();
    std::vector<TensorIndex> values = view.def().writeBackRule()(emitter, inputs, written);
    for (size_t o = first; o < scope.flat.opSlots(); ++o)  // the place of the view is a place in the source graph
      scope.flat.op(OpIndex{static_cast<uint32_t>(o)}).settings.sequence = -1;
    return values;
  }

  // ---- graphs -----------------------------------------------------------------------------------
  TensorIndex copyLeaf(const Tensor &t, Graph &flat) {
    const TensorIndex n = flat.addTensor(flat.freeId(t.id), t.info, t.tensorType());
    Tensor &copy = flat.tensor(n);
    if (t.hasTensorData()) copy.setTensorData(t.tensorData());
    copy.variableSettings = t.variableSettings;
    copy.isOptimizerState = t.isOptimizerState;
    copy.isRemote = t.isRemote;
    return n;
  }

  void bindConstants(Scope &scope) {
    for (Tensor *t : scope.source.tensors())
      if (!t->hasProducer() && t->tensorType() == TensorType::Const && scope.refs[t->index().value].root < 0)
        bind(scope, t->index(), newRoot(copyLeaf(*t, scope.flat)));
  }

  const std::vector<OpIndex> &scheduleOf(const Graph &graph) {
    auto [it, fresh] = schedules_.try_emplace(&graph);
    if (fresh) it->second = schedule::orderOps(graph);
    return it->second;
  }

  void inlineGraph(Scope &scope) {
    bindConstants(scope);
    for (OpIndex o : scheduleOf(scope.source)) {
      const Op &op = scope.source.op(o);
      if (op.is(Role::Call)) {
        inlineCall(scope, op);
      } else if (op.is(Role::Loop)) {
        flattenLoop(scope, op);
      } else if (op.is(Role::If)) {
        flattenIf(scope, op);
      } else {
        flattenOp(scope, op);
      }
    }
  }

  // Ops inside a recomputed call are recomputed; ops inside a call of a pipeline's stage belong to that stage and
  // cycle.
  Op::Settings settingsOf(const Op &op, Graph &flat) const {
    Op::Settings settings = copySettings(op, flat);
    if (names_)
      if (const auto name = names_->find(op.id); name != names_->end()) settings.name = name->second;
    if (recomputes_) settings.recomputeType = RecomputeType::Recomputed;
    for (const auto &[hint, value] : stage_)
      if (hint != kLane || !settings.hints.contains(kRing)) settings.hints[hint] = value;
    return settings;
  }

  TensorIndex emit(Graph &flat, const Op &origin, const OpDef &def, const std::vector<TensorIndex> &inputs,
                   Attributes attributes, const TensorId &id) {
    return flat.addConnectedOp(def, inputs, {id}, std::move(attributes), settingsOf(origin, flat))->outputs()[0];
  }

  std::vector<TensorIndex> readInputs(Scope &scope, const Op &op) {
    std::vector<TensorIndex> inputs(op.inputCount());
    for (int i = 0; i < op.inputCount(); ++i)
      if (op.hasInput(i)) inputs[i] = read(scope, scope.refs[op.inputs()[i].value]);
    return inputs;
  }

  std::vector<TensorId> outputIds(Scope &scope, const Op &op) {
    std::vector<TensorId> ids(op.outputCount());
    for (int i = 0; i < op.outputCount(); ++i)
      if (op.hasOutput(i)) ids[i] = scope.flat.freeId(op.outTensor(i)->id);
    // A new value that is only in the modified input (the time step of AdamUpdater) becomes a result here.
    for (const auto &a : op.def().aliasRules()) {
      if (!a.modifies || a.output == 0 || !op.hasInput(a.input) || op.hasOutput(a.output)) continue;
      if (ids.size() <= static_cast<size_t>(a.output)) ids.resize(static_cast<size_t>(a.output) + 1);
      ids[static_cast<size_t>(a.output)] = scope.flat.freeId("updated__" + op.inTensor(a.input)->id);
    }
    return ids;
  }

  void flattenOp(Scope &scope, const Op &op) {
    bool modifies = false, showsAll = false;
    for (const auto &a : op.def().aliasRules()) {
      showsAll |= a.input == AliasDef::kEveryInput;
      if (!op.hasInput(a.input)) continue;
      if (!a.modifies) return addView(scope, op, a.input);
      modifies = true;
    }
    Op *copy;
    const OpDef &def = op.def().base();
    if (def.role() == Role::HostLoad || def.role() == Role::RemoteLoad) {
      std::vector<TensorIndex> inputs = readInputs(scope, op);
      if (!inputs.empty()) inputs[0] = TensorIndex();  // the previous value of the tensor is not needed
      copy = scope.flat.addConnectedOp(def, inputs, outputIds(scope, op), op.attributes(), settingsOf(op, scope.flat));
    } else if (op.isUserOp()) {
      auto clone = op.clone();
      clone->settings = settingsOf(op, scope.flat);
      copy = scope.flat.addOp(std::move(clone));
      const auto inputs = readInputs(scope, op);
      for (size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i].valid()) scope.flat.connectInput(copy->index(), static_cast<int>(i), inputs[i]);
      for (int i = 0; i < op.outputCount(); ++i)
        if (op.hasOutput(i)) scope.flat.createOutput(copy->index(), i, scope.flat.freeId(op.outTensor(i)->id));
      copy->setup();
    } else {
      const std::vector<TensorIndex> inputs = readInputs(scope, op);  // may add tensors, so it precedes the new ids
      copy = scope.flat.addConnectedOp(def, inputs, outputIds(scope, op), op.attributes(), settingsOf(op, scope.flat));
    }
    for (int i = 0; i < op.outputCount(); ++i)
      if (op.hasOutput(i)) bind(scope, op.outputs()[i], newRoot(copy->outputs()[i]));
    if (showsAll) joinParts(scope, op);
    if (!modifies) return;
    for (const auto &a : op.def().aliasRules()) {
      if (!a.modifies || !op.hasInput(a.input) || !copy->hasOutput(a.output)) continue;
      Ref &target = scope.refs[op.inputs()[a.input].value];
      write(scope, target, copy->outputs()[a.output]);
      if (op.hasOutput(a.output)) scope.refs[op.outputs()[a.output].value] = target;
    }
  }

  // The result of a view is the memory of its input.
  void addView(Scope &scope, const Op &op, int input) {
    Ref ref = scope.refs[op.inputs()[input].value];
    ref.path.push_back(&op);
    ref.cachedVersion = -1;
    scope.refs[op.outputs()[0].value] = std::move(ref);
  }

  // A concatenation in place: its result is the memory of its inputs.
  void joinParts(Scope &scope, const Op &concat) {
    Root &root = roots_[scope.refs[concat.outputs()[0].value].root];
    root.concat = &concat;
    for (TensorIndex input : concat.inputs()) root.parts.push_back(scope.refs[input.value]);
    root.partsVersion = versionOfParts(scope, root);
  }

  void inlineCall(Scope &scope, const Op &op) {
    const Graph &callee = *op.getCalledGraphs().front();
    if (++depth_ > 256)
      throw error("{}: calls are nested more than 256 deep. A graph must not call itself", op.debugName());
    Scope inner(callee, scope.flat);
    for (int i = 0; i < op.inputCount(); ++i)
      bind(inner, callee.inputs()[i], newRoot(read(scope, scope.refs[op.inputs()[i].value])));
    const auto around = std::tuple(recomputes_, stage_, names_);
    names_ = op.settings.namesInside.get();
    recomputes_ |= op.settings.recomputeType == RecomputeType::Recomputed;
    for (const char *hint : {kCycle, kLane})
      if (const auto own = op.settings.hints.find(hint); own != op.settings.hints.end()) stage_[hint] = own->second;
    inlineGraph(inner);
    std::tie(recomputes_, stage_, names_) = around;
    for (int i = 0; i < op.outputCount(); ++i)
      if (op.hasOutput(i)) bind(scope, op.outputs()[i], newRoot(read(inner, inner.refs[callee.outputs()[i].value])));
    for (int i = 0; i < op.inputCount(); ++i)
      if (op.modifiesInput(i))
        write(scope, scope.refs[op.inputs()[i].value], read(inner, inner.refs[callee.inputs()[i].value]));
    --depth_;
  }

  Graph &createGraph(const GraphId &source) {
    GraphId id = source;
    for (int n = 1; result_->hasGraph(id); ++n) id = source + "/" + std::to_string(n);
    return result_->createGraph(id);
  }

  // Copies `body` as a functional graph of the result, with the same outputs and the same positions of inputs.
  Graph &flattenBody(const Graph &body) {
    Graph &flat = createGraph(body.id);
    Scope scope(body, flat);
    for (TensorIndex t : body.inputs())
      bind(scope, t, newRoot(flat.addInput(flat.freeId(body.tensor(t).id), body.info(t))));
    inlineGraph(scope);
    for (TensorIndex t : body.outputs()) flat.markOutput(read(scope, scope.refs[t.value]));
    return flat;
  }

  // Loop bodies: inputs after the loop-carried ones become loop-carried, with their value at the end of the iteration,
  // so that writes to them persist. The condition that a body reads is always true while it runs. Iterations are
  // counted in INT64, whatever the type of the body's input.
  //   [iteration, cond, carried…, others…] -> [cond, carried…, scans…]
  //   becomes  [iteration, cond, carried…, others…] -> [cond, carried…, others…, scans…]
  Graph &flattenLoopBody(const Op &loop, const Graph &body, int carried) {
    Graph &flat = createGraph(body.id);
    Scope scope(body, flat);
    for (size_t i = 0; i < body.inputs().size(); ++i) {
      const TensorIndex t = body.inputs()[i];
      const TensorInfo info = i == 0 ? TensorInfo(DataType::INT64, {}) : body.info(t);
      TensorIndex input = flat.addInput(flat.freeId(body.tensor(t).id), info);
      if (const DataType wanted = body.info(t).dataType(); wanted != info.dataType() && !body.tensor(t).uses().empty())
        input = OpEmitter(flat, loop).emit("Cast", {input}, {{"to", int64_t{toOnnxDataType(wanted)}}});
      const bool isCondition = i == 1;
      bind(scope, t,
           newRoot(isCondition ? flat.addConstant(flat.freeId(body.tensor(t).id + "/true"), TensorData::scalar(true))
                               : input));
    }
    inlineGraph(scope);
    auto mark = [&](TensorIndex t) { flat.markOutput(read(scope, scope.refs[t.value])); };
    for (int i = 0; i <= carried; ++i) mark(body.outputs()[i]);
    for (size_t i = 2 + carried; i < body.inputs().size(); ++i) mark(body.inputs()[i]);
    for (size_t i = 1 + carried; i < body.outputs().size(); ++i) mark(body.outputs()[i]);
    return flat;
  }

  void flattenLoop(Scope &scope, const Op &op) {
    const Graph &source = *op.getCalledGraphs().front();
    const int inputs = static_cast<int>(source.inputs().size()) - 2,
              results = static_cast<int>(source.outputs().size()) - 1;
    const int carried = ops::carriedCount(op);
    Attributes attributes = op.attributes();
    attributes.set("body", GraphRef{flattenLoopBody(op, source, carried).id});
    attributes.set("carried", int64_t{inputs});
    attributes.erase("modified");
    std::vector<TensorIndex> values = readInputs(scope, op);
    if (values.size() < 2) {  // no operands; the first two are always trip count and condition
      values.resize(2);
      values[1] = scope.flat.addConstant(scope.flat.freeId("condition"), TensorData::scalar(true));
    }
    if (values[0].valid() && scope.flat.info(values[0]).dataType() != DataType::INT64)  // the counter at run time
      values[0] =
          OpEmitter(scope.flat, op).emit("Cast", {values[0]}, {{"to", int64_t{toOnnxDataType(DataType::INT64)}}});
    std::vector<TensorId> ids = outputIds(scope, op);
    ids.resize(results);
    std::vector<TensorId> others(inputs - carried);
    for (int i = carried; i < inputs; ++i) {
      if (!op.modifiesInput(i + 2)) continue;
      TensorId id = op.inTensor(i + 2)->id;
      do id = scope.flat.freeId(id + "/changed");
      while (std::find(others.begin(), others.end(), id) != others.end());
      others[i - carried] = id;
    }
    ids.insert(ids.begin() + carried, others.begin(), others.end());
    Op *copy = scope.flat.addConnectedOp(op.def(), values, ids, attributes, settingsOf(op, scope.flat));
    for (int i = 0; i < op.outputCount(); ++i)
      if (op.hasOutput(i))
        bind(scope, op.outputs()[i], newRoot(copy->outputs()[i < carried ? i : i + inputs - carried]));
    for (int i = 0; i < inputs; ++i)
      if (op.modifiesInput(i + 2) && copy->hasOutput(i))
        write(scope, scope.refs[op.inputs()[i + 2].value], copy->outputs()[i]);
  }

  void flattenIf(Scope &scope, const Op &op) {
    Attributes attributes = op.attributes();
    for (const char *branch : {"then_branch", "else_branch"})
      attributes.set(branch,
                     GraphRef{flattenBody(op.getIr().getGraph(attributes.getAttribute<GraphRef>(branch).id)).id});
    const std::vector<TensorIndex> inputs = readInputs(scope, op);
    Op *copy =
        scope.flat.addConnectedOp(op.def(), inputs, outputIds(scope, op), attributes, settingsOf(op, scope.flat));
    for (int i = 0; i < op.outputCount(); ++i)
      if (op.hasOutput(i)) bind(scope, op.outputs()[i], newRoot(copy->outputs()[i]));
  }

  const Ir &source_;
  const MainOutputs outputs_;
  std::unique_ptr<Ir> result_;
  std::vector<Root> roots_;
  std::unordered_map<const Graph *, std::vector<OpIndex>> schedules_;
  int depth_ = 0;
  bool recomputes_ = false;                             // inside a recomputed call
  const std::map<OpId, std::string> *names_ = nullptr;  // of ops inside the enclosing call, Op::Settings::namesInside
  std::map<std::string, std::string> stage_;            // hints kCycle and kLane of the enclosing call
};

}  // namespace

std::unique_ptr<Ir> flatten(const Ir &ir, MainOutputs outputs) { return Flattener(ir, outputs).run(); }

}  // namespace popart::lower
