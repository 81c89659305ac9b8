// See step_loops.hpp. A body keeps the ids of the tensors it takes over. Variables and other tensors of the main graph
// are passed in as loop inputs; constants move or are copied. After the loop, a tensor that is a variable's new value
// is read as that variable.
#include "transforms/step_loops.hpp"

#include <map>
#include <set>

#include <popart/error.hpp>

#include "transforms/copy_op.hpp"
#include "transforms/counted_loop.hpp"
#include "transforms/variables.hpp"

namespace popart::transforms {
namespace {

bool isOuter(const Op &op) { return op.settings.executionContext == ExecutionContext::AccumulateOuterFragment; }
bool isInner(const Op &op) { return !isOuter(op); }
bool isAny(const Op &) { return true; }

Op::Settings firstIn(Graph &graph, const char *name) {
  Op::Settings settings(graph, name);
  settings.sequence = 0;
  return settings;
}

class LoopMaker {
 public:
  // `moves`: whether an op moves into the body.
  LoopMaker(Ir &ir, int64_t count, const char *name, bool (*moves)(const Op &))
      : main_(ir.getMainGraph()),
        loop_(*addCountedLoop(main_, count, firstIn(main_, name))),
        body_(bodyOf(loop_)),
        moves_(moves) {}

  void run() {
    for (Op *op : main_.getOpSchedule())
      if (op != &loop_) (moves_(*op) ? moved_ : outer_).push_back(op);
    for (Op *op : outer_) carryOut(*op);
    for (Op *op : moved_) copyIntoBody(*op);
    moveConstraints();
    for (TensorIndex value : carried_) body_.markOutput(inBody_.at(value));
    writeThrough(loop_, modifiedInputs());
    loop_.setup();
    for (const auto &[value, result] : results_) readAfterLoop(value, result);
    eraseMoved();
    for (Op *op : outer_) main_.addConstraint(loop_.index(), op->index());
  }

 private:
  bool madeInBody(TensorIndex t) const {
    return main_.tensor(t).hasProducer() && moves_(*main_.tensor(t).getProducer());
  }

  // ---- values that leave the body
  void carryOut(Op &op) {
    for (InIndex i = 0; i < op.inputCount(); ++i) {
      if (!op.hasInput(i) || !madeInBody(op.inputs()[i])) continue;
      const TensorIndex value = op.inputs()[i];
      if (const TensorIndex variable = variableOf(main_, value); variable.valid()) {
        main_.connectInput(op.index(), i, variable);
      } else if (!results_.count(value)) {
        addCarried(value);
      }
    }
  }

  // Lets the loop carry `value` at the end of each iteration.
  void addCarried(TensorIndex value) {
    const TensorId id = main_.tensor(value).id;
    passIn(loop_, main_.addConstant(main_.freeId(id + "___beforeLoop"), TensorData(main_.info(value))));
    const TensorIndex result =
        main_.addTensor(main_.freeId(id + "___afterLoop"), main_.info(value), TensorType::ActGrad);
    main_.connectOutput(loop_.index(), static_cast<OutIndex>(carried_.size()), result);
    results_[value] = result;
    carried_.push_back(value);
    loop_.mutableAttributes().set("carried", static_cast<int64_t>(carried_.size()));
  }

  void readAfterLoop(TensorIndex value, TensorIndex result) {
    const std::vector<Use> uses = main_.tensor(value).uses();
    for (const Use &use : uses)
      if (use.op != loop_.index() && !moves_(main_.op(use.op))) main_.replaceUse(use, result);
  }

  // ---- the body
  TensorIndex inBody(TensorIndex t) {
    if (const auto it = inBody_.find(t); it != inBody_.end()) return it->second;
    const Tensor &tensor = main_.tensor(t);
    if (tensor.hasProducer())
      throw internal_error("{}: '{}' is made after the loop that reads it.", loop_.debugName(), tensor.id);
    if (tensor.tensorType() == TensorType::Const)
      return inBody_[t] = body_.addConstant(body_.freeId(tensor.id), tensor.tensorData());
    const InIndex input = inputs_[t] = passIn(loop_, t);
    return inBody_[t] = body_.inputs()[static_cast<size_t>(input)];
  }

  void copyIntoBody(const Op &op) {
    std::vector<TensorIndex> inputs;
    for (TensorIndex t : op.inputs()) inputs.push_back(t.valid() ? inBody(t) : TensorIndex{});
    // the body is built in program order
    const Op *copy = copyOp(op, body_, inputs, copySettings(op, body_));
    opInBody_[op.index()] = copy->index();
    for (int o = 0; o < op.outputCount(); ++o)
      if (op.hasOutput(o)) inBody_[op.outputs()[o]] = copy->outputs()[o];
    for (InIndex i = 0; i < op.inputCount(); ++i) {
      if (op.hasInput(i) && op.modifiesInput(i))
        modified_.merge(variablesShownBy(main_, op.inputs()[static_cast<size_t>(i)]));
    }
  }

  void moveConstraints() {
    for (const auto &[before, after] : main_.constraints())
      if (opInBody_.count(before) && opInBody_.count(after)) body_.addConstraint(opInBody_[before], opInBody_[after]);
  }

  std::vector<InIndex> modifiedInputs() const {
    std::vector<InIndex> inputs;
    for (TensorIndex variable : modified_) inputs.push_back(inputs_.at(variable));
    return inputs;
  }

  void eraseMoved() {
    for (auto it = moved_.rbegin(); it != moved_.rend(); ++it) main_.eraseOpAndOutputs((*it)->index());
    for (const auto &[t, copy] : inBody_)
      if (main_.alive(t) && main_.tensor(t).tensorType() == TensorType::Const && main_.tensor(t).uses().empty())
        main_.eraseTensor(t);
  }

  Graph &main_;
  Op &loop_;
  Graph &body_;
  bool (*moves_)(const Op &);
  std::vector<Op *> moved_, outer_;
  std::map<TensorIndex, InIndex> inputs_;      // inputs of the loop, by the tensor that is passed in
  std::map<TensorIndex, TensorIndex> inBody_;  // main -> body
  std::map<OpIndex, OpIndex> opInBody_;
  std::set<TensorIndex> modified_;              // variables the body writes
  std::vector<TensorIndex> carried_;            // values made in the body, in the order of the loop's outputs
  std::map<TensorIndex, TensorIndex> results_;  // such a value -> the loop's output
};

// Results of the update are stored after the loop.
void storeOuterValuesAfterwards(Graph &main) {
  for (Op *op : main.ops())
    if (op->is(Role::HostStore) && op->inTensor(0)->hasProducer() && isOuter(*op->inTensor(0)->getProducer()))
      op->settings.executionContext = ExecutionContext::AccumulateOuterFragment;
}

}  // namespace

void addAccumulationLoop(Ir &ir, int64_t count) {
  if (count <= 1) return;
  storeOuterValuesAfterwards(ir.getMainGraph());
  LoopMaker(ir, count, "accumulation", isInner).run();
}

void addMainLoop(Ir &ir, int64_t count) {
  if (count > 1) LoopMaker(ir, count, "mainLoop", isAny).run();
}

}  // namespace popart::transforms
