// Fields of Op::Settings and Tensor as attribute lists and back. A field is written only when it differs from its
// default; applying the list to a default object restores every field.
#include "ir/facts.hpp"

#include <array>
#include <charconv>
#include <limits>

#include "base/nearest.hpp"

namespace popart {
namespace {

constexpr std::array<std::string_view, 4> kRecompute = {"undefined", "checkpoint", "recompute", "recomputed"};
constexpr std::array<std::string_view, 6> kContexts = {"normal",          "accumulate_outer",    "weights_from_host",
                                                       "weights_to_host", "optimizer_from_host", "subgraph"};
constexpr std::array<std::string_view, 3> kTileSets = {"compute", "io", "undefined"};
constexpr std::array<std::string_view, 5> kTensorTypes = {"tensor", "const", "stream", "unknown", "variable"};

template <class Enum, size_t N>
Enum enumFromText(const std::array<std::string_view, N> &names, const std::string &text, std::string_view field) {
  std::vector<std::string> known(names.begin(), names.end());
  for (size_t i = 0; i < N; ++i)
    if (names[i] == text) return static_cast<Enum>(i);
  throw error("setting '{}': unknown value: got '{}', expected one of {}", field, text, known);
}

template <class T>
T numberFromText(const std::string &text, std::string_view field) {
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  check(status == std::errc() && end == text.data() + text.size(), "setting '{}': not a number: got '{}'", field, text);
  return value;
}

// Maps are written as [key, value, key, value …].
template <class Map, class ToValue>
std::vector<std::string> flattenMap(const Map &map, ToValue toValue) {
  std::vector<std::string> list;
  for (const auto &[key, value] : map) list.push_back(key), list.push_back(toValue(value));
  return list;
}

const std::vector<std::string> &pairs(const Attributes &facts, std::string_view field) {
  const auto &list = facts.getAttribute<std::vector<std::string>>(field);
  check(list.size() % 2 == 0, "setting '{}': expected pairs of key and value: got {} texts", field, list.size());
  return list;
}

// The value list[i], checked to be in [0, end).
int64_t field(const std::vector<int64_t> &list, size_t i, int64_t end, std::string_view name) {
  check(list[i] >= 0 && list[i] < end, "'{}': entry {} is out of range: got {}, expected 0 to {}", name, i, list[i],
        end - 1);
  return list[i];
}

void checkKnown(const Attributes &facts, std::initializer_list<std::string_view> known, std::string_view what) {
  for (const auto &entry : facts.entries()) {
    bool found = false;
    for (std::string_view k : known) found = found || k == entry.first;
    if (found) continue;
    throw error("{}: unknown field '{}'{}", what, entry.first,
                nearestText(entry.first, std::vector<std::string>(known.begin(), known.end()), "known fields"));
  }
}

TensorLocation locationFrom(const std::vector<int64_t> &v) {
  check(v.size() == 6, "setting 'location': expected 6 numbers: got {}", v.size());
  constexpr int64_t kSizes = int64_t{1} << 32;
  return TensorLocation(static_cast<TensorStorage>(field(v, 0, 2, "location")),
                        static_cast<TileSet>(field(v, 1, 3, "location")),
                        static_cast<TileSet>(field(v, 2, 3, "location")),
                        static_cast<ReplicatedTensorSharding>(field(v, 3, 2, "location")),
                        CommGroup(static_cast<CommGroupType>(field(v, 4, 4, "location")),
                                  static_cast<unsigned>(field(v, 5, kSizes, "location"))));
}

VariableSettings variableSettingsFrom(const std::vector<int64_t> &v) {
  check(v.size() == 4,
        "'replicas': expected [0, group type, group size, retrieval mode] or [1, stride, group size, retrieval mode]: "
        "got {}",
        v);
  constexpr int64_t kSizes = int64_t{1} << 32;
  const auto mode = static_cast<VariableRetrievalMode>(field(v, 3, 3, "replicas"));
  const auto size = static_cast<unsigned>(field(v, 2, kSizes, "replicas"));
  if (field(v, 0, 2, "replicas") == 1) {
    const auto stride = static_cast<unsigned>(field(v, 1, kSizes, "replicas"));
    check(stride > 0 && size > 0, "'replicas': stride and group size must be above 0: got {}", v);
    return VariableSettings(stride, size, mode);
  }
  const auto type = static_cast<CommGroupType>(field(v, 1, 4, "replicas"));
  check(size > 0 || type == CommGroupType::All || type == CommGroupType::None,
        "'replicas': a Consecutive or Orthogonal group needs a group size above 0: got {}", v);
  return VariableSettings(CommGroup(type, size), mode);
}

}  // namespace

Attributes settingsFacts(const Op::Settings &s) {
  Attributes facts;
  if (!s.name.empty()) facts.set("name", s.name);
  if (!s.scope.empty()) facts.set("scope", s.scope);
  if (s.vgraphId) facts.set("vgraph", *s.vgraphId);
  if (s.pipelineStage) facts.set("stage", *s.pipelineStage);
  if (s.executionPhase) facts.set("phase", *s.executionPhase);
  if (s.recomputeType != RecomputeType::Undefined)
    facts.set("recompute", std::string(kRecompute.at(static_cast<size_t>(s.recomputeType))));
  if (s.executionContext != ExecutionContext::Normal)
    facts.set("context", std::string(kContexts.at(static_cast<size_t>(s.executionContext))));
  if (s.tileSet != TileSet::Compute) facts.set("tiles", std::string(kTileSets.at(static_cast<size_t>(s.tileSet))));
  if (s.tensorLocation) facts.set("location", s.tensorLocation->serialize());
  if (s.schedulePriority != 0.0) facts.set("priority", toText(s.schedulePriority));
  if (!s.excludePatterns.empty())
    facts.set("exclude_patterns", std::vector<std::string>(s.excludePatterns.begin(), s.excludePatterns.end()));
  auto same = [](const std::string &text) { return text; };
  if (!s.inplacePreferences.empty())
    facts.set("inplace", flattenMap(s.inplacePreferences, [](float v) { return toText(v); }));
  if (!s.extraOutlineAttributes.empty()) facts.set("outline", flattenMap(s.extraOutlineAttributes, same));
  if (!s.hints.empty()) facts.set("hints", flattenMap(s.hints, same));
  return facts;
}

void applySettingsFacts(const Attributes &facts, Op::Settings &s) {
  checkKnown(facts,
             {"name", "scope", "vgraph", "stage", "phase", "recompute", "context", "tiles", "location", "priority",
              "exclude_patterns", "inplace", "outline", "hints"},
             "op settings");
  auto text = [&](std::string_view f) { return facts.getAttribute<std::string>(f, ""); };
  s.name = text("name");
  s.scope = text("scope");
  if (facts.hasAttribute("vgraph")) s.vgraphId = facts.getAttribute<int64_t>("vgraph");
  if (facts.hasAttribute("stage")) s.pipelineStage = facts.getAttribute<int64_t>("stage");
  if (facts.hasAttribute("phase")) s.executionPhase = facts.getAttribute<int64_t>("phase");
  if (facts.hasAttribute("recompute"))
    s.recomputeType = enumFromText<RecomputeType>(kRecompute, text("recompute"), "recompute");
  if (facts.hasAttribute("context"))
    s.executionContext = enumFromText<ExecutionContext>(kContexts, text("context"), "context");
  if (facts.hasAttribute("tiles")) s.tileSet = enumFromText<TileSet>(kTileSets, text("tiles"), "tiles");
  if (facts.hasAttribute("location"))
    s.tensorLocation = locationFrom(facts.getAttribute<std::vector<int64_t>>("location"));
  if (facts.hasAttribute("priority")) s.schedulePriority = numberFromText<double>(text("priority"), "priority");
  if (facts.hasAttribute("exclude_patterns")) {
    const auto &list = facts.getAttribute<std::vector<std::string>>("exclude_patterns");
    s.excludePatterns = {list.begin(), list.end()};
  }
  auto eachPair = [&](std::string_view f, auto put) {
    if (!facts.hasAttribute(f)) return;
    const auto &list = pairs(facts, f);
    for (size_t i = 0; i < list.size(); i += 2) put(list[i], list[i + 1]);
  };
  eachPair("inplace", [&](auto &k, auto &v) { s.inplacePreferences[k] = numberFromText<float>(v, "inplace"); });
  eachPair("outline", [&](auto &k, auto &v) { s.extraOutlineAttributes[k] = v; });
  eachPair("hints", [&](auto &k, auto &v) { s.hints[k] = v; });
}

Attributes tensorFacts(const Tensor &t) {
  Attributes facts;
  const VariableSettings &v = t.variableSettings;
  if (v != VariableSettings()) {
    const bool group = v.isUsingCommGroup();
    facts.set("replicas",
              std::vector<int64_t>{group ? 0 : 1, group ? static_cast<int64_t>(v.getCommGroupType()) : v.getStride(),
                                   group ? v.getSharedVariableDomain().replicaGroupSize : v.getGroupSize(),
                                   static_cast<int64_t>(v.getRetrievalMode())});
  }
  if (t.isOptimizerState) facts.set("optimizer_state", int64_t{1});
  if (t.isRemote) facts.set("remote", int64_t{1});
  if (t.byReference) facts.set("by_reference", int64_t{1});
  if (!t.layout.empty()) facts.set("layout", t.layout);
  if (t.hasProducer() && t.tensorType() != TensorType::ActGrad)
    facts.set("type", std::string(tensorTypeText(t.tensorType())));
  return facts;
}

void applyTensorFacts(const Attributes &facts, Tensor &t) {
  checkKnown(facts, {"replicas", "optimizer_state", "remote", "by_reference", "layout", "type"}, "tensor");
  if (facts.hasAttribute("replicas"))
    t.variableSettings = variableSettingsFrom(facts.getAttribute<std::vector<int64_t>>("replicas"));
  t.isOptimizerState = facts.getAttribute<int64_t>("optimizer_state", 0) != 0;
  t.isRemote = facts.getAttribute<int64_t>("remote", 0) != 0;
  t.byReference = facts.getAttribute<int64_t>("by_reference", 0) != 0;
  t.layout = facts.getAttribute<std::string>("layout", "");
  if (!facts.hasAttribute("type")) return;
  TensorType type;
  check(t.hasProducer() && tensorTypeFromText(facts.getAttribute<std::string>("type"), type),
        "tensor '{}': field 'type' is wrong: got '{}'. It belongs to outputs of operators", t.id,
        facts.getAttribute<std::string>("type"));
  t.setTensorType(type);
}

std::string_view tensorTypeText(TensorType type) { return kTensorTypes.at(static_cast<size_t>(type)); }

bool tensorTypeFromText(std::string_view text, TensorType &type) {
  for (size_t i = 0; i < kTensorTypes.size(); ++i)
    if (kTensorTypes[i] == text) return type = static_cast<TensorType>(i), true;
  return false;
}

}  // namespace popart
