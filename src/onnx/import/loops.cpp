// Loop. Its body becomes a separate graph. The loop is unrolled if something in an iteration must be known when the
// graph is built: lengths of sequences, or sizes and positions that depend on the iteration's number.
#include <algorithm>
#include <limits>
#include <optional>

#include <popart/error.hpp>

#include "onnx/compose.hpp"
#include "onnx_proto/onnx.pb.h"
#include "ops/control/loops.hpp"

namespace popart::onnx {
namespace {

// Limit of iterations for a loop that stacks values and may end before its trip count.
constexpr int64_t kMostStacked = int64_t{1} << 20;
// Limit of iterations for a loop that is unrolled.
constexpr int64_t kMostWritten = int64_t{1} << 12;

std::string nameOf(const NodeContext &n) { return n.settings().name.empty() ? n.firstOutput() : n.settings().name; }

bool carriesTensors(const NodeContext &n) {
  for (int i = 2; i < n.namedInputs(); ++i)
    if (!n.hasIn(i)) return false;
  return true;
}

// Unrolls the loop. Trip count and condition must be known; states may be sequences, absent, or change their shape.
void writeOut(NodeContext &n) {
  const int states = std::max(0, n.namedInputs() - 2);
  const int64_t trips = n.hasIn(0) ? n.constantInt(0) : std::numeric_limits<int64_t>::max();
  bool runs = !n.hasIn(1) || n.constantNumber(1) != 0;
  const onnx_proto::GraphProto &body = n.graphAttribute("body");
  const int scans = body.output_size() - 1 - states;
  n.require(scans >= 0 && n.outputCount() <= states + scans,
            "body must return the condition, {} carried values and the stacked values: got {} outputs for {}", states,
            body.output_size(), n.outputCount());
  std::vector<Meaning> values;
  for (int i = 0; i < states; ++i) values.push_back(n.meaning(2 + i));
  Composer to(n);
  std::vector<std::vector<Value>> rows(static_cast<size_t>(scans));
  const TensorIndex always = n.literal(TensorData::scalar(true));
  for (int64_t i = 0; runs && i < trips; ++i) {
    n.importer().countNode();
    n.require(i < kMostWritten,
              "has too many iterations to be unrolled, which a carried or stacked value requires: expected at most {}",
              kMostWritten);
    const std::string prefix = n.scope().prefix + nameOf(n) + "/" + std::to_string(i) + "/";
    const TensorId id = n.importer().freshId(n.graph(), n.graph().addScope(prefix + "iteration"));
    std::vector<Meaning> inputs = {n.graph().addConstant(id, TensorData::scalar(i)), always};
    inputs.insert(inputs.end(), values.begin(), values.end());
    const std::vector<Meaning> outputs = n.importer().inlineGraph(body, n.scope(), prefix, {}, inputs);
    const TensorIndex condition = outputs[0].tensor;
    n.requireKnown(
        condition.valid() && n.isConstant(condition) && n.info(condition).nelms() == 1,
        "whether iteration {} is the last one must be known when the graph is built, but it depends on data of "
        "the run. Return a condition that follows from the iteration",
        i);
    runs = n.graph().tensor(condition).tensorData().asInts().at(0) != 0;
    values.assign(outputs.begin() + 1, outputs.begin() + 1 + states);
    for (int s = 0; s < scans; ++s) {
      n.require(outputs[1 + states + s].tensor.valid(), "a stacked value must be a tensor: got a sequence or nothing");
      const Value row(to, outputs[1 + states + s].tensor);
      Shape shape = row.shape();
      shape.insert(shape.begin(), 1);
      rows[s].push_back(row.reshape(shape));
    }
  }
  for (int i = 0; i < n.outputCount(); ++i) {
    if (!n.hasOut(i)) continue;
    if (i < states) {
      n.resultMeaning(i, values[i]);
    } else {
      n.require(!rows[i - states].empty(), "has no iteration, so that the shape of output {} is not known", i);
      to.result(i, concat(rows[i - states], 0));
    }
  }
}

// Whether the loop runs exactly as often as its trip count says.
bool runsToTheEnd(const NodeContext &n, const Graph &body) {
  return (!n.hasIn(1) || ops::isConstantTrue(n.graph(), n.in(1))) && ops::keepsRunning(body);
}

// Adds a carried value to `body`, after `carried` others. `after`: computes its value after an iteration from the old
// one.
template <class After>
void addCarried(NodeContext &n, Graph &body, int64_t carried, const char *name, const TensorInfo &info, After after) {
  const TensorIndex before = body.addInput(n.importer().freshId(body, body.addScope(name)), info);
  Composer in(n, body);
  const Value next = after(Value(in, before), Value(in, body.outputs().front()));
  std::vector<TensorIndex> inputs = body.inputs(), outputs = body.outputs();
  inputs.pop_back();
  inputs.insert(inputs.begin() + 2 + carried, before);
  outputs.insert(outputs.begin() + 1 + carried, next.tensor());
  body.setInputs(std::move(inputs));
  body.setOutputs(std::move(outputs));
}

// Counts the iterations.
void addCounter(NodeContext &n, Graph &body, int64_t carried) {
  addCarried(n, body, carried, "iterations", TensorInfo(DataType::INT64, {}),
             [](const Value &before, const Value &) { return before + 1.0; });
}

// Records whether another iteration follows.
void addGoesOn(NodeContext &n, Graph &body, int64_t carried) {
  addCarried(n, body, carried, "goes_on", TensorInfo(DataType::BOOL, {}),
             [](const Value &, const Value &condition) { return condition.reshape({}).op("Identity"); });
}

// The limit of iterations for a loop that stacks values and whose model has no limit: as given, or a number for which
// the stacks are small.
int64_t assumedBound(const NodeContext &n, const Graph &body, int64_t carried) {
  constexpr int64_t kFewest = 16, kMost = 1024, kStackBytes = int64_t{64} << 20;
  if (const int64_t given = n.importer().options().mostStacked) return std::min(given, kMostStacked);
  int64_t row = 1;
  for (size_t i = static_cast<size_t>(carried) + 1; i < body.outputs().size(); ++i)
    row += body.info(body.outputs()[i]).nbytes();
  return std::clamp(kStackBytes / row, kFewest, kMost);
}

// Ends the run when the loop has run `bound` iterations and would continue.
void refuseMore(NodeContext &n, const Value &count, const Value &goesOn, int64_t bound) {
  Value exceeds = count.op("Equal", {count.number(static_cast<double>(bound))}).op("And", {goesOn});
  if (n.hasIn(0)) {
    const Value trips = Value(count.composer(), n.in(0)).cast(DataType::INT64).reshape({});
    exceeds = exceeds.op("And", {trips.op("Greater", {trips.number(static_cast<double>(bound))})});
  }
  const std::string reason = formatText(
      "Loop '{}': it stacks values and has more iterations than it has memory for: got more than {}. Raise "
      "engineOptions[\"max_stacked_iterations\"], or give the loop a constant trip count",
      {nameOf(n), toText(bound)});
  n.importer().addPlainOp(n.graph(), "Abort", {exceeds.tensor()}, {}, {{"reason", reason}}, n.settings());
}

// The rows of a stack that were written, with zeros in the others.
TensorIndex written(NodeContext &n, const Value &stack, const Bound &bound) {
  const PlainOps to = n.plainOps();
  return BoundedSizes::masked(to, stack.tensor(), {bound}, to.number(stack.type(), 0));
}

// The ops of a loop that may end before its trip count: its stacks have as many rows as the trip count. With an assumed
// limit the loop also carries, after the counter, whether it would continue.
void boundedResults(NodeContext &n, std::vector<TensorIndex> inputs, Attributes attributes, int64_t carried, int scans,
                    std::optional<int64_t> assumed) {
  Composer to(n);
  const int64_t own = assumed ? 2 : 1;
  inputs.insert(inputs.begin() + 2 + carried, n.literal(TensorData::scalar<int64_t>(0)));
  if (assumed) {
    const Value begins = n.hasIn(1) ? Value(to, n.in(1)).reshape({}) : Value(to, n.literal(TensorData::scalar(true)));
    inputs.insert(inputs.begin() + 3 + carried, begins.tensor());
  }
  attributes.set("carried", carried + own);
  attributes.set("counter", carried);
  const std::vector<Value> results =
      to.emit("Loop", inputs, static_cast<int>(carried + own) + scans, std::move(attributes));
  const Value &count = results[static_cast<size_t>(carried)];
  if (assumed) refuseMore(n, count, results[static_cast<size_t>(carried) + 1], *assumed);
  for (int i = 0; i < n.outputCount(); ++i) {
    if (!n.hasOut(i)) continue;
    if (i < carried) {
      to.result(i, results[static_cast<size_t>(i)]);
    } else {
      const Bound bound{count.tensor(), 0};
      n.resultTensor(i, written(n, results[static_cast<size_t>(i + own)], bound));
      n.boundOutput(i, {bound});
    }
  }
}

void writeLoop(NodeContext &n) {
  std::vector<TensorInfo> infos = {TensorInfo(DataType::INT64, {}), TensorInfo(DataType::BOOL, {})};
  std::vector<TensorIndex> inputs = {n.optionalIn(0), n.optionalIn(1)};
  for (int i = 2; i < n.inputCount(); ++i) {
    infos.push_back(n.info(i));
    inputs.push_back(n.in(i));
  }
  const auto carried = static_cast<int64_t>(infos.size()) - 2;
  Scope scope = bodyScope(n);
  const std::string name = (n.settings().name.empty() ? n.type() : n.settings().name) + "/body";
  Graph &body = n.importer().importBody(n.graphAttribute("body"), name, infos, scope);
  const int scans = static_cast<int>(body.outputs().size()) - 1 - static_cast<int>(carried);
  n.require(scans >= 0, "body must return the condition and {} carried values: got {} outputs", carried,
            static_cast<long>(body.outputs().size()));
  for (int64_t i = 0; i < carried; ++i) {
    const auto at = static_cast<size_t>(i);
    const TensorInfo &next = body.info(body.outputs()[at + 1]);
    if (next != infos[at + 2])
      throw unknown_value(
          "carried value {} changes its type or shape: got {} after an iteration, expected {} as before it. Give the "
          "loop a constant trip count, so that every iteration can be written out",
          i, next, infos[at + 2]);
  }
  for (const auto &capture : scope.captures) inputs.push_back(capture.outer);
  Attributes attributes = {{"body", GraphRef{body.id}}, {"carried", carried}};
  n.require(n.outputCount() <= carried + scans, "has more outputs than its body gives: got {}, expected at most {}",
            n.outputCount(), carried + scans);
  const bool counted = n.hasIn(0) && n.isConstant(n.in(0));
  const bool known = counted && runsToTheEnd(n, body);
  std::optional<int64_t> bound, assumed;
  if (counted) bound = std::max<int64_t>(0, n.constantInt(0));
  if (scans > 0 && !known && (!bound || *bound > kMostStacked)) bound = assumed = assumedBound(n, body, carried);
  if (bound) attributes.set("trip_count", *bound);
  if (known || !bound || (scans == 0 && !n.training())) return n.results("Loop", inputs, attributes);
  addCounter(n, body, carried);
  if (assumed) addGoesOn(n, body, carried + 1);
  boundedResults(n, inputs, attributes, carried, scans, assumed);
}

void importLoop(NodeContext &n) {
  if (!carriesTensors(n)) return writeOut(n);
  const bool counted = n.hasIn(0) && n.isConstant(n.in(0));
  if (!counted) return writeLoop(n);
  const std::vector<Graph *> before = n.importer().ir().getAllGraphs();
  try {
    writeLoop(n);
  } catch (const unknown_value &) {
    n.importer().removeGraphsBut(before);
    writeOut(n);
  }
}

}  // namespace

std::vector<ImportRule> loopRules() { return {{"ai.onnx", "Loop", importLoop, {}, true}}; }

}  // namespace popart::onnx
