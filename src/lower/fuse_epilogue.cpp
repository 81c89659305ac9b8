// Fusion around matrix products and convolutions. A transposed operand or result is read or written through strides. An
// element-wise reader is absorbed if it has the product's shape and is the only reader. If several products feed one
// reader, the last one in program order absorbs it.
#include "lower/fuse_epilogue.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <unordered_map>

#include <popart/half.hpp>

#include "ir/layer_names.hpp"
#include "lower/attention_match.hpp"
#include "lower/channels_last.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/try_replace.hpp"
#include "lower/widen.hpp"
#include "ops/loss/reduction.hpp"
#include "ops/numbers.hpp"
#include "ops/pieces.hpp"
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

// The tensor that a product reads instead of an operand: the one before its chain of transposes.
struct ProductOperand {
  TensorIndex tensor;
  std::vector<int64_t> perm;        // of all transposes together
  std::vector<OpIndex> transposes;  // and casts; innermost last
  bool swaps() const {              // whether it permutes at most the last two dimensions
    for (size_t i = 0; i + 2 < perm.size(); ++i)
      if (perm[i] != static_cast<int64_t>(i)) return false;
    return true;
  }
  bool isTransposed() const { return swaps() && perm.back() + 1 != static_cast<int64_t>(perm.size()); }
  // Whether one dimension of the matrices is contiguous.
  bool isReadable() const {
    const auto last = static_cast<int64_t>(perm.size()) - 1;
    return perm[perm.size() - 1] == last || perm[perm.size() - 2] == last;
  }
};

// The tensor that a product reads instead of its operand `index`, if valid.
struct ConstantOperand {
  int index = 0;
  TensorIndex tensor;
};

class EpilogueFuser {
 public:
  EpilogueFuser(Ir &ir, Graph &graph, const executable::Backend &backend) : ir_(ir), graph_(graph), backend_(backend) {}

  void run() {
    const auto order = schedule::orderOps(graph_);
    for (OpIndex o : order) {
      if (!graph_.alive(o)) continue;
      Op &op = graph_.op(o);
      if (op.is(Role::FusedMatMul) || op.is(Role::FusedConv))
        products_.push_back(&op);
      else if (isProduct(op))
        toFused(op);
      else if (op.is(Role::Conv))
        toFusedConv(op);
      else if (op.is(Role::ConvDataGrad) || op.is(Role::ConvWeightsGrad))
        products_.push_back(&op);
    }
    for (auto it = products_.rbegin(); it != products_.rend(); ++it) absorbReader(**it);
  }

  void absorbGates() {
    for (OpIndex o : schedule::orderOps(graph_))
      if (graph_.alive(o) && graph_.op(o).is(Role::FusedMatMul)) absorbGates(graph_.op(o));
  }

  void absorbProducers() {
    for (OpIndex o : schedule::orderOps(graph_))
      if (graph_.alive(o) && graph_.op(o).is(Role::FusedConv)) absorbProducer(graph_.op(o));
  }

  void multiplyHalves() {
    const auto order = schedule::orderOps(graph_);
    for (OpIndex o : order)
      if (graph_.alive(o)) widenAfterView(graph_.op(o));
    for (OpIndex o : order)
      if (graph_.alive(o) && isProduct(graph_.op(o)) && hasManyRows(graph_.op(o)))
        toFusedInHalves(graph_.op(o), Through::kAllInHalves) || toFusedInHalves(graph_.op(o), Through::kSwapsInHalves);
    for (OpIndex o : order)
      if (graph_.alive(o) && computesInHalves(graph_.op(o))) computeInHalves(graph_.op(o));
    for (OpIndex o : order)
      if (graph_.alive(o) && graph_.op(o).has(Trait::Loss)) roundGradient(graph_.op(o));
  }

 private:
  bool isProduct(const Op &op) const {
    return op.is(Role::MatMul) && op.outInfo(0).dataType() == DataType::FLOAT &&
           op.inInfo(0).dataType() == DataType::FLOAT && op.inRank(0) >= 2 && op.inRank(1) >= 2;
  }

  // Below these, packing the right operand takes longer than the product. Constants are already packed in FLOAT.
  bool hasManyRows(const Op &product) const {
    constexpr int64_t kFewestRows = 8, kFewestRowsOfConstant = 32;
    const Shape &out = product.outShape(0);
    const int64_t elements = product.outInfo(0).nelms();
    if (elements == 0) return false;
    const bool isConstant = graph_.tensor(product.inputs()[1]).tensorType() == TensorType::Const;
    return (product.inRank(1) == 2 ? elements / out.back() : out[out.size() - 2]) >=
           (isConstant ? kFewestRowsOfConstant : kFewestRows);
  }

