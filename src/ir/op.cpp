// Op: edges by index, rules from the row.
#include <popart/op.hpp>

#include <algorithm>
#include <functional>
#include <typeinfo>

#include <popart/graph.hpp>
#include <popart/ir.hpp>
#include <popart/opmanager.hpp>

#include "ir/operand_types.hpp"

namespace popart {
namespace {

// Operands of calls and user ops are those of the callee, which may be optional; other lists have no gaps.
bool mayHaveGaps(const Op &op) { return op.has(Trait::Call) || op.isUserOp(); }

thread_local bool areTypesUnchecked = false;

void checkOperands(const Op &op) {
  const OpDef &def = op.def();
  const auto &rows = def.inputs();
  const bool variadic = !rows.empty() && rows.back().arity == Arity::Variadic;
  if (!variadic && op.inputCount() > static_cast<int>(rows.size()))
    throw error("{}: too many inputs: got {}, expected at most {}", op.debugName(), op.inputCount(), rows.size());
  std::vector<std::pair<std::string, DataType>> bound;
  for (int i = 0; i < std::max<int>(op.inputCount(), static_cast<int>(rows.size())); ++i) {
    const InputDef &row = rows[std::min<size_t>(i, rows.size() - 1)];
    if (!op.hasInput(i)) {
      const bool gap = row.arity == Arity::Variadic && i < op.inputCount() && !mayHaveGaps(op);
      if (row.arity == Arity::Required || gap)
        throw error("{}: input {} ('{}') is missing. Connect a tensor to it", op.debugName(), i, row.name);
      continue;
    }
    if (row.typeVar.empty()) continue;
    const DataType type = op.inInfo(i).dataType();
    bool known = false;
    for (const auto &[var, first] : bound) {
      if (var != row.typeVar) continue;
      known = true;
      if (first != type)
        throw error("{}: element types differ: got {} and {} (input {} '{}'), expected equal types. Cast one of them",
                    op.debugName(), first, type, i, op.inId(i));
    }
    if (!known) bound.emplace_back(row.typeVar, type);
  }
}

void checkOutputs(const Op &op) {
  const auto &rows = op.def().outputs();
  const bool variadic = !rows.empty() && rows.back().arity == Arity::Variadic;
  for (int i = 0; i < op.outputCount(); ++i) {
    if (!op.hasOutput(i)) continue;
    if (!variadic && i >= static_cast<int>(rows.size()))
      throw error("{}: too many outputs: got {}, expected at most {}", op.debugName(), op.outputCount(), rows.size());
    if (op.outInfo(i).isSet()) continue;
    throw error("{}: output {} is not available with these attributes and inputs. Leave it out", op.debugName(), i);
  }
}

// The row of the library; null for operators of users.
const OpDef *findOwnDef(const OperatorIdentifier &opid) {
  if (findOpDef(opid.str())) return nullptr;
  if (const OpDef *def = findOnnxOp(opid.domain, opid.type, opid.version)) return def;
  const OpDef *def = findOpDef(opid.type);
  return def && def->domain() == opid.domain ? def : nullptr;
}

}  // namespace

OperandTypesUnchecked::OperandTypesUnchecked() : outer_(areTypesUnchecked) { areTypesUnchecked = true; }
OperandTypesUnchecked::~OperandTypesUnchecked() { areTypesUnchecked = outer_; }

void checkOperandTypes(const Op &op) {
  const auto &rows = op.def().inputs();
  for (int i = 0; i < op.inputCount(); ++i) {
    if (!op.hasInput(i) || rows.empty()) continue;
    const InputDef &row = rows[std::min<size_t>(i, rows.size() - 1)];
    const DataType type = op.inInfo(i).dataType();
    if (!(typeBit(type) & row.types))
      throw error(
          "{}: input {} ('{}') has an element type this operator does not take: got {} (tensor '{}'). Cast it first",
          op.debugName(), i, row.name, type, op.inId(i));
  }
}

void checkOperandTypes(const Ir &ir) {
  for (const Graph *graph : ir.getAllGraphs())
    for (const Op *op : graph->ops()) checkOperandTypes(*op);
}

Op::Op(const OpDef &def, Attributes attributes, const Settings &s) : opid(def.id()), settings(s), def_(&def) {
  attributes_ = def.completeAttributes(std::move(attributes), s.name);
  id = getIr().getAndIncrOpsCounter();
}

Op::Op(const OperatorIdentifier &identifier, Attributes attributes, const Settings &s)
    : opid(identifier), settings(s), def_(findOwnDef(identifier)) {
  userOp_ = def_ == nullptr;
  if (userOp_) def_ = &userOpDef(identifier);
  attributes_ = userOp_ ? std::move(attributes) : def_->completeAttributes(std::move(attributes), s.name);
  if (!userOp_) opid.type = def_->type(), opid.domain = def_->domain();
  id = getIr().getAndIncrOpsCounter();
}

Op::~Op() = default;

void Op::setDef(const OpDef &def) {
  def_ = &def;
  opid = def.id();
}

std::string Op::str() const { return opid.type + "." + std::to_string(id); }
std::string Op::debugName() const {
  return opid.type + " '" + (settings.name.empty() ? std::to_string(id) : settings.name) + "'";
}
Ir &Op::getIr() const { return settings.graph->getIr(); }

Tensor *Op::inTensor(InIndex i) const {
  if (!hasInput(i)) throw error("{}: input {} is not connected: expected a tensor there", debugName(), i);
  return &settings.graph->tensor(inputs_[i]);
}
Tensor *Op::outTensor(OutIndex i) const {
  if (!hasOutput(i)) throw error("{}: output {} does not exist", debugName(), i);
  return &settings.graph->tensor(outputs_[i]);
}

void Op::connectInTensor(InIndex i, const TensorId &tensorId) {
  getGraph().connectInput(index_, i, getGraph().getTensor(tensorId)->index());
}
void Op::connectOutTensor(OutIndex i, const TensorId &tensorId) {
  getGraph().connectOutput(index_, i, getGraph().getTensor(tensorId)->index());
}
void Op::createAndConnectOutTensor(OutIndex i, const TensorId &tensorId) {
  getGraph().createOutput(index_, i, tensorId);
}
void Op::disconnectInTensor(InIndex i) { getGraph().disconnectInput(index_, i); }
void Op::disconnectAllInputs() {
  for (int i = inputCount(); i-- > 0;) getGraph().disconnectInput(index_, i);
}
void Op::disconnectAllOutputs() {
  for (int i = 0; i < outputCount(); ++i) getGraph().disconnectOutput(index_, i);
}

void Op::setup() {
  if (!areTypesUnchecked) checkOperandTypes(*this);
  checkOperands(*this);
  InferContext context(*this);
  try {
    if (def_->inferRule()) {
      def_->inferRule()(context);
    } else if (outputCount() > 0) {
      context.out(0, context.in(0));
    }
  } catch (const error &e) {
    // Functions that a rule calls (sizes of shapes, attributes) do not know the op, so it is added to their message.
    const std::string what = e.what(), name = debugName();
    if (typeid(e) != typeid(error) || what.find(name) != std::string::npos) throw;
    throw error("{}: {}", name, what);
  }
  checkOutputs(*this);
}

const std::vector<GradInOutMapper> &Op::gradInputInfo() const {
  throw error("{}: gradInputInfo is not defined. A gradient operator must override it", debugName());
}
const std::map<int, int> &Op::gradOutToNonGradIn() const {
  throw error("{}: gradOutToNonGradIn is not defined. A gradient operator must override it", debugName());
}
void Op::appendAttributes(OpSerialiserBase &) const {}
void Op::appendOutlineAttributes(OpSerialiserBase &os) const { appendAttributes(os); }

std::vector<std::pair<OperatorIdentifier, float>> Op::inplacePriorityDefault() const {
  std::vector<std::pair<OperatorIdentifier, float>> result;
  for (const auto &v : def_->inplaces()) result.emplace_back(OperatorIdentifier("ai.graphcore", v.type, 1), v.priority);
  return result;
}
std::unique_ptr<Op> Op::getInplaceVariant(const OperatorIdentifier &variant) const {
  auto copy = clone();
  copy->setDef(opDef(variant.type));
  return copy;
}
bool Op::modifiesInput(InIndex i) const {
  for (const auto &a : def_->aliasRules())
    if (a.input == i && a.modifies) return true;
  if (has(Trait::Call) && hasAttr("modified"))
    for (int64_t m : attrInts("modified"))
      if (m == i) return true;
  return std::ranges::any_of(modifies(i), std::not_fn(&view::Region::isEmpty));
}
bool Op::aliasesInput(InIndex in, OutIndex out) const {
  for (const auto &a : def_->aliasRules())
    if ((a.input == in || a.input == AliasDef::kEveryInput) && a.output == out) return true;
  return std::ranges::any_of(aliases(in, out), std::not_fn(&view::Region::isEmpty));
}
view::RegMap Op::fwdRegMap(InIndex in, OutIndex out) const {
  const view::Region whole = view::Region::getFull(outShape(out)), none = view::Region::getEmpty(outRank(out));
  const bool shared = aliasesInput(in, out);
  return [=](const view::Region &part) -> view::Regions { return {shared && !part.isEmpty() ? whole : none}; };
}
view::RegMap Op::bwdRegMap(InIndex in, OutIndex out) const {
  const view::Region whole = view::Region::getFull(inShape(in)), none = view::Region::getEmpty(inRank(in));
  const bool shared = aliasesInput(in, out);
  return [=](const view::Region &part) -> view::Regions { return {shared && !part.isEmpty() ? whole : none}; };
}
std::set<InIndex> Op::optionalInputs() const {
  std::set<InIndex> result;
  for (size_t i = 0; i < def_->inputs().size(); ++i)
    if (def_->inputs()[i].arity != Arity::Required) result.insert(static_cast<InIndex>(i));
  return result;
}

std::vector<Graph *> Op::getCalledGraphs() const {
  std::vector<Graph *> graphs;
  for (const auto &[name, value] : attributes_.entries())
    if (const auto *ref = std::get_if<GraphRef>(&value)) graphs.push_back(&getIr().getGraph(ref->id));
  return graphs;
}

bool Op::isIdentity() const {
  if (!hasInput(0) || !hasOutput(0)) return false;
  if (inInfo(0).dataType() != outInfo(0).dataType() || inShape(0) != outShape(0)) return false;
  return userOp_ ? canBeReplacedByIdentity() : def_->identityRule() && def_->identityRule()(*this);
}

float Op::getSubgraphValue() const {
  const Cost cost = costOf(*this);
  return cost.flops > cost.bytesRead + cost.bytesWritten ? getHighSubgraphValue() : getLowSubgraphValue();
}

Op::Settings copySettings(const Op &origin, Graph &graph) {
  Op::Settings s = origin.settings;
  s.graph = &graph;
  s.sequence = -1;
  return s;
}

Op::Settings inheritSettings(const Op &origin, Graph &graph, std::string_view suffix) {
  Op::Settings s = copySettings(origin, graph);
  s.sequence = origin.place();
  if (!suffix.empty()) s.name = s.name.empty() ? std::string(suffix) : s.name + "/" + std::string(suffix);
  return s;
}

Cost costOf(const Op &op) {
  Cost cost;
  if (!op.has(Trait::View | Trait::Metadata | Trait::Call)) {
    auto add = [&](const TensorInfo &info, double &bytes) {
      bytes += static_cast<double>(info.nbytes());
      if (!op.has(Trait::HostIo)) cost.flops = std::max(cost.flops, static_cast<double>(info.nelms()));
    };
    for (InIndex i = 0; i < op.inputCount(); ++i)
      if (op.hasInput(i)) add(op.inInfo(i), cost.bytesRead);
    for (OutIndex o = 0; o < op.outputCount(); ++o)
      if (op.hasOutput(o)) add(op.outInfo(o), cost.bytesWritten);
  }
  if (op.def().costRule()) op.def().costRule()(op, cost);
  // Nested loops of a damaged model multiply without limit; below this bound sums and products stay finite.
  constexpr double kMost = 1e200;
  return {std::min(cost.flops, kMost), std::min(cost.bytesRead, kMost), std::min(cost.bytesWritten, kMost)};
}

Cost costOf(const Graph &graph) {
  Cost sum;
  for (const Op *op : graph.ops()) sum += costOf(*op);
  return sum;
}

}  // namespace popart
