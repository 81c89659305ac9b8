// Fusion around matrix products and convolutions. Transposes become strides of the product beside them. An element-wise
// reader is absorbed when it has the product's shape and is its only reader; of several products under one reader, the
// last in program order takes it.
#include "lower/fuse_epilogue.hpp"

#include <algorithm>
#include <unordered_map>

#include "lower/channels_last.hpp"
#include "lower/fuse_elementwise.hpp"
#include "schedule/schedule.hpp"

namespace popart::lower {
namespace {

bool swapsLastTwo(const Op &op) {
  if (!op.is("Transpose")) return false;
  const auto &perm = op.attrInts("perm");
  const size_t rank = perm.size();
  if (rank < 2) return false;
  for (size_t i = 0; i + 2 < rank; ++i)
    if (perm[i] != static_cast<int64_t>(i)) return false;
  return perm[rank - 2] == static_cast<int64_t>(rank - 1) && perm[rank - 1] == static_cast<int64_t>(rank - 2);
}

// A Transpose whose permutation is known, of a matrix or stack of matrices.
bool isTranspose(const Op *op) {
  return op && op->is("Transpose") && !op->isUserOp() && op->hasAttr("perm") && op->attrInts("perm").size() >= 2;
}

// What a product reads in place of one operand: the tensor before the transposes in front of it.
struct ProductOperand {
  TensorIndex tensor;
  std::vector<int64_t> perm;        // of all transposes together
  std::vector<OpIndex> transposes;  // innermost last
  bool swaps() const {              // the last two dimensions at most
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
      else if (op.is("Conv") && !op.isUserOp())
        toFusedConv(op);
      else if (op.is("ConvWeightsGrad") && !op.isUserOp())
        products_.push_back(&op);
    }
    for (auto it = products_.rbegin(); it != products_.rend(); ++it) absorbReader(**it);
  }

 private:
  bool isProduct(const Op &op) const {
    return op.is("MatMul") && !op.isUserOp() && op.outInfo(0).dataType() == DataType::FLOAT &&
           op.inInfo(0).dataType() == DataType::FLOAT && op.inRank(0) >= 2 && op.inRank(1) >= 2;
  }

  static Op::Settings settingsLike(const Op &op) {
    Op::Settings settings = op.settings;
    if (settings.sequence < 0) settings.sequence = op.index().value;
    return settings;
  }

  // The fused op stands where the product stood: an update then runs right after the gradient, while its operands are
  // hot.
  static Op::Settings settingsOf(const Op &product, const Op &reader) {
    Op::Settings settings = settingsLike(product);
    settings.name = reader.settings.name;
    return settings;
  }

  // Through which transposes an operand is read: all, or those that swap the last two dimensions.
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
    const TensorIndex old = op.outputs()[0];
    const TensorId id = graph_.tensor(old).id;
    graph_.renameTensor(old, graph_.freeId(id + "/unfused"));
    Op *fused = graph_.addConnectedOp(opDef("FusedMatMul"), {operands[0].tensor, operands[1].tensor}, {id}, attributes,
                                      settingsLike(op));
    std::string reason;
    if (!backend_.supports(*fused, reason)) {
      const TensorIndex out = fused->outputs()[0];
      graph_.eraseOp(fused->index());
      graph_.eraseTensor(out);
      graph_.renameTensor(old, id);
      return false;
    }
    replace(op, old, fused->outputs()[0]);
    for (const ProductOperand &o : operands) eraseUnread(o.transposes);
    products_.push_back(fused);
    return true;
  }

  // Each transpose goes when nobody else reads it; innermost last.
  void eraseUnread(const std::vector<OpIndex> &transposes) {
    for (OpIndex t : transposes) {
      if (!graph_.alive(t)) continue;
      const TensorIndex out = graph_.op(t).outputs()[0];
      if (!graph_.tensor(out).uses().empty() || isGraphOutput(out)) break;
      graph_.eraseOp(t);
      graph_.eraseTensor(out);
    }
  }