  // View(Cast(x)) → Cast(View(x)), if only products read the view, transposed or not.
  void widenAfterView(Op &view) {
    if (!view.has(Trait::View) || view.outputCount() != 1 || isGraphOutput(view.outputs()[0])) return;
    Op *cast = graph_.tensor(view.inputs()[0]).getProducerUnsafe();
    if (!cast || !isWidening(*cast) || runsApart(*cast, view)) return;
    for (const Op *reader : graph_.tensor(view.outputs()[0]).consumerOps())
      if (!isTranspose(reader) && !isProduct(*reader)) return;
    std::vector<TensorIndex> inputs = view.inputs();
    inputs[0] = cast->inputs()[0];
    const TensorIndex narrow = graph_
                                   .addConnectedOp(view.def(), inputs, {graph_.freeId(view.outId(0) + "/halves")},
                                                   view.attributes(), inheritSettings(view, graph_))
                                   ->outputs()[0];
    const Op *wide = graph_.addConnectedOp(cast->def(), {narrow}, {graph_.freeId(view.outId(0) + "/cast")},
                                           cast->attributes(), inheritSettings(view, graph_));
    graph_.replaceTensor(view.outputs()[0], wide->outputs()[0]);
    graph_.eraseOpAndOutputs(view.index());
    eraseUnread({cast->index()});
  }

  // If all values of a constant, which one op reads, are values of the 16-bit type: the constant in it. Otherwise
  // invalid.
  TensorIndex narrowed(TensorIndex t, DataType type) {
    const Tensor &tensor = graph_.tensor(t);
    if (tensor.tensorType() != TensorType::Const || tensor.info.dataType() != DataType::FLOAT ||
        tensor.uses().size() != 1 || isGraphOutput(t))
      return {};
    const std::span values(static_cast<const float *>(tensor.tensorData().data()),
                           static_cast<size_t>(tensor.info.nelms()));
    std::vector<uint16_t> halves;
    for (const float value : values) {
      const bool isHalfType = type == DataType::FLOAT16;
      halves.push_back(isHalfType ? floatToHalfBits(value) : floatToBFloat16Bits(value));
      const float again = isHalfType ? halfBitsToFloat(halves.back()) : bfloat16BitsToFloat(halves.back());
      if (std::bit_cast<uint32_t>(again) != std::bit_cast<uint32_t>(value)) return {};
    }
    return graph_.addConstant(graph_.freeId(tensor.id + "/halves"),
                              TensorData(TensorInfo(type, tensor.info.shape()), halves.data()));
  }

  // The fused op takes the product's position: an update then runs right after the gradient, while its operands are in
  // the cache. It has the product's name, because the product takes most of the time, even if that is empty and the
  // reader is a gradient: gradients have names, so a product without one belongs to the forward pass.
  Op::Settings settingsOf(const Op &product, const Op &reader) const {
    Op::Settings settings = inheritSettings(product, graph_);
    const bool isForward = layerOf(reader.settings.name).phase == TrainingPhase::Forward;
    if (settings.name.empty() && isForward) settings.name = reader.settings.name;
    return settings;
  }

  // The transposes that an operand absorbs: all, or those that swap the last two dimensions; and whether it must be a
  // 16-bit tensor.
  enum class Through { kAll, kSwaps, kAllInHalves, kSwapsInHalves };
  static bool isInHalves(Through through) { return through >= Through::kAllInHalves; }
  static bool isAll(Through through) { return through == Through::kAll || through == Through::kAllInHalves; }
  bool isWidening(const Op &op) const {
    return op.has(Trait::Conversion) && isHalf(op.inInfo(0).dataType()) && op.outInfo(0).dataType() == DataType::FLOAT;
  }
  ProductOperand operandOf(const Op &product, int index, Through through) const {
    const TensorIndex t = product.inputs()[static_cast<size_t>(index)];
    ProductOperand o{t, {}, {}};
    for (int64_t d = 0; d < graph_.info(t).rank(); ++d) o.perm.push_back(d);
    Op *producer = graph_.tensor(t).getProducerUnsafe();
    for (; producer; producer = graph_.tensor(o.tensor).getProducerUnsafe()) {
      ProductOperand next = o;
      const bool widens = isInHalves(through) && isWidening(*producer) && !runsApart(*producer, product);
      if (!widens && !(isTranspose(producer) && (isAll(through) || swapsLastTwo(*producer)))) break;
      next.tensor = producer->inputs()[0];
      next.transposes.push_back(producer->index());
      if (widens) {
        o = std::move(next);
        continue;
      }
      const auto &perm = producer->attrInts("perm");
      for (int64_t &d : next.perm) d = perm[static_cast<size_t>(d)];
      if (!next.swaps() && !next.isReadable()) break;
      o = std::move(next);
    }
    return o;
  }

