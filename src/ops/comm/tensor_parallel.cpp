// Operators for layers with weights in parts on the replicas of a group: all-reduces with gradients, the cross entropy
// of logits with classes in parts, and the layer norm over an axis in parts. All of them decompose into the collectives
// of collectives.cpp.
//   gradient of an all-reduce      the same all-reduce of the gradients, with the two hints swapped
//   identical_inputs               every member has the same input, which is the result
//   identical_grad_inputs          every member has the same gradient, which passes unchanged
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/expression.hpp"
#include "ops/forward_op.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

constexpr const char *kDomain = "popxl.addons.ops";

Attributes groupOf(const Op &op) {
  return {{"group_size", op.attrInt("group_size")}, {"stride", op.attrInt("stride")}};
}

Attributes groupOf(const Op &op, const std::string &collective) {
  Attributes attributes = groupOf(op);
  attributes.set("op", collective);
  return attributes;
}

// ---- all-reduces

void requireGroup(InferContext &c) {
  c.require(c.attrInt("group_size") >= 1 && c.attrInt("stride") >= 1,
            "a group needs at least one replica and a stride of at least 1: got {} and {}", c.attrInt("group_size"),
            c.attrInt("stride"));
}

template <bool kMeans>
void inferAllReduce(InferContext &c) {
  const std::string &op = c.attrString("op");
  c.require(op == "Add" || (kMeans && op == "Mean"), "unknown collective operator: got '{}', expected Add{}", op,
            kMeans ? " or Mean" : "");
  requireGroup(c);
  c.out(0, c.in(0));
}

OpDef allReduceRow(const char *type) {
  return OpDef(kDomain, type, {1})
      .input("data", kFloats | kInts)
      .output("output")
      .attr("op", std::string("Add"))
      .attr("group_size", int64_t{1})
      .attr("stride", int64_t{1})
      .attr("identical_inputs", int64_t{0})
      .attr("identical_grad_inputs", int64_t{0})
      .decompose([](DecomposeBuilder &b) {
        if (b.op().attrInt("identical_inputs") != 0) return b.result(0, b.emit("Identity", {b.in(0)}));
        b.result(0, b.emit("ReplicatedAllReduce", {b.in(0)}, groupOf(b.op(), b.op().attrString("op"))));
      })
      .vjp([](VjpBuilder &b) {
        Attributes attributes = groupOf(b.op(), b.op().attrString("op"));
        attributes.set("identical_inputs", b.op().attrInt("identical_grad_inputs"));
        attributes.set("identical_grad_inputs", b.op().attrInt("identical_inputs"));
        b.grad(0, b.emit(b.op().opid.type, {b.gradOut(0)}, std::move(attributes)));
      })
      .notOnnx()
      .doc("Sum or mean over the replicas of each group, with a gradient.");
}

// The collective `plain` under its name in popxl_addons.
OpDef stridedRow(const char *type, const char *plain) {
  return OpDef(kDomain, type, {1})
      .input("data", kFloats | kInts)
      .output("output")
      .attr("op", std::string("Add"))
      .attr("group_size", int64_t{1})
      .attr("stride", int64_t{1})
      .infer([plain](InferContext &c) {
        requireGroup(c);
        c.require(c.attrString("op") == "Add" || c.attrString("op") == "Mean",
                  "unknown collective operator: got '{}', expected Add or Mean", c.attrString("op"));
        c.out(0, ForwardOp(c, plain, {c.in(0)}).output(0));
      })
      .decompose([plain](DecomposeBuilder &b) { b.result(0, b.emit(plain, {b.in(0)}, b.attrs())); })
      .noGrad("gathers and scatters over replicas are not differentiable")
      .notOnnx();
}

// ---- cross entropy over classes in parts on replicas

// Checks logits-like (n, c) and labels (n).
void requireRows(InferContext &c, int logits, int labels) {
  const Shape &shape = c.shape(logits);
  c.require(shape.size() == 2, "logits must have two dimensions: got shape {}", shape);
  c.require(c.shape(labels) == Shape{shape[0]}, "labels must have one dimension of {} samples: got shape {}", shape[0],
            c.shape(labels));
}