  static bool isPlainMatrixProduct(const Op &product) {
    return product.is("FusedMatMul") && !product.hasAttr("perm_a") && !product.hasAttr("perm_b") &&
           !product.hasAttr("perm_out") && !product.hasAttr("epilogue") && product.inRank(0) == 2 &&
           product.inRank(1) == 2;
  }

  // Transpose(A·B) → Bᵀ·Aᵀ. The gradient of a weight that is read transposed takes this form, and can then be written,
  // or applied to the weight, in the weight's own layout.
  void swapOperands(Op &product, Op &transpose) {
    Attributes attributes = product.attributes();
    attributes.set("trans_a", int64_t{product.attrInt("trans_b") == 0});
    attributes.set("trans_b", int64_t{product.attrInt("trans_a") == 0});
    const TensorIndex value = product.outputs()[0], old = transpose.outputs()[0];
    const TensorId id = graph_.tensor(old).id;
    graph_.renameTensor(old, graph_.freeId(id + "/unfused"));
    Op *fused = graph_.addConnectedOp(opDef("FusedMatMul"), {product.inputs()[1], product.inputs()[0]}, {id},
                                      attributes, settingsOf(product, transpose));
    replace(transpose, old, fused->outputs()[0]);
    graph_.eraseOp(product.index());
    graph_.eraseTensor(value);
    absorbReader(*fused);
  }

  // FusedMatMul without epilogue → Transpose that keeps the last dimension: the product writes the transposed result.
  void absorbTranspose(Op &product, Op &transpose) {
    const auto perm = transpose.attrInts("perm");
    if (isPlainMatrixProduct(product) && swapsLastTwo(transpose)) return swapOperands(product, transpose);
    if (!product.is("FusedMatMul") || product.hasAttr("perm_out") || perm.size() < 3 ||
        perm.back() + 1 != static_cast<int64_t>(perm.size()))
      return;
    Attributes attributes = product.attributes();
    attributes.set("perm_out", perm);
    const TensorIndex value = product.outputs()[0], old = transpose.outputs()[0];
    const TensorId id = graph_.tensor(old).id;
    graph_.renameTensor(old, graph_.freeId(id + "/unfused"));
    Op *fused =
        graph_.addConnectedOp(opDef("FusedMatMul"), product.inputs(), {id}, attributes, settingsOf(product, transpose));
    std::string reason;
    if (!backend_.supports(*fused, reason)) {
      const TensorIndex out = fused->outputs()[0];
      graph_.eraseOp(fused->index());
      graph_.eraseTensor(out);
      return graph_.renameTensor(old, id);
    }
    replace(transpose, old, fused->outputs()[0]);
    graph_.eraseOp(product.index());
    graph_.eraseTensor(value);
  }

  // Conv → FusedConv without epilogue; its inputs are (x, w, bias or none).
  void toFusedConv(Op &op) {
    const std::vector<TensorIndex> inputs = op.inputs();
    const TensorIndex old = op.outputs()[0];
    const TensorId id = graph_.tensor(old).id;
    graph_.renameTensor(old, graph_.freeId(id + "/unfused"));
    Op *fused = graph_.addConnectedOp(opDef("FusedConv"), inputs, {id}, op.attributes(), settingsLike(op));
    std::string reason;
    if (!accepts(*fused, reason)) {
      const TensorIndex out = fused->outputs()[0];
      graph_.eraseOp(fused->index());
      graph_.eraseTensor(out);
      return graph_.renameTensor(old, id);
    }
    replace(op, old, fused->outputs()[0]);
    products_.push_back(fused);
  }

  bool accepts(const Op &fused, std::string &reason) const {
    return fused.is("FusedMatMul") ? backend_.supports(fused, reason) : supportsConvolution(fused, backend_, reason);
  }

  void replace(Op &op, TensorIndex old, TensorIndex fresh) {
    graph_.replaceUses(old, fresh);
    graph_.replaceOutputs(old, fresh);
    graph_.eraseOp(op.index());
    graph_.eraseTensor(old);
  }

