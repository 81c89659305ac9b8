// Rows of attention without the score matrix, made by fusion (src/lower/fuse_attention.cpp).
//
//   product = scale · (q @ k)              q: (batch…, m, d), k: (batch…, d, n), v: (batch…, n, e)
//   y       = softmax(scores(product, extras…)) @ v
//   dP = dy @ vᵀ;  dA = p (dP - rowsum(dy y));  dS = gradient(product, dA, extras…)
//   dq = dq_scale · dS @ kᵀ;  dk = dk_scale · qᵀ @ dS;  dv = pᵀ @ dy
//
// The rows of all batches are the rows of the scores, whatever their leading dimensions: query heads that share a head
// of keys are rows of one product, and `scores` handles them by head.
#include <algorithm>

#include <popart/graph.hpp>

#include "base/half_types.hpp"
#include "ops/catalog.hpp"
#include "ops/fused/operand_view.hpp"
#include "ops/fused/permutation.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

// Scores, their maximum and their sums have the type FLOAT if operands and results have 16 bits.
DataType scoreType(InferContext &c) {
  const DataType type = c.type(0);
  return isHalf(type) ? DataType::FLOAT : type;
}

// The operands in the arrangement of the products.
struct AttentionProducts {
  Shape batch;
  int64_t queries = 0, keys = 0, size = 0, valueSize = 0;

  explicit AttentionProducts(InferContext &c) {
    const Shape q = arranged(c, 0, "perm_q", "view_q"), k = arranged(c, 1, "perm_k", "view_k"),
                v = arranged(c, 2, "perm_v", "view_v");
    c.require(q.size() >= 2 && k.size() >= 2 && v.size() >= 2, "operands need rank >= 2: got {}, {} and {}", q, k, v);
    queries = q[q.size() - 2], size = q.back(), keys = k.back(), valueSize = v.back();
    c.require(k[k.size() - 2] == size && v[v.size() - 2] == keys, "inner dimensions differ: got {}, {} and {}", q, k,
              v);
    batch = npOut(Shape(q.begin(), q.end() - 2), Shape(k.begin(), k.end() - 2), c.op().debugName());
    c.require(npOut(batch, Shape(v.begin(), v.end() - 2), c.op().debugName()) == batch,
              "the values have dimensions that the scores have not: got {} for batch {}", v, batch);
  }
  Shape stacked(std::initializer_list<int64_t> last) const {
    Shape shape = batch;
    shape.insert(shape.end(), last);
    return shape;
  }
};

// Checks a graph of element-wise ops on scores: its inputs are `given` matrices of scores and then the operands from
// `first` on.
void checkSteps(InferContext &c, const AttentionProducts &p, const char *attribute, size_t given, int first) {
  if (!c.hasAttr(attribute)) return;
  const Graph &body = c.graph(attribute);
  c.require(body.outputs().size() == 1, "{} gives {} results, expected 1", attribute, body.outputs().size());
  const TensorInfo &scores = body.info(body.outputs()[0]);
  const int64_t rows = elementCount(p.batch) * p.queries;
  c.require(scores.dataType() == scoreType(c) && scores.rank() >= 1 && scores.shape().back() == p.keys &&
                scores.nelms() == rows * p.keys,
            "{} gives {}, expected {} rows of {} scores", attribute, scores, rows, p.keys);
  std::vector<TensorInfo> operands(given, TensorInfo(scoreType(c), scores.shape()));
  for (int i = first; i < c.inputCount(); ++i) operands.push_back(c.in(i));
  c.require(body.inputs().size() == operands.size(), "{} takes {} inputs, expected {}", attribute, body.inputs().size(),
            operands.size());
  for (size_t i = 0; i < operands.size(); ++i)
    c.require(body.info(body.inputs()[i]) == operands[i], "input {} of {} is {}, expected {}", i, attribute,
              body.info(body.inputs()[i]), operands[i]);
}

void inferAttention(InferContext &c) {
  const AttentionProducts p(c);
  checkSteps(c, p, "scores", 1, 3);
  c.require(c.hasAttr("scores") || c.inputCount() == 3, "operands without a graph that reads them: got {} inputs",
            c.inputCount());
  c.out(0, c.type(0), permuted(c, "perm_y", p.stacked({p.queries, p.valueSize})));
  for (int o : {1, 2}) c.out(o, scoreType(c), p.stacked({p.queries}));
}