void requireRowsOfGroup(InferContext &c) {
  requireRows(c, 0, 1);
  requireGroup(c);
}

// (n, c) BOOL: true at the label of each row, nowhere for labels outside of [0, c).
Expression labelMask(DecomposeBuilder &b, TensorIndex labels, const Shape &shape) {
  std::vector<double> numbers(static_cast<size_t>(shape[1]));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  const TensorIndex classes = b.constant(TensorData::fromDoubles(TensorInfo(DataType::INT64, {1, shape[1]}), numbers));
  const TensorIndex column = b.emit("Reshape", {labels}, {{"shape", Shape{shape[0], 1}}});
  const TensorIndex wide = b.emit("Cast", {column}, {{"to", int64_t{toOnnxDataType(DataType::INT64)}}});
  return {b, b.emit("Equal", {wide, classes})};
}

Expression reduceRows(Expression x, const char *type, int64_t keepdims) {
  return x.apply(type, {{"axes", std::vector<int64_t>{1}}, {"keepdims", keepdims}});
}

Expression overGroup(DecomposeBuilder &b, Expression x, const char *collective) {
  return x.apply("ReplicatedAllReduce", groupOf(b.op(), collective));
}

//   m = max over group and classes, s = sum over group and classes of exp(x - m), nls = log(s) - (x - m)
//   loss = sum over group of nls at the label
void decomposeCrossEntropy(DecomposeBuilder &b) {
  const Expression x = cast({b, b.in(0)}, DataType::FLOAT);
  const Expression shifted = x - overGroup(b, reduceRows(x, "ReduceMax", 1), "Max");
  const Expression sums = overGroup(b, reduceRows(exp(shifted), "ReduceSum", 1), "Add");
  const Expression nls = sums.apply("Log") - shifted;
  const Expression mask = labelMask(b, b.in(1), b.inInfo(0).shape());
  // select instead of a product: classes that are masked out have an infinite loss
  const Expression own = reduceRows(select(mask, nls, nls.number(0)), "ReduceSum", 0);
  const DataType type = b.inInfo(0).dataType();
  if (b.hasOut(0)) b.result(0, cast(overGroup(b, own, "Add"), type));
  if (b.hasOut(1)) b.result(1, cast(nls, type));
}

// The gradient of each member's part: g (exp(-nls) - onehot(label)).
void decomposeCrossEntropyGrad(DecomposeBuilder &b) {
  const Expression nls = cast({b, b.in(0)}, DataType::FLOAT), g = cast({b, b.in(2)}, DataType::FLOAT);
  const Shape &shape = b.inInfo(0).shape();
  const Expression column = g.apply("Reshape", {{"shape", Shape{shape[0], 1}}});
  const Expression grad = column * (exp(-nls) - cast(labelMask(b, b.in(1), shape), DataType::FLOAT));
  b.result(0, cast(grad, b.inInfo(0).dataType()));
}

OpDef crossEntropyRow(const char *type, const char *first) {
  return OpDef(kDomain, type, {1})
      .input(first, kFloats)
      .input("labels", kInts)
      .attr("group_size", int64_t{1})
      .attr("stride", int64_t{1})
      .notOnnx();
}

// ---- cross entropy over classes in parts on one replica
// The parts of the logits are joined to one tensor; labels count from its first class.

std::vector<TensorIndex> partsFrom(DecomposeBuilder &b, int first) {
  std::vector<TensorIndex> parts;
  for (int i = first; i < b.op().inputCount(); ++i) parts.push_back(b.in(i));
  return parts;
}

