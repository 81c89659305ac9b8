// Fusion around matrix products and convolutions. A transposed operand or result is read or written through strides. An
// element-wise reader is absorbed when it has the product's shape and is the only reader; when several products feed
// one reader, the last in program order absorbs it.
#include "lower/fuse_epilogue.hpp"

#include <algorithm>
#include <unordered_map>

#include "lower/channels_last.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/try_replace.hpp"
#include "ops/numbers.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

bool swapsLastTwo(const Op &op) {
  if (!op.is(Role::Transpose)) return false;
  const auto &perm = op.attrInts("perm");
  const size_t rank = perm.size();
  if (rank < 2) return false;
  for (size_t i = 0; i + 2 < rank; ++i)
    if (perm[i] != static_cast<int64_t>(i)) return false;
  return perm[rank - 2] == static_cast<int64_t>(rank - 1) && perm[rank - 1] == static_cast<int64_t>(rank - 2);
}

// A Transpose whose permutation is known, of a matrix or stack of matrices.
bool isTranspose(const Op *op) {
  return op && op->is(Role::Transpose) && op->hasAttr("perm") && op->attrInts("perm").size() >= 2;
}

// What a product reads instead of one operand: the tensor before its chain of transposes.
struct ProductOperand {
  TensorIndex tensor;
  std::vector<int64_t> perm;        // of all transposes together
  std::vector<OpIndex> transposes;  // innermost last
  bool swaps() const {              // whether it permutes at most the last two dimensions
    for (size_t i = 0; i + 2 < perm.size(); ++i)
      if (perm[i] != static_cast<int64_t>(i)) return false;
    return true;
  }
  bool isTransposed() const { return swaps() && perm.back() + 1 != static_cast<int64_t>(perm.size()); }
  // One dimension of the matrices is contiguous.
  bool isReadable() const {
    const auto last = static_cast<int64_t>(perm.size()) - 1;
    return perm[perm.size() - 1] == last || perm[perm.size() - 2] == last;
  }
};

class EpilogueFuser {
 public:
  EpilogueFuser(Ir &ir, Graph &graph, const executable::Backend &backend) : ir_(ir), graph_(graph), backend_(backend) {}

  void run() {
    const auto order = schedule::orderOps(graph_);
    for (OpIndex o : order) {
      if (!graph_.alive(o)) continue;
      Op &op = graph_.op(o);
      if (isProduct(op))
        toFused(op);
      else if (op.is(Role::Conv))
        toFusedConv(op);
      else if (op.is(Role::ConvWeightsGrad))
        products_.push_back(&op);
    }
    for (auto it = products_.rbegin(); it != products_.rend(); ++it) absorbReader(**it);
  }

 private:
  bool isProduct(const Op &op) const {
    return op.is(Role::MatMul) && op.outInfo(0).dataType() == DataType::FLOAT &&
           op.inInfo(0).dataType() == DataType::FLOAT && op.inRank(0) >= 2 && op.inRank(1) >= 2;
  }

  // The fused op takes the product's position: an update then runs right after the gradient, while its operands are
  // in cache.
  Op::Settings settingsOf(const Op &product, const Op &reader) const {
    Op::Settings settings = inheritSettings(product, graph_);
    settings.name = reader.settings.name;
    return settings;
  }

  // Which transposes an operand absorbs: all, or those that swap the last two dimensions.
  enum class Through { kAll, kSwaps };
  ProductOperand operandOf(TensorIndex t, Through through) const {
    ProductOperand o{t, {}, {}};
    for (int64_t d = 0; d < graph_.info(t).rank(); ++d) o.perm.push_back(d);
    Op *producer = graph_.tensor(t).getProducerUnsafe();
    while (isTranspose(producer) && (through == Through::kAll || swapsLastTwo(*producer))) {
      ProductOperand next = o;
      const auto &perm = producer->attrInts("perm");
      for (int64_t &d : next.perm) d = perm[static_cast<size_t>(d)];
      if (!next.swaps() && !next.isReadable()) break;
      next.tensor = producer->inputs()[0];
      next.transposes.push_back(producer->index());
      o = std::move(next);
      producer = graph_.tensor(o.tensor).getProducerUnsafe();
    }
    return o;
  }