void inferAttentionGrad(InferContext &c) {
  constexpr int kY = 3, kLargest = 4, kTotal = 5, kGradient = 6, kExtras = 7;
  const AttentionProducts p(c);
  checkSteps(c, p, "scores", 1, kExtras);
  checkSteps(c, p, "gradient", 2, kExtras);
  const Shape y = p.stacked({p.queries, p.valueSize});
  c.require(permuted(c, "perm_out", c.shape(kY)) == y && permuted(c, "perm_g", c.shape(kGradient)) == y,
            "the result or its gradient does not fit the operands: got {} and {}, expected {}", c.in(kY),
            c.in(kGradient), y);
  const TensorInfo ofRows(scoreType(c), p.stacked({p.queries}));
  for (int i : {kLargest, kTotal})
    c.require(c.in(i) == ofRows, "the largest scores and sums of rows are {}, expected {}", c.in(i), ofRows);
  const Shape shapes[] = {p.stacked({p.queries, p.size}), p.stacked({p.size, p.keys}),
                          p.stacked({p.keys, p.valueSize})};
  const char *const perms[] = {"perm_dq", "perm_dk", "perm_dv"}, *const views[] = {"view_dq", "view_dk", "view_dv"};
  int64_t elements = 0;  // of the results that are parts of `joint`
  const Shape joint = c.hasAttr("joint") ? Shape(c.attrInts("joint")) : Shape{0};
  c.require(std::ranges::all_of(joint, [](int64_t size) { return size >= 0; }), "joint is no shape: got {}", joint);
  for (int o = 0; o < 3; ++o) {
    if (!c.hasAttr(views[o])) {
      c.out(o, c.type(0), permuted(c, perms[o], shapes[o]));
      continue;
    }
    const Shape shape = viewInside(c, views[o], elementCount(joint));
    c.require(shape == shapes[o], "{} has the sizes {}, expected {}", views[o], shape, shapes[o]);
    elements += elementCount(shape);
  }
  c.require(elements == elementCount(joint), "the parts of {} have {} elements", joint, elements);
  if (elements > 0) c.out(3, c.type(0), joint);
}

// An input in the arrangement of the products.
Shape shapeInProduct(const Op &op, int input, const char *perm, const char *view) {
  if (op.hasAttr(view)) return viewOf(op, view).sizes;
  const OperandView whole = wholeOf(op.inShape(input));
  return op.hasAttr(perm) ? permuted(whole, op.attrInts(perm)).sizes : whole.sizes;
}

// Cost per score: multiply-adds for each element of a key and of a value, and other operations.
CostFn perScore(double ofKeys, double ofValues, double others) {
  return [=](const Op &op, Cost &c) {
    const Shape q = shapeInProduct(op, 0, "perm_q", "view_q"), k = shapeInProduct(op, 1, "perm_k", "view_k"),
                v = shapeInProduct(op, 2, "perm_v", "view_v");
    const double rows = static_cast<double>(elementCount(Shape(q.begin(), q.end() - 1))),
                 size = static_cast<double>(q.back());
    c.flops = rows * static_cast<double>(k.back()) *
              (2 * ofKeys * size + 2 * ofValues * static_cast<double>(v.back()) + others);
  };
}

OpDef attentionRow(const char *type) {
  OpDef row("popart", type, {1});
  row.input("q", kFloats, "T").input("k", kFloats, "T").input("v", kFloats, "T");
  for (const char *perm : {"perm_q", "perm_k", "perm_v"}) row.attrOptional(perm, AttributeType::Ints);
  for (const char *view : {"view_q", "view_k", "view_v"}) row.attrOptional(view, AttributeType::Ints);
  row.attr("scale", 1.0f).attrOptional("scores", AttributeType::Graph);
  return row.notOnnx().noGrad("it is made after differentiation");
}

}  // namespace

OpDefs attentionOps() {
  OpDefs rows;
  rows.push_back(
      attentionRow("FusedAttention")
          .input("extras", kAllTypes, "", Arity::Variadic)
          .output("y")
          .output("largest", Arity::Optional)
          .output("total", Arity::Optional)
          .attrOptional("perm_y", AttributeType::Ints)
          .traits(Trait::Internal)
          .infer(inferAttention)
          .cost(perScore(1, 1, 8))
          .doc("softmax(scores(scale · (q @ k), extras…)) @ v along the last axis; for each row also the largest "
               "score and the sum of exp(score - largest). Dimensions of operands and result may be permuted as by "
               "Transpose. q, k and v may be parts of a tensor: `view_q` is [offset, sizes…, strides…] of q in it."));
  rows.push_back(attentionRow("FusedAttentionGrad")
                     .input("y", kFloats, "T")
                     .input("largest", kFloats)
                     .input("total", kFloats)
                     .input("grad_out", kFloats, "T")
                     .input("extras", kAllTypes, "", Arity::Variadic)
                     .output("dq", Arity::Optional)
                     .output("dk", Arity::Optional)
                     .output("dv", Arity::Optional)
                     .output("joint", Arity::Optional)
                     .attrOptional("perm_out", AttributeType::Ints)
                     .attrOptional("perm_g", AttributeType::Ints)
                     .attrOptional("perm_dq", AttributeType::Ints)
                     .attrOptional("perm_dk", AttributeType::Ints)
                     .attrOptional("perm_dv", AttributeType::Ints)
                     .attrOptional("joint", AttributeType::Ints)
                     .attrOptional("view_dq", AttributeType::Ints)
                     .attrOptional("view_dk", AttributeType::Ints)
                     .attrOptional("view_dv", AttributeType::Ints)
                     .attr("dq_scale", 1.0f)
                     .attr("dk_scale", 1.0f)
                     .attrOptional("gradient", AttributeType::Graph)
                     .traits(Trait::Internal)
                     .infer(inferAttentionGrad)
                     .cost(perScore(3, 2, 12))
                     .doc("Gradients of FusedAttention. Probabilities are recomputed from q, k, largest and total. "
                          "The graph `gradient` computes the gradient of the products from the products and the "
                          "gradient of the scores. `joint` is the shape of a tensor of those results that have a "
                          "view: their places in it."));
  return rows;
}

}  // namespace popart::ops