  bool isGraphOutput(TensorIndex t) const {
    return std::find(graph_.outputs().begin(), graph_.outputs().end(), t) != graph_.outputs().end();
  }

  void absorbReader(Op &product) {
    const TensorIndex value = product.outputs()[0];
    const auto readers = graph_.tensor(value).consumerOps();
    if (readers.size() != 1 || isGraphOutput(value)) return;
    Op &reader = *readers.front();
    if (isTranspose(&reader)) return absorbTranspose(product, reader);
    const bool cluster = reader.is("FusedElementwise");
    if (!cluster && !(isElementwise(reader) && reader.outputCount() == 1 && isSupported(reader))) return;
    const Shape &shape = graph_.info(value).shape();
    for (TensorIndex t : reader.outputs())
      if (graph_.info(t).shape() != shape) return;
    const GraphId body = cluster ? reader.attributes().getAttribute<GraphRef>("body").id : wrap(reader);
    absorb(product, reader, ir_.getGraph(body));
  }

  // A sum may read many products: it is asked about once.
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
      if (fresh && isNumber(graph_.tensor(t)))
        it->second = body.addConstant(body.addScope(graph_.tensor(t).id), graph_.tensor(t).tensorData());
      else if (fresh)
        it->second = body.addInput(body.addScope(graph_.tensor(t).id), graph_.info(t));
      inputs.push_back(it->second);
    }
    Op::Settings settings = op.settings;
    settings.sequence = -1;
    body.markOutput(
        body.addConnectedOp(op.def(), inputs, {body.addScope(op.outTensor(0)->id)}, op.attributes(), settings)
            ->outputs()[0]);
    return id;
  }

  // The operands of the reader, one per body input, in body order.
  std::vector<TensorIndex> operandsOf(const Op &reader) const {
    if (reader.is("FusedElementwise")) return reader.inputs();
    std::vector<TensorIndex> operands;
    for (TensorIndex t : reader.inputs())
      if (t.valid() && !isNumber(graph_.tensor(t)) && std::find(operands.begin(), operands.end(), t) == operands.end())
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
    if (product.is("FusedConv")) inputs.resize(3);  // an absent bias keeps its place
    inputs.insert(inputs.end(), extras.begin(), extras.end());
    Attributes attributes = product.attributes();
    attributes.set("epilogue", GraphRef{body.id});
    std::vector<TensorIndex> results = reader.outputs();
    std::vector<TensorId> ids;
    for (TensorIndex t : results) {
      ids.push_back(graph_.tensor(t).id);
      graph_.renameTensor(t, graph_.freeId(ids.back() + "/unfused"));
    }
    Op *fused = graph_.addConnectedOp(opDef(product.is("ConvWeightsGrad") ? "FusedConvWeightsGrad" : product.opType()),
                                      inputs, ids, attributes, settingsOf(product, reader));
    std::string reason;
    if (!accepts(*fused, reason)) return undo(*fused, results, ids, body, old, reader);
    for (size_t i = 0; i < results.size(); ++i) {
      graph_.replaceUses(results[i], fused->outputs()[i]);
      graph_.replaceOutputs(results[i], fused->outputs()[i]);
    }
    graph_.eraseOp(reader.index());
    for (TensorIndex t : results) graph_.eraseTensor(t);
    graph_.eraseOp(product.index());
    graph_.eraseTensor(value);
  }

  // The backend cannot compute this epilogue: product and reader stay two ops.
  void undo(Op &fused, const std::vector<TensorIndex> &results, const std::vector<TensorId> &ids, Graph &body,
            const std::vector<TensorIndex> &bodyInputs, const Op &reader) {
    const std::vector<TensorIndex> outputs = fused.outputs();
    graph_.eraseOp(fused.index());
    for (TensorIndex t : outputs) graph_.eraseTensor(t);
    for (size_t i = 0; i < results.size(); ++i) graph_.renameTensor(results[i], ids[i]);
    body.setInputs(bodyInputs);
    if (!reader.is("FusedElementwise")) ir_.removeGraph(body.id);
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
