// Exchanges between replicas without arithmetic: all-to-all and broadcast. They decompose into the collectives that
// devices have kernels for; within a group of one they are identities.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/comm/collective_rules.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

int64_t groupSizeOf(const Op &op) { return op.attrInt("group_size"); }

Attributes membersOf(const Op &op) { return {{"group_size", groupSizeOf(op)}, {"stride", op.attrInt("stride")}}; }

// The attributes of a collective over the same members.
Attributes groupAttributes(const Op &op, const char *join = "Local") {
  Attributes attributes = membersOf(op);
  attributes.set("op", std::string(join));
  return attributes;
}

OpDef exchangeRow(const char *type) {
  return OpDef("ai.graphcore", type, {1})
      .cost(movesData())
      .input("data", kNumeric | kBool)
      .output("output")
      .attr("group_size", int64_t{1})
      .attr("stride", int64_t{1})
      .notOnnx();
}

// The values of all members, one after the other, in `shape`.
TensorIndex gathered(DecomposeBuilder &b, const Shape &shape) {
  Attributes attributes = groupAttributes(b.op());
  attributes.set("shape", shape);
  return b.emit("CollectiveGather", {b.in(0)}, std::move(attributes));
}

void addAllToAll(OpDefs &rows) {
  rows.push_back(
      exchangeRow("ReplicatedAllToAll")
          .infer([](InferContext &c) {
            requireGroup(c);
            const int64_t group = c.attrInt("group_size");
            c.require(c.in(0).nelms() % group == 0,
                      "the elements must divide by the group's replicas: got {} for {} replicas", c.in(0), group);
            c.out(0, c.in(0));
          })
          .decompose([](DecomposeBuilder &b) {
            const int64_t group = groupSizeOf(b.op());
            if (group == 1) return b.result(0, b.emit("Identity", {b.in(0)}));
            const TensorIndex all = gathered(b, {group, group, b.inInfo(0).nelms() / group});
            const TensorIndex byReceiver = b.emit("Transpose", {all}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
            b.result(0, emitReshape(b, b.emit("CollectiveScatter", {byReceiver}, groupAttributes(b.op())),
                                    b.outInfo(0).shape()));
          })
          .vjp([](VjpBuilder &b) {  // parts return to the members that sent them
            b.grad(0, b.emit("ReplicatedAllToAll", {b.gradOut(0)}, membersOf(b.op())));
          })
          .doc("Divides the flattened tensor into equal parts and sends part i to member i of the group, which joins "
               "the parts of all members in their order."));
}

void addBroadcast(OpDefs &rows) {
  rows.push_back(
      exchangeRow("ReplicatedBroadcast")
          .attr("root", int64_t{0})
          .infer([](InferContext &c) {
            requireGroup(c);
            const int64_t root = c.attrInt("root"), group = c.attrInt("group_size");
            c.require(root >= 0 && root < group, "root is not a member of the group: got {}, expected 0 to {}", root,
                      group - 1);
            c.out(0, c.in(0));
          })
          .decompose([](DecomposeBuilder &b) {
            const int64_t group = groupSizeOf(b.op()), root = b.op().attrInt("root");
            if (group == 1) return b.result(0, b.emit("Identity", {b.in(0)}));
            const std::vector<int64_t> axes{0}, from{root}, to{root + 1};
            const TensorIndex all = gathered(b, {group, b.inInfo(0).nelms()});
            b.result(0, emitReshape(b, b.emit("Slice", {all}, {{"starts", from}, {"ends", to}, {"axes", axes}}),
                                    b.outInfo(0).shape()));
          })
          .vjp([](VjpBuilder &b) {  // the root has the sum of all members' gradients, the others have none
            const Op &op = b.op();
            const TensorIndex total = b.emit("ReplicatedAllReduce", {b.gradOut(0)}, groupAttributes(op, "Add"));
            std::vector<double> roots(static_cast<size_t>(groupSizeOf(op)));
            roots[static_cast<size_t>(op.attrInt("root"))] = 1;
            const TensorInfo info(b.inInfo(0).dataType(), {groupSizeOf(op)});
            const TensorIndex own = b.emit("ReplicatedReduceScatter",
                                           {b.constant(TensorData::fromDoubles(info, roots))}, groupAttributes(op));
            b.grad(0, b.emit("Mul", {total, b.emit("Reshape", {own}, {{"shape", Shape{}}})}));
          })
          .doc("Copies the value of the group's member `root` to all members."));
}

}  // namespace

OpDefs exchangeOps() {
  OpDefs rows;
  addAllToAll(rows);
  addBroadcast(rows);
  return rows;
}

}  // namespace popart::ops