  // MatMul (and transposes before it) → FusedMatMul without epilogue.
  void toFused(Op &op) {
    if (!toFused(op, Through::kAll)) toFused(op, Through::kSwaps);
  }
  bool toFused(Op &op, Through through, ConstantOperand constant = {}) {
    ProductOperand operands[2] = {operandOf(op, 0, through), operandOf(op, 1, through)};
    if (constant.tensor.valid()) operands[constant.index].tensor = constant.tensor;
    for (const ProductOperand &o : operands)
      if (isInHalves(through) && (!isHalf(graph_.info(o.tensor).dataType()) ||
                                  graph_.info(o.tensor).dataType() != graph_.info(operands[0].tensor).dataType()))
        return false;
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
    if (isInHalves(through))
      roundProduct(*fused);
    else
      products_.push_back(fused);
    return true;
  }

  // Cast(FusedMatMul(a, b)) to the type of a and b → FusedMatMul(a, b; rounded), if nothing else reads the product.
  void roundProduct(Op &product) {
    const TensorIndex wide = product.outputs()[0];
    const std::vector<Op *> readers = graph_.tensor(wide).consumerOps();
    if (readers.size() != 1 || isGraphOutput(wide)) return;
    Op &cast = *readers.front();
    if (!cast.has(Trait::Conversion) || cast.outInfo(0).dataType() != product.inInfo(0).dataType() ||
        runsApart(product, cast))
      return;
    Attributes attributes = product.attributes();
    attributes.set("rounded", int64_t{1});
    if (!tryFuse({product.def(), product.inputs(), attributes, settingsOf(product, cast), cast.outputs()})) return;
    graph_.eraseOpAndOutputs(cast.index());
    graph_.eraseOpAndOutputs(product.index());
  }

  bool toFusedInHalves(Op &op, Through through) {
    for (int i = 0; i < 2; ++i) {
      const TensorIndex old = op.inputs()[static_cast<size_t>(i)];
      const DataType other = graph_.info(operandOf(op, 1 - i, through).tensor).dataType();
      const TensorIndex constant = isHalf(other) ? narrowed(old, other) : TensorIndex();
      if (!constant.valid()) continue;
      const bool fused = toFused(op, through, {i, constant});
      graph_.eraseTensor(fused ? old : constant);
      return fused;
    }
    return toFused(op, through);
  }

  // Ops that were widened although there are 16-bit kernels: convolutions, whose 16-bit kernels are those of fused ops;
  // ops that may be attention (widen.cpp); reductions that a widened op was decomposed into.
  static bool computesInHalves(const Op &op) {
    const bool isConvolution = op.is(Role::Conv) || op.is(Role::ConvDataGrad) || op.is(Role::ConvWeightsGrad);
    const bool isReduction = op.def().piecesRule() == ops::reductionPieces;
    return (isConvolution || mayBeAttention(op) || isReduction) && op.outputCount() == 1 &&
           op.outInfo(0).dataType() == DataType::FLOAT;
  }

  // The tensor that such an op reads instead of `t` to compute in the 16-bit type: the one before a cast, or a
  // constant.
  // Invalid if there is none.
  TensorIndex inHalves(const Op &op, TensorIndex t, DataType type, std::vector<OpIndex> &casts) {
    const Op *producer = graph_.tensor(t).getProducerUnsafe();
    if (!producer) return narrowed(t, type);
    if (!isWidening(*producer) || producer->inInfo(0).dataType() != type || runsApart(*producer, op)) return {};
    casts.push_back(producer->index());
    return producer->inputs()[0];
  }

