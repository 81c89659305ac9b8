// Shape rules of Call, Loop and If, of host streams and collectives, and their refusals.
#include <gtest/gtest.h>

#include "evaluate_op.hpp"
#include "ops/control/loops.hpp"

namespace popart::testing {
namespace {

const TensorInfo kInfo(DataType::FLOAT, {2, 3});
const TensorInfo kCount(DataType::INT64, {});
const TensorInfo kFlag(DataType::BOOL, {});

// A graph whose outputs are some of its inputs.
Graph &passThrough(Ir &ir, const GraphId &id, const std::vector<TensorInfo> &inputs, const std::vector<int> &outputs) {
  Graph &graph = ir.createGraph(id);
  for (size_t i = 0; i < inputs.size(); ++i) graph.addInput(graph.addScope("in" + std::to_string(i)), inputs[i]);
  for (int i : outputs) graph.markOutput(graph.inputs()[i]);
  return graph;
}

Op *add(Graph &graph, const std::string &type, const std::vector<TensorIndex> &inputs, int outputs,
        Attributes attributes) {
  std::vector<TensorId> ids;
  for (int i = 0; i < outputs; ++i) ids.push_back(graph.freeId(type + "_out" + std::to_string(i)));
  return graph.addConnectedOp(opDef(type), inputs, ids, std::move(attributes), Op::Settings(graph, "op"));
}

TEST(Control, call_takes_its_outputs_from_the_callee) {
  Ir ir;
  passThrough(ir, "g", {kInfo, kCount}, {1, 0});
  Graph &main = ir.getMainGraph();
  TensorIndex x = main.addInput("x", kInfo), n = main.addInput("n", kCount);
  Op *call = add(main, "Call", {x, n}, 2, {{"callee", GraphRef{"g"}}});
  EXPECT_EQ(call->outInfo(0), kCount);
  EXPECT_EQ(call->outInfo(1), kInfo);
  EXPECT_THROW(add(main, "Call", {x, n, n}, 1, {{"callee", GraphRef{"g"}}}), error);
  EXPECT_THROW(add(main, "Call", {n, x}, 1, {{"callee", GraphRef{"g"}}}), error);
}

TEST(Control, an_input_may_be_connected_later_and_is_asked_for) {
  Ir ir;
  passThrough(ir, "g", {kInfo, kCount}, {1, 0});
  passThrough(ir, "body", {kCount, kFlag, kInfo, kCount}, {1, 2});
  Graph &main = ir.getMainGraph();
  TensorIndex x = main.addInput("x", kInfo), n = main.addInput("n", kCount), flag = main.addInput("flag", kFlag);
  const Attributes loop{{"body", GraphRef{"body"}}, {"trip_count", int64_t{5}}, {"carried", int64_t{1}}};
  passThrough(ir, "swapped", {kCount, kInfo}, {0, 1});
  const Attributes branches{{"then_branch", GraphRef{"g"}}, {"else_branch", GraphRef{"swapped"}}};
  const std::vector<Op *> ops = {add(main, "Call", {{}, n}, 2, {{"callee", GraphRef{"g"}}}),
                                 add(main, "Loop", {{}, {}, x}, 1, loop),
                                 add(main, "If", {flag, x, n, n}, 2, branches)};
  const int missing[] = {0, 3, 4};
  for (size_t i = 0; i < ops.size(); ++i) {
    EXPECT_THROW(ops::requireCalledInputs(*ops[i]), error);
    EXPECT_THROW(verify(ir), error);
    main.connectInput(ops[i]->index(), missing[i], i == 1 ? n : x);
    EXPECT_NO_THROW(ops::requireCalledInputs(*ops[i]));
  }
  EXPECT_NO_THROW(verify(ir));
}

TEST(Control, loop_gives_carried_values_and_stacked_scans) {
  Ir ir;
  passThrough(ir, "body", {kCount, kFlag, kInfo, kCount}, {1, 2, 2});
  Graph &main = ir.getMainGraph();
  TensorIndex x = main.addInput("x", kInfo), n = main.addInput("n", kCount);
  const Attributes attributes{{"body", GraphRef{"body"}}, {"trip_count", int64_t{5}}, {"carried", int64_t{1}}};
  Op *loop = add(main, "Loop", {{}, {}, x, n}, 2, attributes);
  EXPECT_EQ(loop->outInfo(0), kInfo);
  EXPECT_EQ(loop->outInfo(1), TensorInfo(DataType::FLOAT, {5, 2, 3}));
  Attributes dynamic = attributes;
  dynamic.erase("trip_count");
  EXPECT_THROW(add(main, "Loop", {n, {}, x, n}, 2, dynamic), error);
  EXPECT_THROW(add(main, "Loop", {{}, {}, n, x}, 2, attributes), error);
}

TEST(Control, if_needs_branches_with_equal_outputs) {
  Ir ir;
  passThrough(ir, "yes", {kInfo}, {0});
  passThrough(ir, "no", {kInfo, kCount}, {0});
  passThrough(ir, "other", {kCount}, {0});
  Graph &main = ir.getMainGraph();
  TensorIndex c = main.addInput("c", kFlag), x = main.addInput("x", kInfo), n = main.addInput("n", kCount);
  Op *op = add(main, "If", {c, x, x, n}, 1, {{"then_branch", GraphRef{"yes"}}, {"else_branch", GraphRef{"no"}}});
  EXPECT_EQ(op->outInfo(0), kInfo);
  EXPECT_THROW(add(main, "If", {c, x, n}, 1, {{"then_branch", GraphRef{"yes"}}, {"else_branch", GraphRef{"other"}}}),
               error);
}

TEST(Control, host_load_has_the_info_of_its_stream) {
  Ir ir;
  Graph &main = ir.getMainGraph();
  main.addStream("stream", kInfo);
  Graph &sub = ir.createGraph("g");
  Op *load = add(sub, "HostLoad", {}, 1, {{"stream", std::string("stream")}});
  EXPECT_EQ(load->outInfo(0), kInfo);
  EXPECT_THROW(add(sub, "HostLoad", {}, 1, {{"stream", std::string("strean")}}), error);
  TensorIndex wrong = sub.addInput("g/wrong", kCount);
  EXPECT_THROW(add(sub, "HostLoad", {wrong}, 1, {{"stream", std::string("stream")}}), error);
}

TEST(Control, init_zero_fills_and_checks_its_attributes) {
  const Attributes attributes{{"shape", Shape{2, 2}}, {"dtype", int64_t{6}}};
  EXPECT_EQ(evaluateOp("Init", attributes, {})[0].asInts(), (std::vector<int64_t>(4, 0)));
  EXPECT_THROW(evaluateOp("Init", {{"shape", Shape{-1}}, {"dtype", int64_t{1}}}, {}), error);
}

TEST(Control, scatter_and_gather_round_up_to_whole_chunks) {
  Ir ir;
  Graph &main = ir.getMainGraph();
  TensorIndex x = main.addInput("x", TensorInfo(DataType::FLOAT, {3, 5}));
  Op *scatter = add(main, "ReplicatedReduceScatter", {x}, 1, {{"group_size", int64_t{4}}, {"meta_shape", Shape{3, 5}}});
  EXPECT_EQ(scatter->outInfo(0), TensorInfo(DataType::FLOAT, {4}, {3, 5}));
  Op *gather = add(main, "ReplicatedAllGather", {scatter->outputs()[0]}, 1,
                   {{"group_size", int64_t{4}}, {"shape", Shape{3, 5}}});
  EXPECT_EQ(gather->outShape(0), (Shape{3, 5}));
  EXPECT_THROW(add(main, "ReplicatedAllReduce", {x}, 1, {{"op", std::string("Median")}}), error);
  EXPECT_THROW(add(main, "ReplicatedAllToAll", {x}, 1, {{"group_size", int64_t{4}}}), error);  // 15 elements
  EXPECT_THROW(add(main, "ReplicatedBroadcast", {x}, 1, {{"group_size", int64_t{2}}, {"root", int64_t{2}}}), error);
}

TEST(Control, one_collective_takes_several_tensors_of_one_type) {
  Ir ir;
  Graph &main = ir.getMainGraph();
  const TensorIndex x = main.addInput("x", TensorInfo(DataType::FLOAT, {4})),
                    y = main.addInput("y", TensorInfo(DataType::FLOAT, {2})), count = main.addInput("count", kCount);
  const Attributes pair{{"group_size", int64_t{2}}};
  Op *reduce = add(main, "CollectiveReduce", {x, y}, 2, pair);
  EXPECT_EQ(reduce->outShape(1), (Shape{2}));
  EXPECT_THROW(add(main, "CollectiveReduce", {x, count}, 2, pair), error);
  EXPECT_THROW(add(main, "CollectiveReduce", {x, y}, 1, pair), error);
  Attributes shapes = pair;
  shapes.set("shape", Shape{2, 4, 3});
  shapes.set("ranks", std::vector<int64_t>{2, 1});
  Op *gather = add(main, "CollectiveGather", {x, y}, 2, shapes);
  EXPECT_EQ(gather->outShape(0), (Shape{2, 4}));
  EXPECT_EQ(gather->outShape(1), (Shape{3}));
  EXPECT_THROW(add(main, "CollectiveGather", {x}, 1, shapes), error);     // shapes for two
  EXPECT_THROW(add(main, "CollectiveGather", {y, x}, 2, shapes), error);  // more elements than there are parts
  for (const std::vector<int64_t> &ranks : {std::vector<int64_t>{3, 1}, {-1, 4}, {1, 1}}) {
    shapes.set("ranks", ranks);
    EXPECT_THROW(add(main, "CollectiveGather", {x, y}, 2, shapes), error);
  }
  EXPECT_THROW(add(main, "CollectivePublish", {x}, 1, pair), error);  // of which collective?
}

}  // namespace
}  // namespace popart::testing