void addCrossEntropyOfParts(OpDefs &rows) {
  rows.push_back(OpDef(kDomain, "CrossEntropyShardedWR", {1})
                     .input("labels", kInts)
                     .input("logits", kFloats, "T", Arity::Variadic)
                     .output("loss")
                     .output("negative_log_softmax")
                     .infer([](InferContext &c) {
                       c.require(c.inputCount() > 1, "needs one part of the logits at least: got none");
                       int64_t classes = 0;
                       for (int i = 1; i < c.inputCount(); ++i) {
                         requireRows(c, i, 0);
                         classes += c.shape(i)[1];
                       }
                       c.out(0, c.type(1), c.shape(0));
                       c.out(1, c.type(1), {c.shape(0)[0], classes});
                     })
                     .decompose([](DecomposeBuilder &b) {
                       const TensorIndex whole = b.emit("Concat", partsFrom(b, 1), {{"axis", int64_t{1}}});
                       const std::vector<TensorIndex> both = b.emitMany("CrossEntropySharded", {whole, b.in(0)}, 2);
                       for (int i : {0, 1})
                         if (b.hasOut(i)) b.result(i, both[static_cast<size_t>(i)]);
                     })
                     .vjp([](VjpBuilder &b) {
                       if (!b.hasGradOut(0)) return;
                       std::vector<int64_t> classes;
                       for (int i = 1; i < b.op().inputCount(); ++i) classes.push_back(b.inInfo(i).shape()[1]);
                       const int parts = static_cast<int>(classes.size());
                       const std::vector<TensorIndex> grads =
                           b.emitMany("CrossEntropyShardedGradWR", {b.out(1), b.in(0), b.gradOut(0)}, parts,
                                      {{"classes", classes}});
                       for (int i = 0; i < parts; ++i) b.grad(i + 1, grads[static_cast<size_t>(i)]);
                     })
                     .notOnnx()
                     .doc("Cross entropy of each sample; the classes are divided among the IPUs of a replica."));
  rows.push_back(
      OpDef(kDomain, "CrossEntropyShardedGradWR", {1})
          .input("negative_log_softmax", kFloats)
          .input("labels", kInts)
          .input("grad_out", kFloats)
          .output("grads", Arity::Variadic)
          .attrRequired("classes", AttributeType::Ints)
          .infer([](InferContext &c) {
            requireRows(c, 0, 1);
            c.require(c.shape(2) == c.shape(1), "the gradient of the loss must be like the labels: got {}, expected {}",
                      c.shape(2), c.shape(1));
            const std::vector<int64_t> &classes = c.attrInts("classes");
            int64_t all = 0;
            bool legal = static_cast<int>(classes.size()) == c.outputCount();
            for (const int64_t n : classes) {
              legal &= n >= 0 && n <= c.shape(0)[1];
              all += legal ? n : 0;
            }
            c.require(legal && all == c.shape(0)[1], "`classes` must divide {} classes into {} parts: got {}",
                      c.shape(0)[1], c.outputCount(), classes);
            for (int i = 0; i < c.outputCount(); ++i)
              c.out(i, c.type(0), {c.shape(0)[0], classes[static_cast<size_t>(i)]});
          })
          .traits(Trait::Gradient)
          .decompose([](DecomposeBuilder &b) {
            const TensorIndex whole = b.emit("CrossEntropyShardedGrad", {b.in(0), b.in(1), b.in(2)});
            const std::vector<int64_t> classes = b.op().attrInts("classes");
            const std::vector<TensorIndex> parts = b.emitMany("Split", {whole}, static_cast<int>(classes.size()),
                                                              {{"axis", int64_t{1}}, {"split", classes}});
            for (size_t i = 0; i < parts.size(); ++i)
              if (b.hasOut(static_cast<int>(i))) b.result(static_cast<int>(i), parts[i]);
          })
          .noGrad("second derivatives of the cross entropy are not built")
          .notOnnx()
          .doc("Gradients of CrossEntropyShardedWR for every part of the logits."));
}

// ---- layer norm over an axis in parts
// H = columns here times members; mean and variance over H, r = 1 / sqrt(variance + epsilon), xhat = (x - mean) r
//   y = xhat w + b     dx = r (g - mean_H(g) - xhat mean_H(g xhat)) with g = dy w

