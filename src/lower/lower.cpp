// The compile steps between an Ir and an Executable, in order.
#include "lower/lower.hpp"

#include "lower/channels_last.hpp"
#include "lower/decompose.hpp"
#include "lower/emit.hpp"
#include "lower/flatten.hpp"
#include "lower/fold_batch_norm.hpp"
#include "lower/fuse_elementwise.hpp"
#include "lower/fuse_epilogue.hpp"
#include "lower/layout.hpp"
#include "lower/order_updates.hpp"
#include "lower/widen.hpp"

namespace popart::lower {

namespace {

// Kernels of fused rows rely on what fusion checked, so that these rows come from fusion alone.
void requireNotLowered(const Ir &ir) {
  for (const Graph *graph : ir.getAllGraphs())
    for (const Op *op : graph->ops())
      if (op->has(Trait::Internal) && op->def().domain() == "popart" && !op->is("VariableAssign"))
        throw error("{}: a program that was lowered cannot be lowered again. Give the program before lowering",
                    op->debugName());
}

}  // namespace

std::shared_ptr<const executable::Executable> lower(const Ir &ir, const LowerOptions &options) {
  if (options.backends.empty()) throw internal_error("lower: no backend was given");
  requireNotLowered(ir);
  std::unique_ptr<Ir> flat = flatten(ir);
  simplify(*flat);
  foldLargeTransposes(*flat, options.evaluate);
  widenHalves(*flat, *options.backends.front());
  decompose(*flat, *options.backends.front());
  simplify(*flat);
  Layouts layouts;
  if (options.fuse) {
    const executable::Backend &first = *options.backends.front();
    foldBatchNorms(*flat);
    fuseElementwise(*flat, first);
    fuseEpilogues(*flat, first);
    layouts = assignLayouts(*flat, first);
    assignChannelsLast(*flat, first, layouts);
  }
  orderUpdates(*flat);
  runUpdatesEarly(*flat);
  std::shared_ptr<executable::Executable> result = emit(*flat, layouts, options);
  if (options.keepText) result->loweredText = print(*flat, PrintData::Summary);
  return result;
}

}  // namespace popart::lower
