// See host_io.hpp. Loads are first in program order and stores last, so that an anchored variable is stored after its
// update.
#include "transforms/host_io.hpp"

#include <popart/ir.hpp>

namespace popart::transforms {

TensorIndex loadStream(Graph &main, TensorIndex stream) {
  const TensorId id = main.tensor(stream).id;
  for (Op *op : main.ops())
    if (op->is(Role::HostLoad) && op->attrString("stream") == id) return op->outputs()[0];
  Op::Settings settings(main);
  settings.sequence = 0;
  const TensorIndex loaded =
      main.addConnectedOp(opDef("HostLoad"), {}, {main.freeId(id + "___loaded")}, {{"stream", id}}, settings)
          ->outputs()[0];
  main.replaceUses(stream, loaded);
  return loaded;
}

void loadStreams(Graph &main) {
  for (Tensor *t : main.tensorsOfType(TensorType::Stream))
    if (!t->uses().empty()) loadStream(main, t->index());
}

void storeAnchor(Graph &main, const TensorId &id, const std::string &stream, ExecutionContext context) {
  TensorIndex t = main.getTensor(id)->index();
  if (main.tensor(t).tensorType() == TensorType::Stream) t = loadStream(main, t);
  Op::Settings settings(main);
  settings.executionContext = context;
  main.addConnectedOp(opDef("HostStore"), {t}, {}, {{"stream", stream}}, settings);
}

}  // namespace popart::transforms
