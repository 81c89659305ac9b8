// The catalog: all operator rows, found by type or by ONNX name. Rows are stored for the life of the process; in-place
// variants are made from their base rows here. Any thread may look up rows, but not during registration (user ops).
#include "ops/catalog.hpp"

#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include <popart/error.hpp>

namespace popart {
namespace {

using Family = ops::OpDefs (*)();
constexpr Family kFamilies[] = {
    // ---- math, reduce, shape, index
    ops::unaryOps,
    ops::activationOps,
    ops::binaryOps,
    ops::comparisonOps,
    ops::variadicOps,
    ops::castOps,
    ops::float8Ops,
    ops::whereOps,
    ops::reduceOps,
    ops::orderOps,
    ops::cumulativeOps,
    ops::histogramOps,
    ops::bucketizeOps,
    ops::viewOps,
    ops::transposeOps,
    ops::joinOps,
    ops::sliceOps,
    ops::expandOps,
    ops::constantOps,
    ops::resizeOps,
    ops::gatherOps,
    ops::scatterOps,
    ops::dynamicOps,
    // ---- nn, loss, optim, random, control, io, comm
    ops::matMulOps,
    ops::softmaxOps,
    ops::convOps,
    ops::poolOps,
    ops::integerProductOps,
    ops::packedWeightOps,
    ops::roiAlignOps,
    ops::roiPoolOps,
    ops::selectionOps,
    ops::batchNormOps,
    ops::normOps,
    ops::addonsOps,
    ops::ctcOps,
    ops::nllOps,
    ops::lossOps,
    ops::copyVarUpdateOps,
    ops::sgdOps,
    ops::accumulateOps,
    ops::adamOps,
    ops::adaptiveOps,
    ops::lossScaleOps,
    ops::randomOps,
    ops::dropoutOps,
    ops::controlOps,
    ops::ioOps,
    ops::collectiveOps,
    ops::exchangeOps,
    ops::tensorParallelOps,
    // ---- made by lowering
    ops::fusedOps,
    ops::attentionOps,
    ops::floatingPointCheckOps,
};

class Catalog {
 public:
  Catalog() {
    for (Family family : kFamilies) {
      for (OpDef &row : family()) add(std::move(row));
    }
  }

  const OpDef *find(std::string_view type) const {
    std::shared_lock lock(mutex_);
    auto it = byType_.find(type);
    return it == byType_.end() ? nullptr : it->second;
  }

  const OpDef *findOnnx(std::string_view domain, std::string_view type, OpVersion version) const {
    if (domain.empty()) domain = "ai.onnx";
    std::shared_lock lock(mutex_);
    auto it = byOnnxType_.find(type);
    if (it == byOnnxType_.end()) return nullptr;
    const OpDef *best = nullptr;
    OpVersion bestSince = 0;
    for (const Named &named : it->second) {
      if (named.name->domain != domain) continue;
      for (OpVersion since : named.name->versions) {
        if (since <= version && since >= bestSince) best = named.row, bestSince = since;
      }
    }
    return best;
  }

  std::vector<const OpDef *> all() const {
    std::shared_lock lock(mutex_);
    std::vector<const OpDef *> rows;
    rows.reserve(rows_.size());
    for (const OpDef &row : rows_) rows.push_back(&row);
    return rows;
  }

  const OpDef &registerRow(OpDef def) {
    std::unique_lock lock(mutex_);
    check(!byType_.contains(def.type()), "operator '{}': the type is already registered. Choose another type name",
          def.type());
    for (const InplaceDef &variant : def.inplaces()) {
      check(!byType_.contains(variant.type),
            "operator '{}': its in-place type is already registered: got {}. Choose another name", def.type(),
            variant.type);
    }
    return add(std::move(def));
  }

 private:
  struct Named {
    const OnnxName *name;
    const OpDef *row;
  };

  const OpDef &add(OpDef def) {
    OpDef &row = rows_.emplace_back(std::move(def));
    index(row);
    for (const InplaceDef &variant : row.inplaces()) index(rows_.emplace_back(OpDef::inplaceVariant(row, variant)));
    return row;
  }

  void index(const OpDef &row) {
    if (!byType_.emplace(row.type(), &row).second)
      throw internal_error("operator '{}': two rows have this type", row.type());
    if (row.isInplaceVariant()) return;
    for (const OnnxName &name : row.onnxNames()) byOnnxType_[name.type].push_back({&name, &row});
  }

  mutable std::shared_mutex mutex_;
  std::deque<OpDef> rows_;
  std::unordered_map<std::string_view, const OpDef *> byType_;
  std::unordered_map<std::string_view, std::vector<Named>> byOnnxType_;
};

Catalog &catalog() {
  static Catalog instance;
  return instance;
}

}  // namespace

const OpDef *findOpDef(std::string_view type) { return catalog().find(type); }

const OpDef &opDef(std::string_view type) {
  if (const OpDef *row = findOpDef(type)) return *row;
  throw internal_error("operator '{}': there is no such row in the catalog", type);
}

const OpDef *findOnnxOp(std::string_view domain, std::string_view type, OpVersion version) {
  return catalog().findOnnx(domain, type, version);
}

std::vector<const OpDef *> allOpDefs() { return catalog().all(); }

const OpDef &registerOpDef(OpDef def) { return catalog().registerRow(std::move(def)); }

}  // namespace popart