Expression meanOverGroup(DecomposeBuilder &b, Expression x, int64_t columns) {
  return overGroup(b, reduceRows(x, "ReduceSum", 1), "Add") /
         static_cast<double>(columns * b.op().attrInt("group_size"));
}

Expression asColumn(DecomposeBuilder &b, int input) {
  return {b, b.emit("Reshape", {b.in(input)}, {{"shape", Shape{b.inInfo(input).nelms(), 1}}})};
}

void decomposeLayerNorm(DecomposeBuilder &b) {
  const Shape &shape = b.inInfo(0).shape();
  const Expression x = cast({b, b.in(0)}, DataType::FLOAT), w = cast({b, b.in(1)}, DataType::FLOAT),
                   bias = cast({b, b.in(2)}, DataType::FLOAT);
  const Expression mean = meanOverGroup(b, x, shape[1]), centred = x - mean;
  const Expression variance = meanOverGroup(b, centred * centred, shape[1]);
  const Expression r = 1.0 / sqrt(variance + static_cast<double>(b.op().attrFloat("epsilon")));
  const Attributes rows{{"shape", Shape{shape[0]}}};
  if (b.hasOut(0)) b.result(0, cast(centred * r * w + bias, b.inInfo(0).dataType()));
  if (b.hasOut(1)) b.result(1, mean.apply("Reshape", rows));
  if (b.hasOut(2)) b.result(2, r.apply("Reshape", rows));
}

void decomposeShardedLayerNormGrad(DecomposeBuilder &b) {
  const int64_t columns = b.inInfo(1).shape()[1];
  const DataType type = b.inInfo(1).dataType(), ofWeight = b.inInfo(2).dataType();
  const Expression dy = cast({b, b.in(0)}, DataType::FLOAT), x = cast({b, b.in(1)}, DataType::FLOAT),
                   w = cast({b, b.in(2)}, DataType::FLOAT), r = asColumn(b, 4);
  const Expression xhat = (x - asColumn(b, 3)) * r, g = dy * w;
  const Attributes overRows{{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}};
  if (b.hasOut(0)) {
    const Expression means = meanOverGroup(b, g, columns), slopes = meanOverGroup(b, g * xhat, columns);
    b.result(0, cast(r * (g - means - xhat * slopes), type));
  }
  if (b.hasOut(1)) b.result(1, cast((dy * xhat).apply("ReduceSum", overRows), ofWeight));
  if (b.hasOut(2)) b.result(2, cast(dy.apply("ReduceSum", overRows), ofWeight));
}

// Checks x (n, h) and w (h) at these inputs.
void requirePart(InferContext &c, int x, int w) {
  c.require(c.shape(x).size() == 2, "the input must have two dimensions: got shape {}", c.shape(x));
  c.require(c.shape(w) == Shape{c.shape(x)[1]},
            "scale and bias must have one value per column: got shape {}, expected {}", c.shape(w),
            Shape{c.shape(x)[1]});
  requireGroup(c);
}

OpDef layerNormRow(const char *type) {
  return OpDef(kDomain, type, {1}).attr("group_size", int64_t{1}).attr("stride", int64_t{1}).notOnnx();
}