  // Cast(Conv(Cast(x), Cast(w))) → FusedConv(x, w), and the same for other ops: operands and result have one type.
  void computeInHalves(Op &op) {
    const TensorIndex wide = op.outputs()[0];
    const std::vector<Op *> readers = graph_.tensor(wide).consumerOps();
    if (readers.size() != 1 || isGraphOutput(wide)) return;
    Op &cast = *readers.front();
    if (!cast.has(Trait::Conversion) || runsApart(op, cast)) return;
    const DataType type = cast.outInfo(0).dataType();
    if (!isHalf(type)) return;
    std::vector<TensorIndex> inputs, constants, replaced;
    std::vector<OpIndex> casts;
    bool fits = true;
    for (TensorIndex t : op.inputs()) {
      inputs.push_back(t.valid() && fits ? inHalves(op, t, type, casts) : TensorIndex());
      fits &= t.valid() == inputs.back().valid();
      if (inputs.back().valid() && !graph_.tensor(t).hasProducer())
        constants.push_back(inputs.back()), replaced.push_back(t);
    }
    const OpDef &def = op.is(Role::Conv) ? opDef("FusedConv") : op.def();
    const bool fused = fits && tryFuse({def, inputs, op.attributes(), settingsOf(op, cast), cast.outputs()});
    if (fused) {
      graph_.eraseOpAndOutputs(cast.index());
      graph_.eraseOpAndOutputs(op.index());
      for (OpIndex c : casts) eraseUnread({c});
    }
    for (TensorIndex t : fused ? replaced : constants) graph_.eraseTensor(t);
  }