  // MatMul (and transposes in front of it) → FusedMatMul without epilogue.
  void toFused(Op &op) {
    if (!toFused(op, Through::kAll)) toFused(op, Through::kSwaps);
  }
  bool toFused(Op &op, Through through) {
    const ProductOperand operands[2] = {operandOf(op.inputs()[0], through), operandOf(op.inputs()[1], through)};
    Attributes attributes;
    const char *const names[2][2] = {{"trans_a", "perm_a"}, {"trans_b", "perm_b"}};
    for (int i = 0; i < 2; ++i) {
      attributes.set(names[i][0], int64_t{operands[i].isTransposed()});
      if (!operands[i].swaps()) attributes.set(names[i][1], operands[i].perm);
    }
    Op *fused = tryFuse({opDef("FusedMatMul"),
                         {operands[0].tensor, operands[1].tensor},
                         attributes,
                         inheritSettings(op, graph_),
                         op.outputs()});
    if (!fused) return false;
    graph_.eraseOpAndOutputs(op.index());
    for (const ProductOperand &o : operands) eraseUnread(o.transposes);
    products_.push_back(fused);
    return true;
  }

  // Erases each transpose without another reader; innermost last.
  void eraseUnread(const std::vector<OpIndex> &transposes) {
    for (OpIndex t : transposes) {
      if (!graph_.alive(t)) continue;
      const TensorIndex out = graph_.op(t).outputs()[0];
      if (!graph_.tensor(out).uses().empty() || isGraphOutput(out)) break;
      graph_.eraseOpAndOutputs(t);
    }
  }

  static bool isPlainMatrixProduct(const Op &product) {
    return product.is(Role::FusedMatMul) && !product.hasAttr("perm_a") && !product.hasAttr("perm_b") &&
           !product.hasAttr("perm_out") && !product.hasAttr("epilogue") && product.inRank(0) == 2 &&
           product.inRank(1) == 2;
  }

  // Transpose(A·B) → Bᵀ·Aᵀ. The gradient of a weight that is read transposed takes this form, and can then be written,
  // or applied to the weight, in the weight's own layout.
  void swapOperands(Op &product, Op &transpose) {
    Attributes attributes = product.attributes();
    attributes.set("trans_a", int64_t{product.attrInt("trans_b") == 0});
    attributes.set("trans_b", int64_t{product.attrInt("trans_a") == 0});
    Op *fused = tryReplace(graph_,
                           {product.def(),
                            {product.inputs()[1], product.inputs()[0]},
                            attributes,
                            settingsOf(product, transpose),
                            transpose.outputs()},
                           [](const Op &) { return true; });
    graph_.eraseOpAndOutputs(transpose.index());
    graph_.eraseOpAndOutputs(product.index());
    absorbReader(*fused);
  }

  // FusedMatMul without epilogue → Transpose that keeps the last dimension: the product writes the transposed result.
  void absorbTranspose(Op &product, Op &transpose) {
    const auto perm = transpose.attrInts("perm");
    if (isPlainMatrixProduct(product) && swapsLastTwo(transpose)) return swapOperands(product, transpose);
    if (!product.is(Role::FusedMatMul) || product.hasAttr("perm_out") || perm.size() < 3 ||
        perm.back() + 1 != static_cast<int64_t>(perm.size()))
      return;
    Attributes attributes = product.attributes();
    attributes.set("perm_out", perm);
    if (!tryFuse({product.def(), product.inputs(), attributes, settingsOf(product, transpose), transpose.outputs()}))
      return;
    graph_.eraseOpAndOutputs(transpose.index());
    graph_.eraseOpAndOutputs(product.index());
  }

  // Conv → FusedConv without epilogue; its inputs are (x, w, bias or none).
  void toFusedConv(Op &op) {
    Op *fused = tryFuse({opDef("FusedConv"), op.inputs(), op.attributes(), inheritSettings(op, graph_), op.outputs()});
    if (!fused) return;
    graph_.eraseOpAndOutputs(op.index());
    products_.push_back(fused);
  }

  // The fused op, if the backend can compute it.
  Op *tryFuse(Replacement replacement) {
    return tryReplace(graph_, std::move(replacement), [this](const Op &fused) {
      std::string reason;
      return fused.is(Role::FusedMatMul) ? backend_.supports(fused, reason)
                                         : supportsConvolution(fused, backend_, reason);
    });
  }

  bool isGraphOutput(TensorIndex t) const {
    return std::find(graph_.outputs().begin(), graph_.outputs().end(), t) != graph_.outputs().end();
  }

