// Operators of ai.graphcore whose models differ from the rows: numbers of PopART's enumerations, replica groups as a
// pair.
#include <popart/commgroup.hpp>
#include <popart/error.hpp>
#include <popart/tensornames.hpp>

#include "onnx/importer.hpp"
#include "ops/index/dynamic_window.hpp"

namespace popart::onnx {
namespace {

// PopART's ScatterReduction, by its number or its name.
void importScatterReduce(NodeContext &n) {
  static const char *const kReductions[] = {"Sum", "Max", "Min", "Mul", "None"};
  if (const AttributeValue *value = n.attributes().find("reduction"))
    if (const auto *number = std::get_if<int64_t>(value)) {
      n.require(*number >= 0 && *number < 5, "attribute reduction is no ScatterReduction: got {}", *number);
      n.attributes().set("reduction", std::string(kReductions[*number]));
    }
  importRegular(n);
}

// commGroup is [CommGroupType, size]; without it all replicas are one group.
void importCollective(NodeContext &n) {
  const auto group = n.attr<std::vector<int64_t>>("commGroup", n.nodeAttributes().commGroup);
  const auto replicas = static_cast<unsigned>(n.importer().options().replicas);
  CommGroup members;
  if (!group.empty()) {
    n.require(group.size() == 2, "attribute commGroup: got {}, expected [type, size]", group);
    const auto type = static_cast<CommGroupType>(group[0]);
    const bool sized = type == CommGroupType::Consecutive || type == CommGroupType::Orthogonal;
    n.require(sized || type == CommGroupType::All || type == CommGroupType::None,
              "attribute commGroup is no CommGroupType: got {}", group[0]);
    const bool fits = sized && group[1] >= 1 && (replicas == 0 || (group[1] <= replicas && replicas % group[1] == 0));
    n.require(!sized || fits,
              "the size of its groups must divide the number of replicas: got groups of {}, {} replicas", group[1],
              replicas);
    n.attributes().erase("commGroup");
    members = CommGroup(type, static_cast<unsigned>(group[1]));
    if (replicas == 0) n.attributes().set("group_size", sized ? group[1] : int64_t{1});
  }
  if (replicas == 0) return importRegular(n);
  const ReplicaGrouping grouping = members.toReplicaGrouping(replicas);
  n.attributes().set("group_size", int64_t{grouping.getGroupSize()});
  n.attributes().set("stride", int64_t{grouping.getStride()});
  importRegular(n);
}

// A third input gives the shape and type of the slice.
void importDynamicSlice(NodeContext &n) {
  if (!n.hasIn(2)) return importRegular(n);
  const TensorIndex slice = n.emit("DynamicSlice", {n.in(0), n.in(1)}, n.attributes());
  const TensorInfo &made = n.info(slice), &wanted = n.info(2);
  n.require(made.dataType() == wanted.dataType() && ops::fillsWindow(wanted.shape(), made.shape()),
            "input 2 (slice_in) does not have the window's type and shape: got {}, expected {} (dimensions of size 1 "
            "may be left out)",
            wanted, made);
  n.result(0, "Reshape", {slice}, {{"shape", wanted.shape()}, {"allowzero", int64_t{1}}});
}

// Without a title the ids of the input and of its gradient are the titles.
void importPrintTensor(NodeContext &n) {
  if (n.attr<std::string>("title", "").empty()) {
    const TensorId &id = n.graph().tensor(n.in(0)).id;
    n.attributes().set("title", id);
    n.attributes().set("gradient_title", reservedGradientPrefix() + id);
  }
  importRegular(n);
}

// Drops only in training.
void importShapedDropout(NodeContext &n) {
  if (n.training()) return importRandom(n);
  const float ratio = n.attr("ratio", 0.5f);
  n.require(ratio >= 0.0f && ratio < 1.0f, "ratio must be at least 0 and less than 1: got {}", ratio);
  n.result(0, "Identity", {n.in(0)});
}

}  // namespace

std::vector<ImportRule> graphcoreRules() {
  return {{"ai.graphcore", "ScatterReduce", importScatterReduce},
          {"ai.graphcore", "GroupedScatterReduce", importScatterReduce},
          {"ai.graphcore", "ReplicatedAllReduce", importCollective},
          {"ai.graphcore", "ReplicatedReduceScatter", importCollective},
          {"ai.graphcore", "DynamicSlice", importDynamicSlice},
          {"ai.graphcore", "PrintTensor", importPrintTensor},
          {"ai.graphcore", "ShapedDropout", importShapedDropout}};
}

}  // namespace popart::onnx