void addParallelLayerNorm(OpDefs &rows) {
  rows.push_back(layerNormRow("LayerNormDistributed")
                     .input("x", kFloats)
                     .input("scale", kFloats, "T")
                     .input("bias", kFloats, "T")
                     .output("y")
                     .output("mean")
                     .output("inv_std")
                     .attr("epsilon", 1e-5f)
                     .cost(perElement(8))
                     .infer([](InferContext &c) {
                       for (int i : {1, 2}) requirePart(c, 0, i);
                       c.out(0, c.in(0));
                       for (int i : {1, 2}) c.out(i, DataType::FLOAT, {c.shape(0)[0]});
                     })
                     .decompose(decomposeLayerNorm)
                     .vjp([](VjpBuilder &b) {
                       if (!b.hasGradOut(0)) return;
                       const std::vector<TensorIndex> grads =
                           b.emitMany("LayerNormDistributedGrad", {b.gradOut(0), b.in(0), b.in(1), b.out(1), b.out(2)},
                                      3, groupOf(b.op()));
                       for (int i = 0; i < 3; ++i) b.grad(i, grads[static_cast<size_t>(i)]);
                     })
                     .doc("Layer norm of rows whose columns are divided among the replicas of each group."));
  rows.push_back(layerNormRow("LayerNormDistributedGrad")
                     .input("grad_out", kFloats)
                     .input("x", kFloats)
                     .input("scale", kFloats)
                     .input("mean", typeBit(DataType::FLOAT))
                     .input("inv_std", typeBit(DataType::FLOAT))
                     .output("grad_x")
                     .output("grad_scale")
                     .output("grad_bias")
                     .cost(perElement(12))
                     .infer([](InferContext &c) {
                       requirePart(c, 1, 2);
                       c.require(c.in(0) == c.in(1), "the gradient must be like the input: got {}, expected {}",
                                 c.in(0), c.in(1));
                       for (int i : {3, 4})
                         c.require(c.shape(i) == Shape{c.shape(1)[0]},
                                   "statistics must have one value per row: got shape {}, expected {}", c.shape(i),
                                   Shape{c.shape(1)[0]});
                       c.out(0, c.in(1));
                       for (int i : {1, 2}) c.out(i, c.in(2));
                     })
                     .traits(Trait::Gradient)
                     .decompose(decomposeShardedLayerNormGrad)
                     .noGrad("second derivatives of normalisations are not built")
                     .doc("Gradients of LayerNormDistributed for this replica's columns."));
}

}  // namespace

OpDefs tensorParallelOps() {
  OpDefs rows;
  addParallelLayerNorm(rows);
  addCrossEntropyOfParts(rows);
  rows.push_back(stridedRow("ReplicatedReduceScatterStrided", "ReplicatedReduceScatter")
                     .attrOptional("meta_shape", AttributeType::Ints)
                     .doc("Reduction of the flattened tensor over each group; every member gets its chunk."));
  rows.push_back(stridedRow("ReplicatedAllGatherStrided", "ReplicatedAllGather")
                     .attrOptional("shape", AttributeType::Ints)
                     .doc("Joins the flattened parts of all members of the group."));
  rows.push_back(allReduceRow("ReplicatedAllReduceTP").infer(inferAllReduce<false>));
  rows.push_back(allReduceRow("ReplicatedAllReduceStrided").infer(inferAllReduce<true>));
  rows.push_back(
      crossEntropyRow("CrossEntropySharded", "logits")
          .output("loss")
          .output("negative_log_softmax")
          .infer([](InferContext &c) {
            requireRowsOfGroup(c);
            c.out(0, c.type(0), c.shape(1));
            c.out(1, c.in(0));
          })
          .decompose(decomposeCrossEntropy)
          .vjp([](VjpBuilder &b) {
            if (!b.hasGradOut(0)) return;
            b.grad(0, b.emit("CrossEntropyShardedGrad", {b.out(1), b.in(1), b.gradOut(0)}, groupOf(b.op())));
          })
          .doc("Cross entropy of each sample; the classes are divided among the replicas of each group. Labels count "
               "from the first class of this part; other labels are classes of other replicas."));
  rows.push_back(crossEntropyRow("CrossEntropyShardedGrad", "negative_log_softmax")
                     .input("grad_out", kFloats)
                     .output("grad")
                     .infer([](InferContext &c) {
                       requireRowsOfGroup(c);
                       c.require(c.shape(2) == c.shape(1),
                                 "the gradient of the loss has another shape than the "
                                 "labels: got {}, expected {}",
                                 c.shape(2), c.shape(1));
                       c.out(0, c.in(0));
                     })
                     .traits(Trait::Gradient)
                     .decompose(decomposeCrossEntropyGrad)
                     .noGrad("second derivatives of the cross entropy are not built")
                     .doc("Gradient of CrossEntropySharded for this replica's logits."));
  return rows;
}

}  // namespace popart::ops
