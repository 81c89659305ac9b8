// See loop_rows.hpp.
#include "lower/loop_rows.hpp"

#include "lower/counted_loop.hpp"
#include "memory/plan.hpp"

namespace popart::lower {
namespace {

// The number of rows of its first operand that the op reads, from the position in its second operand on; else 0.
int64_t rowsRead(const Op &op) {
  if (op.is(Role::Gather))
    return op.attrInt("axis") % op.inRank(0) == 0 && op.attrInt("group_size") == 1 && op.inInfo(1).nelms() == 1;
  if (!op.is(Role::DynamicSlice) || op.attrInts("axes").size() != 1) return 0;
  return op.attrInts("axes")[0] % op.inRank(0) == 0 ? op.attrInts("sizes")[0] : 0;
}

struct RowRead {
  Op *op;
  int64_t rows;
  Line line;
};

std::vector<RowRead> rowReads(CountedLoop &loop) {
  std::vector<RowRead> found;
  for (Op *op : loop.body().ops()) {
    const int64_t rows = rowsRead(*op);
    if (rows == 0 || op->outInfo(0).nelms() == 0 || !loop.isInvariant(op->inputs()[0])) continue;
    const auto line = loop.line(op->inputs()[1]);
    if (!line || !loop.staysInside(*line, rows, op->inShape(0)[0])) continue;
    const int64_t rowBytes = op->outInfo(0).nbytes() / rows;
    if (memory::fitsRows(line->first * rowBytes) && memory::fitsRows(line->step * rowBytes))
      found.push_back({op, rows, *line});
  }
  return found;
}

void replaceByRow(Graph &body, const RowRead &read) {
  Op &op = *read.op;
  OpEmitter emitter(body, op);
  TensorIndex rows = emitter.emit("LoopRow", {op.inputs()[0], body.inputs()[0]},
                                  {{"first", read.line.first}, {"step", read.line.step}, {"rows", read.rows}});
  if (op.outShape(0) != body.info(rows).shape())
    rows = emitter.emit("Reshape", {rows}, {{"shape", op.outShape(0)}, {"allowzero", int64_t{1}}});
  body.replaceTensor(op.outputs()[0], rows);
  body.eraseOpAndOutputs(op.index());
}

}  // namespace

void readRowsInPlace(Ir &flat) {
  std::vector<std::pair<Graph *, std::vector<RowRead>>> all;  // all are found before any is replaced
  for (const Graph *graph : schedule::programGraphs(flat))
    for (const Op *op : graph->ops()) {
      if (!op->is(Role::Loop)) continue;
      CountedLoop loop(*op);
      if (loop.isCounted()) all.emplace_back(&loop.body(), rowReads(loop));
    }
  for (const auto &[body, reads] : all)
    for (const RowRead &read : reads) replaceByRow(*body, read);
}

}  // namespace popart::lower
