// See merge_exchanges.hpp. One walk over the schedule; a transfer that does not fit the current exchange starts the
// next.
#include "transforms/merge_exchanges.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include <popart/ir.hpp>

#include "ir/print_hints.hpp"

namespace popart::transforms {
namespace {

class Merger {
 public:
  explicit Merger(Graph &graph) : graph_(graph), order_(graph.getOpSchedule()), place_(graph.opSlots(), -1) {
    for (size_t i = 0; i < order_.size(); ++i) place_[order_[i]->index().value] = static_cast<int>(i);
  }

  void run() {
    for (Op *op : order_) {
      const std::optional<Partner> partner = partnerOf(*op);
      if (!partner || (!parts_.empty() && (partner != partner_ || needsPart(*op)))) close();
      if (!partner) continue;
      partner_ = partner;
      parts_.push_back(op);
    }
    close();
  }

 private:
  // The other side of a transfer, which all parts of an exchange share: the host, or remote memory for one op.
  struct Partner {
    bool isHost;
    const Op *user = nullptr;
    bool operator==(const Partner &) const = default;
  };

  // nullopt: not a transfer, or no op of the graph reads or makes its data.
  std::optional<Partner> partnerOf(const Op &op) const {
    switch (op.def().base().role()) {
      case Role::HostLoad:
      case Role::HostStore:
        return Partner{.isHost = true};
      case Role::RemoteLoad:
        if (const Op *reader = firstReader(*op.outTensor(0))) return Partner{.isHost = false, .user = reader};
        return std::nullopt;
      case Role::RemoteStore:
        if (const Op *producer = op.inTensor(0)->getProducerUnsafe()) return Partner{.isHost = false, .user = producer};
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  const Op *firstReader(const Tensor &t) const {
    const Op *first = nullptr;
    for (const Use &use : t.uses()) {
      const Op &reader = graph_.op(use.op);
      if (!first || placeOf(reader) < placeOf(*first)) first = &reader;
    }
    return first;
  }

  // Whether the op reads the result of a load of the exchange, or accesses remote memory that a part stores, or stores
  // remote memory that a part accesses.
  bool needsPart(const Op &op) const {
    return std::ranges::any_of(parts_, [&](const Op *part) {
      const bool reads = std::ranges::any_of(op.inputs(), [&](TensorIndex t) {
        return t.valid() && graph_.tensor(t).hasProducer() && graph_.tensor(t).getProducer() == part;
      });
      const bool isRemote = op.hasAttr("remote_buffer") && part->hasAttr("remote_buffer");
      return reads || (isRemote && op.attrString("remote_buffer") == part->attrString("remote_buffer") &&
                       (isStore(op) || isStore(*part)));
    });
  }
  static bool isStore(const Op &op) { return op.def().base().role() == Role::RemoteStore; }

  void close() {
    if (parts_.size() > 1)
      for (Op *part : parts_) part->settings.hints[kExchangeHint] = toText(parts_.front()->id);
    parts_.clear();
  }

  int placeOf(const Op &op) const { return place_[op.index().value]; }

  Graph &graph_;
  const std::vector<Op *> order_;
  std::vector<int> place_;  // of ops, in the order
  std::optional<Partner> partner_;
  std::vector<Op *> parts_;  // parts of the current exchange, all with `partner_`
};

}  // namespace

void mergeExchanges(Graph &graph) { Merger(graph).run(); }

}  // namespace popart::transforms