  void absorbReader(Op &product) {
    const TensorIndex value = product.outputs()[0];
    const auto readers = graph_.tensor(value).consumerOps();
    if (readers.size() != 1 || isGraphOutput(value)) return;
    Op &reader = *readers.front();
    if (staysApart(product, reader)) return;
    if (isTranspose(&reader)) return absorbTranspose(product, reader);
    const bool cluster = reader.is(Role::FusedElementwise);
    if (!cluster && !(isElementwise(reader) && reader.outputCount() == 1 && isSupported(reader))) return;
    const Shape &shape = graph_.info(value).shape();
    for (TensorIndex t : reader.outputs())
      if (graph_.info(t).shape() != shape) return;
    const GraphId body = cluster ? reader.attributes().getAttribute<GraphRef>("body").id : wrap(reader);
    absorb(product, reader, ir_.getGraph(body));
  }

  // Cached, because a sum may read many products.
  bool isSupported(const Op &reader) {
    const auto [it, fresh] = supported_.try_emplace(reader.index(), false);
    std::string reason;
    if (fresh) it->second = backend_.supports(reader, reason);
    return it->second;
  }

  // A body graph that holds one op.
  GraphId wrap(const Op &op) {
    GraphId id;
    do id = "fused/" + std::to_string(ir_.getAndIncrSubgraphCounter());
    while (ir_.hasGraph(id));
    Graph &body = ir_.createGraph(id);
    std::vector<TensorIndex> inputs;
    std::map<TensorIndex, TensorIndex> inner;
    for (TensorIndex t : op.inputs()) {
      if (!t.valid()) {
        inputs.push_back({});
        continue;
      }
      auto [it, fresh] = inner.try_emplace(t);
      if (fresh && ops::isNumber(graph_.tensor(t)))
        it->second = body.addConstant(body.addScope(graph_.tensor(t).id), graph_.tensor(t).tensorData());
      else if (fresh)
        it->second = body.addInput(body.addScope(graph_.tensor(t).id), graph_.info(t));
      inputs.push_back(it->second);
    }
    body.markOutput(body.addConnectedOp(op.def(), inputs, {body.addScope(op.outTensor(0)->id)}, op.attributes(),
                                        copySettings(op, body))
                        ->outputs()[0]);
    return id;
  }

  // The operands of the reader, one per body input, in body order.
  std::vector<TensorIndex> operandsOf(const Op &reader) const {
    if (reader.is(Role::FusedElementwise)) return reader.inputs();
    std::vector<TensorIndex> operands;
    for (TensorIndex t : reader.inputs())
      if (t.valid() && !ops::isNumber(graph_.tensor(t)) &&
          std::find(operands.begin(), operands.end(), t) == operands.end())
        operands.push_back(t);
    return operands;
  }

  void absorb(Op &product, Op &reader, Graph &body) {
    const TensorIndex value = product.outputs()[0];
    const std::vector<TensorIndex> operands = operandsOf(reader);
    // The product becomes the first body input.
    std::vector<TensorIndex> bodyInputs, extras;
    const std::vector<TensorIndex> old = body.inputs();
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands[i] == value) bodyInputs.push_back(old[i]);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == value) continue;
      bodyInputs.push_back(old[i]);
      extras.push_back(operands[i]);
    }
    body.setInputs(bodyInputs);
    std::vector<TensorIndex> inputs = product.inputs();
    if (product.is(Role::FusedConv)) inputs.resize(3);  // an absent bias keeps its place
    inputs.insert(inputs.end(), extras.begin(), extras.end());
    Attributes attributes = product.attributes();
    attributes.set("epilogue", GraphRef{body.id});
    const OpDef &def = product.is(Role::ConvWeightsGrad) ? opDef("FusedConvWeightsGrad") : product.def();
    if (!tryFuse({def, inputs, attributes, settingsOf(product, reader), reader.outputs()})) {
      body.setInputs(old);  // product and reader stay two ops
      if (!reader.is(Role::FusedElementwise)) ir_.removeGraph(body.id);
      return;
    }
    graph_.eraseOpAndOutputs(reader.index());
    graph_.eraseOpAndOutputs(product.index());
  }

  Ir &ir_;
  Graph &graph_;
  const executable::Backend &backend_;
  std::vector<Op *> products_;
  std::unordered_map<OpIndex, bool> supported_;  // readers
};

}  // namespace

void fuseEpilogues(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs())
    if (graph->id.rfind("fused/", 0) != 0) EpilogueFuser(flat, *graph, backend).run();
}

}  // namespace popart::lower
