// See host_ahead.hpp. Buffering depths apply to the host, exchange strategies to the program; the two add up.
#include "api/host_ahead.hpp"

#include <popart/error.hpp>

namespace popart {
namespace {

using Exchange = session::AheadRule::Exchange;

// Strategies apply to IO tiles; on other tiles a value is exchanged when it is needed.
Exchange exchangeOf(const char *what, const TensorId &id, TileSet tiles, ExchangeStrategy strategy,
                    const SessionOptions &options) {
  if (strategy == ExchangeStrategy::OverlapStep)
    throw error(
        "{} '{}': the exchange strategy OverlapStep is not supported: a run does not know the values of the next run. "
        "Use OverlapLoops",
        what, id);
  if (tiles != TileSet::IO || strategy == ExchangeStrategy::JustInTime) return Exchange::JustInTime;
  if (!options.enableExplicitMainLoops || !options.useHostCopyOps)
    throw error(
        "{} '{}': the exchange strategy {} requires explicit main loops: got enableExplicitMainLoops {}, "
        "useHostCopyOps "
        "{}. Turn both on, or call enableExplicitIR(True)",
        what, id, toText(strategy), options.enableExplicitMainLoops ? "on" : "off",
        options.useHostCopyOps ? "on" : "off");
  if (options.virtualGraphMode == VirtualGraphMode::Off)
    throw error(
        "{} '{}': the exchange strategy {} requires virtual graphs: got virtualGraphMode Off. Set it to Auto or Manual",
        what, id, toText(strategy));
  return strategy == ExchangeStrategy::OverlapLoops ? Exchange::Loops : Exchange::InnerLoop;
}

session::AheadRule ruleOf(const TensorId &id, Exchange exchange, bool rearrangedOnHost, const SessionOptions &options) {
  const auto depth = static_cast<int>(options.getBufferingDepth(id, rearrangedOnHost));
  return {options.enablePrefetchDatastreams ? depth : 0, exchange};
}

}  // namespace

session::AheadRules aheadRules(const StreamRequests &requests, const session::HostStreams &streams) {
  const SessionOptions &options = requests.options;
  session::AheadRules rules;
  rules.prefetches = options.enablePrefetchDatastreams;
  for (const auto &entry : streams.inputs) {
    const TensorId &id = entry.first;
    const auto found = requests.inputSettings.find(id);
    const InputSettings settings = found == requests.inputSettings.end() ? InputSettings() : found->second;
    const Exchange exchange = exchangeOf("Input", id, settings.tileSet(), settings.exchangeStrategy(), options);
    rules.inputs[id] = ruleOf(id, exchange, options.rearrangeStreamsOnHost, options);
  }
  for (const auto &entry : streams.outputs) {
    const TensorId &id = entry.first;
    const AnchorReturnType returns = requests.dataFlow.isAnchored(id) ? requests.dataFlow.art(id) : AnchorReturnType();
    if (options.enableExplicitMainLoops && returns.id() == AnchorReturnTypeId::EveryN)
      throw error(
          "DataFlow: the anchor '{}' returns EveryN, which explicit main loops do not give. Use All, Sum or Final", id);
    const Exchange exchange = exchangeOf("Anchor", id, returns.tileSet(), returns.exchangeStrategy(), options);
    rules.outputs[id] = ruleOf(id, exchange, options.rearrangeAnchorsOnHost, options);
  }
  return rules;
}

}  // namespace popart