  // Cast(gradient) of an op that returns a loss and its gradient → the op rounds it, if nothing else reads it.
  void roundGradient(Op &loss) {
    const std::vector<AttributeDef> &known = loss.def().attributes();
    const auto isType = [](const AttributeDef &a) { return a.name == ops::kGradientType; };
    if (std::ranges::none_of(known, isType) || loss.hasAttr(ops::kGradientType) || !loss.hasOutput(0) ||
        !loss.hasOutput(1))
      return;
    const TensorIndex gradient = loss.outputs()[1];
    const std::vector<Op *> readers = graph_.tensor(gradient).consumerOps();
    if (readers.size() != 1 || isGraphOutput(gradient)) return;
    Op &cast = *readers.front();
    if (!cast.has(Trait::Conversion) || !isHalf(cast.outInfo(0).dataType()) || runsApart(loss, cast)) return;
    Attributes attributes = loss.attributes();
    attributes.set(ops::kGradientType, int64_t{toOnnxDataType(cast.outInfo(0).dataType())});
    if (!tryFuse({loss.def(),
                  loss.inputs(),
                  std::move(attributes),
                  settingsOf(loss, cast),
                  {loss.outputs()[0], cast.outputs()[0]}}))
      return;
    graph_.eraseOpAndOutputs(cast.index());
    graph_.eraseOpAndOutputs(loss.index());
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

  // Transpose(A·B) → Bᵀ·Aᵀ. The gradient of a weight that is read transposed has this form. It can then be written to
  // the weight, or used for its update, in the weight's own layout.
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

  // FusedMatMul without epilogue, then a Transpose that keeps the last dimension: the product writes the transposed
  // result.
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

  // Adds the fused op; null if the backend cannot compute it.
  Op *tryFuse(Replacement replacement) {
    return tryReplace(graph_, std::move(replacement), [this](const Op &fused) {
      std::string reason;
      return isSpatial(fused) ? supportsConvolution(fused, backend_, reason) : backend_.supports(fused, reason);
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
    if (product.hasAttr("epilogue")) return;
    const bool cluster = reader.is(Role::FusedElementwise);
    if (!cluster && !(isElementwise(reader) && reader.outputCount() == 1 && isSupported(reader))) return;
    const Shape &shape = graph_.info(value).shape();
    for (TensorIndex t : reader.outputs())
      if (graph_.info(t).shape() != shape) return;
    const GraphId body = cluster ? reader.attributes().getAttribute<GraphRef>("body").id : wrap(reader);
    absorb(product, reader, ir_.getGraph(body));
  }

  // Absorbs the cluster of another shape that is the only reader of a product.
  void absorbGates(Op &product) {
    if (product.hasAttr("epilogue") || product.hasAttr("perm_out") || isGraphOutput(product.outputs()[0])) return;
    const auto readers = graph_.tensor(product.outputs()[0]).consumerOps();
    if (readers.size() != 1 || !readers.front()->is(Role::FusedElementwise)) return;
    Op &reader = *readers.front();
    const auto isOrdered = [&](const auto &pair) {
      return pair.first == product.index() || pair.second == product.index() || pair.first == reader.index() ||
             pair.second == reader.index();
    };
    if (staysApart(product, reader) || std::ranges::any_of(graph_.constraints(), isOrdered)) return;
    absorb(product, reader, *reader.getCalledGraphs().front());
  }

  // Absorbs the element-wise op or cluster whose only reader is a convolution.
  void absorbProducer(Op &conv) {
    const TensorIndex value = conv.inputs()[0];
    Op *producer = graph_.tensor(value).getProducerUnsafe();
    if (!producer || conv.hasAttr("prologue") || isGraphOutput(value) || graph_.tensor(value).uses().size() != 1 ||
        staysApart(*producer, conv) || producer->outputCount() != 1)
      return;
    const bool cluster = producer->is(Role::FusedElementwise);
    if (!cluster && !(isElementwise(*producer) && isSupported(*producer))) return;
    Graph &body = ir_.getGraph(cluster ? producer->attributes().getAttribute<GraphRef>("body").id : wrap(*producer));
    const std::vector<TensorIndex> operands = operandsOf(*producer), old = body.inputs();
    const auto isLike = [&](TensorIndex t) { return graph_.info(t) == graph_.info(value); };
    const auto x = std::ranges::find_if(operands, isLike);
    Op *fused = nullptr;
    if (x != operands.end()) {
      const auto first = static_cast<size_t>(x - operands.begin());
      std::vector<TensorIndex> bodyInputs{old[first]}, inputs = conv.inputs();
      inputs[0] = *x;
      inputs.resize(std::max<size_t>(3, inputs.size()));
      for (size_t i = 0; i < operands.size(); ++i)
        if (i != first) bodyInputs.push_back(old[i]), inputs.push_back(operands[i]);
      body.setInputs(bodyInputs);
      Attributes attributes = conv.attributes();
      attributes.set("prologue", GraphRef{body.id});
      attributes.set("prologue_operands", static_cast<int64_t>(operands.size()) - 1);
      fused = tryFuse({conv.def(), inputs, attributes, inheritSettings(conv, graph_), conv.outputs()});
    }
    if (fused) {
      graph_.eraseOpAndOutputs(conv.index());
      graph_.eraseOpAndOutputs(producer->index());
      return;
    }
    body.setInputs(old);
    if (!cluster) ir_.removeGraph(body.id);
  }

  // Cached, because a sum may read many products.
  bool isSupported(const Op &reader) {
    const auto [it, fresh] = supported_.try_emplace(reader.index(), false);
    std::string reason;
    if (fresh) it->second = backend_.supports(reader, reason);
    return it->second;
  }

  // Makes a body graph with one op.
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

  // The operands of the reader, one for each body input, in the order of the body.
  std::vector<TensorIndex> operandsOf(const Op &reader) const {
    if (reader.is(Role::FusedElementwise)) return reader.inputs();
    std::vector<TensorIndex> operands;
    for (TensorIndex t : reader.inputs())
      if (t.valid() && !ops::isNumber(graph_.tensor(t)) &&
          std::find(operands.begin(), operands.end(), t) == operands.end())
        operands.push_back(t);
    return operands;
  }

  // The row of the product's fused form.
  static const OpDef &withEpilogue(const Op &product) {
    if (product.is(Role::ConvDataGrad)) return opDef("FusedConvDataGrad");
    return product.is(Role::ConvWeightsGrad) ? opDef("FusedConvWeightsGrad") : product.def();
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
    const auto others = product.hasAttr("prologue") ? product.attrInt("prologue_operands") : int64_t{0};
    if (product.is(Role::FusedConv))  // an absent bias keeps its position
      inputs.resize(std::max<size_t>(3, inputs.size()));
    inputs.insert(inputs.end() - others, extras.begin(), extras.end());
    Attributes attributes = product.attributes();
    attributes.set("epilogue", GraphRef{body.id});
    if (!tryFuse({withEpilogue(product), inputs, attributes, settingsOf(product, reader), reader.outputs()})) {
      body.setInputs(old);  // product and reader are not fused
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

bool isBody(const Graph &graph) { return graph.id.rfind("fused/", 0) == 0; }

}  // namespace

void multiplyHalves(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs())
    if (!isBody(*graph)) EpilogueFuser(flat, *graph, backend).multiplyHalves();
}

void fusePrologues(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs())
    if (!isBody(*graph)) EpilogueFuser(flat, *graph, backend).absorbProducers();
}

void fuseGates(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs())
    if (!isBody(*graph)) EpilogueFuser(flat, *graph, backend).absorbGates();
}

void fuseEpilogues(Ir &flat, const executable::Backend &backend) {
  for (Graph *graph : flat.getAllGraphs())
    if (!isBody(*graph)) EpilogueFuser(flat, *graph, backend).run();
}

}  // namespace popart::lower
