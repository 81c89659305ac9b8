// See shards.hpp.
#include "transforms/shards.hpp"

#include <algorithm>
#include <cstring>

#include <popart/error.hpp>

#include "transforms/variables.hpp"

namespace popart::transforms {
namespace {

constexpr const char *kRemedy = "Choose another shardingDomain, or leave it whole with tensorLocationSettingsOverride";

// Elements of part `index` that are not padding.
int64_t elementsOf(const Sharding &s, unsigned index) {
  const int64_t part = s.partElements(), first = part * index;
  return std::clamp<int64_t>(s.whole.nelms() - first, 0, part);
}

// Calls f(offset in the whole value, offset in all parts, bytes) for each part of the value that `replica` has.
template <class F>
void forEachPart(const Sharding &s, unsigned replica, F &&f) {
  const int64_t partBytes = s.partInfo().nbytes(), elementBytes = TensorInfo(s.whole.dataType(), {}).nbytes();
  const unsigned group = s.domain.getGroupAt(replica);
  for (unsigned i = 0; i < s.domain.getGroupSize(); ++i)
    if (const int64_t bytes = elementsOf(s, i) * elementBytes; bytes > 0)
      f(partBytes * i, partBytes * s.domain.getReplicaAt(group, i), bytes);
}

void copyBytes(TensorData &to, int64_t at, const TensorData &from, int64_t start, int64_t bytes) {
  std::memcpy(static_cast<char *>(to.mutableData()) + at, static_cast<const char *>(from.data()) + start,
              static_cast<size_t>(bytes));
}

ReplicaGrouping domainOf(const Tensor &variable, const CommGroup &domain, unsigned replicas) {
  const ReplicaGrouping sharing = variable.variableSettings.getReplicaGrouping(replicas);
  if (domain.type == CommGroupType::All) return sharing;
  if (domain.type == CommGroupType::None) return ReplicaGrouping(replicas, 1, 1);
  const unsigned size = domain.replicaGroupSize;
  check(size > 0 && replicas % size == 0,
        "TensorLocation::shardingDomain of '{}': groups of {} replicas do not divide {} replicas. {}", variable.id,
        size, replicas, kRemedy);
  const ReplicaGrouping groups = domain.toReplicaGrouping(replicas);
  for (unsigned r = 0; r < replicas; ++r)
    check(sharing.getGroupAt(r) == sharing.getGroupAt(groups.getReplicaAt(groups.getGroupAt(r))),
          "TensorLocation::shardingDomain of '{}': its groups cut across the replicas that share the variable: got {}, "
          "expected groups within {}. {}",
          variable.id, groups.str(), sharing.str(), kRemedy);
  return groups;
}

// For each variable an op that changes it and cannot work on a part: one before `firstUpdate`, or one with a view.
std::map<TensorIndex, const Op *> changers(const Graph &main, int64_t firstUpdate) {
  std::map<TensorIndex, const Op *> found;
  for (const Op *op : main.ops())
    for (InIndex i = 0; i < op->inputCount(); ++i) {
      if (!op->hasInput(i) || !op->modifiesInput(i)) continue;
      const TensorIndex t = op->inputs()[static_cast<size_t>(i)];
      for (const TensorIndex variable : variablesShownBy(main, t))
        if (int64_t{op->index().value} < firstUpdate || variableOf(main, t) != variable) found.emplace(variable, op);
    }
  return found;
}

}  // namespace

int64_t Sharding::partElements() const {
  const int64_t members = domain.getGroupSize();
  return (whole.nelms() + members - 1) / members;
}

TensorInfo Sharding::partInfo() const { return TensorInfo(whole.dataType(), {partElements()}); }

TensorInfo Sharding::hostInfo() const {
  return TensorInfo(whole.dataType(), settings.shapeOnHost(whole.shape(), replicas()));
}

TensorData Sharding::cut(const TensorData &values) const {
  TensorData parts(TensorInfo(whole.dataType(), {static_cast<int64_t>(replicas()), partElements()}));
  check(values.info() == hostInfo(), "values to be sharded over replicas: got {}, expected {}", values.info(),
        hostInfo());
  if (values.isUntouchedZeros()) return parts;
  const ReplicaGrouping sharing = settings.getReplicaGrouping(replicas());
  for (unsigned r = 0; r < replicas(); ++r) {
    if (domain.getIndexInGroupAt(r) != 0) continue;
    const int64_t value = whole.nbytes() * sharing.getGroupAt(r);
    forEachPart(*this, r, [&](int64_t inWhole, int64_t inParts, int64_t bytes) {
      copyBytes(parts, inParts, values, value + inWhole, bytes);
    });
  }
  return parts;
}

TensorData Sharding::join(const TensorData &parts) const {
  TensorData values(hostInfo());
  if (parts.isUntouchedZeros()) return values;
  const ReplicaGrouping sharing = settings.getReplicaGrouping(replicas());
  for (unsigned g = 0; g < sharing.getNumGroups(); ++g)
    forEachPart(*this, sharing.getReplicaAt(g), [&](int64_t inWhole, int64_t inParts, int64_t bytes) {
      copyBytes(values, whole.nbytes() * g + inWhole, parts, inParts, bytes);
    });
  return values;
}

TensorData Sharding::joinForEach(const TensorData &parts) const {
  Shape shape = whole.shape();
  shape.insert(shape.begin(), replicas());
  TensorData values(TensorInfo(whole.dataType(), shape));
  if (parts.isUntouchedZeros()) return values;
  for (unsigned r = 0; r < replicas(); ++r)
    forEachPart(*this, r, [&](int64_t inWhole, int64_t inParts, int64_t bytes) {
      copyBytes(values, whole.nbytes() * r + inWhole, parts, inParts, bytes);
    });
  return values;
}

bool ShardRules::any() const {
  const auto isSharded = [](const auto &entry) { return entry.second.sharded; };
  return replicas > 1 && (weights.sharded || optimizerState.sharded || accumulators.sharded ||
                          std::ranges::any_of(byTensor, isSharded));
}

const ShardRules::Kind &ShardRules::of(const Tensor &variable) const {
  const auto given = byTensor.find(variable.id);
  return given == byTensor.end() ? ruleOfKind(*this, variable) : given->second;
}

bool ShardRules::mayShardUpdateOf(const Tensor &weight) const {
  if (!any()) return false;
  for (const Kind *kind : {&weights, &optimizerState, &accumulators})
    if (kind->sharded && weight.info.nelms() >= kind->leastElements) return true;
  const auto belongs = [&](const auto &entry) {
    return entry.second.sharded && (entry.first == weight.id || entry.first.find("___" + weight.id) != TensorId::npos);
  };
  return std::ranges::any_of(byTensor, belongs);
}

std::optional<Sharding> shardingOf(const Tensor &variable, const ShardRules &rules) {
  const ShardRules::Kind &rule = rules.of(variable);
  if (!rule.sharded) return std::nullopt;
  const int64_t elements = variable.info.nelms();
  if (rules.byTensor.count(variable.id)) {
    check(elements >= 2,
          "tensorLocationSettingsOverride: '{}' has {} elements and cannot be sharded over replicas: expected 2 or "
          "more. Leave it unsharded",
          variable.id, elements);
  } else if (!isFloatingPoint(variable.info.dataType()) || elements < std::max<int64_t>(rule.leastElements, 2)) {
    return std::nullopt;
  }
  Sharding sharding{variable.info, variable.variableSettings,
                    domainOf(variable, rule.domain, static_cast<unsigned>(rules.replicas))};
  if (sharding.domain.getGroupSize() == 1) return std::nullopt;
  return sharding;
}

Shardings shareOut(Graph &main, const ShardRules &rules, int64_t firstUpdate) {
  for (const auto &[id, rule] : rules.byTensor)
    if (const TensorIndex t = main.find(id); rule.sharded && t.valid())
      check(main.tensor(t).tensorType() == TensorType::Variable,
            "tensorLocationSettingsOverride: '{}' cannot be sharded over replicas: it is not a weight, optimizer state "
            "or accumulator. Leave it unsharded",
            id);
  const std::map<TensorIndex, const Op *> changed = changers(main, firstUpdate);
  Shardings shardings;
  for (Tensor *variable : main.tensorsOfType(TensorType::Variable)) {
    const std::optional<Sharding> sharding = shardingOf(*variable, rules);
    if (!sharding) continue;
    if (const auto changer = changed.find(variable->index()); changer != changed.end()) {
      check(!rules.byTensor.count(variable->id),
            "tensorLocationSettingsOverride: '{}' cannot be sharded over replicas: {} changes it and cannot work on "
            "a part. Leave it unsharded",
            variable->id, changer->second->debugName());
      continue;
    }
    if (variable->hasTensorData()) variable->setTensorData(sharding->cut(variable->tensorData()));
    variable->info = sharding->partInfo();
    variable->variableSettings = VariableSettings(CommGroup(CommGroupType::None, 0));
    shardings.emplace(variable->id, *sharding);
  }
  return shardings;
}

Attributes overGroup(const ReplicaGrouping &group, const std::string &op) {
  return {{"op", op}, {"group_size", int64_t{group.getGroupSize()}}, {"stride", int64_t{group.getStride()}}};
}

TensorIndex gatherParts(Graph &graph, TensorIndex part, const ReplicaGrouping &domain, const Shape &whole,
                        const TensorId &id, const Op::Settings &settings) {
  Attributes attributes = overGroup(domain, "Local");
  attributes.set("shape", whole);
  return graph.addConnectedOp(opDef("ReplicatedAllGather"), {part}, {graph.freeId(id)}, attributes, settings)
      ->outputs()[0];
}

TensorIndex takePart(Graph &graph, TensorIndex whole, const ReplicaGrouping &domain, const Op::Settings &settings) {
  return graph
      .addConnectedOp(opDef("ReplicatedReduceScatter"), {whole}, {graph.freeId(graph.tensor(whole).id + "___shard")},
                      overGroup(domain, "Local"), settings)
      ->outputs()[0];
}

}  // namespace popart::transforms
