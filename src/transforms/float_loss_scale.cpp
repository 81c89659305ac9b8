// See float_loss_scale.hpp.
#include "transforms/float_loss_scale.hpp"

#include <map>

#include <popart/error.hpp>
#include <popart/ir.hpp>

namespace popart::transforms {
namespace {

class Widener {
 public:
  Widener(Graph &main, TensorIndex narrow, TensorIndex wide) : main_(main) { wide_[narrow] = wide; }

  void run() {
    for (Op *op : main_.getOpSchedule())
      for (TensorIndex t : op->inputs())
        if (t.valid() && wide_.count(t)) {
          widen(*op);
          break;
        }
  }

 private:
  static bool isNarrow(const TensorInfo &info) { return info.dataType() == DataType::FLOAT16; }

  TensorIndex cast(TensorIndex t, DataType type, const Op &origin) {
    return main_
        .addConnectedOp(opDef("Cast"), {t}, {main_.freeId(main_.tensor(t).id + "/cast")},
                        {{"to", int64_t{toOnnxDataType(type)}}}, inheritSettings(origin, main_, "Cast"))
        ->outputs()[0];
  }

  void widen(Op &op) {
    check(!op.has(Trait::Call),
          "ensureFp32LossScaleTensor: {} takes the loss scale into a subgraph. Compute the loss outside of it, or turn "
          "the option off",
          op.debugName());
    bool isScaleAlone = true;
    std::vector<TensorIndex> inputs;
    for (TensorIndex t : op.inputs()) {
      if (t.valid() && isNarrow(main_.info(t))) {
        const auto found = wide_.find(t);
        isScaleAlone = isScaleAlone && found != wide_.end();
        t = found != wide_.end() ? found->second : cast(t, DataType::FLOAT, op);
      }
      inputs.push_back(t);
    }
    std::vector<TensorId> ids;
    for (OutIndex o = 0; o < op.outputCount(); ++o)
      ids.push_back(op.hasOutput(o) ? main_.freeId(op.outId(o) + "/float32") : TensorId());
    const Op &made = *main_.addConnectedOp(op.def(), inputs, ids, op.attributes(), inheritSettings(op, main_));
    for (OutIndex o = 0; o < op.outputCount(); ++o)
      if (op.hasOutput(o)) replace(op.outputs()[o], made, o, isScaleAlone);
    main_.moveConstraints(op.index(), made.index());
    main_.eraseOpAndOutputs(op.index());
  }

  // The result keeps its id, because the user may ask for this gradient.
  void replace(TensorIndex old, const Op &made, OutIndex output, bool isScaleAlone) {
    const TensorIndex result = made.outputs()[output];
    const TensorId id = main_.tensor(old).id;
    const DataType type = main_.info(old).dataType();
    main_.renameTensor(old, main_.freeId(id + "/replaced"));
    if (main_.info(result).dataType() == type) {
      main_.renameTensor(result, id);
      main_.replaceTensor(old, result);
      return;
    }
    const TensorIndex narrow = cast(result, type, made);
    main_.renameTensor(narrow, id);
    main_.replaceTensor(old, narrow);
    if (isScaleAlone && main_.info(result).nelms() == 1) wide_[narrow] = result;
  }

  Graph &main_;
  std::map<TensorIndex, TensorIndex> wide_;  // FLOAT16 tensors that depend only on the scale → the same in FLOAT
};

}  // namespace

void ensureFp32LossScale(Graph &main, TensorIndex narrow, TensorIndex wide) {
  check(main.info(narrow).dataType() == DataType::FLOAT16,
        "ensureFp32LossScaleTensor: the loss is not FLOAT16: got {}. Turn the option off", main.info(narrow));
  Widener(main, narrow, wide).run();
}

}  // namespace popart::transforms
