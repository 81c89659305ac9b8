// Makes the loop of an element-wise program from the shapes and layouts of its operands.
#include "backends/cpu/element_operands.hpp"

#include <algorithm>
#include <numeric>

#include "backends/cpu/layouts/panels.hpp"
#include "executable/channel_slice.hpp"

namespace popart::cpu {
namespace {

using executable::Layout;
using executable::OperandDesc;
using Access = ElementOperand::Access;

// Strides of a tensor in its memory, by logical dimension of the result (0 if it is broadcast).
std::vector<int64_t> logicalStrides(const Shape &shape, const Layout *layout, const Shape &result) {
  std::vector<size_t> order(shape.size());  // dimensions from the slowest to the fastest
  std::iota(order.begin(), order.end(), size_t{0});
  const int64_t whole = executable::channelsOfWhole(layout);
  if ((layout == executable::channelsLast() || whole > 0) && shape.size() > 2)
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  std::vector<int64_t> strides(result.size(), 0);
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const size_t d = order[i];
    if (shape[d] != 1) strides[result.size() - shape.size() + d] = stride;
    stride *= whole > 0 && i + 1 == order.size() ? whole : shape[d];
  }
  return strides;
}

// Whether every dimension has a constant stride.
bool isStrided(const Layout *layout) { return !layout || layout == executable::channelsLast(); }

class Geometry {
 public:
  using Places = std::vector<ElementSource::Place>;
  Geometry(const std::vector<OperandDesc> &inputs, const Places &places, const std::vector<OperandDesc> &outputs)
      : inputs_(inputs),
        places_(places),
        outputs_(outputs),
        result_(outputs[0].info.shape()),
        layout_(outputs[0].layout),
        panels_(asPanels(layout_)) {}

  // Sets the loop, the inputs' access and the padding. False and a reason if layouts do not fit together.
  bool run(ElementProgram &program, std::string &reason) {
    for (const OperandDesc &o : outputs_)
      if (o.info.shape() != result_ || o.layout != layout_)
        return reason = "its results differ in shape or layout", false;
    if (!panels_ && !isStrided(layout_)) return reason = "it does not support layout " + layout_->name(), false;
    bool broadcasts = false;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const OperandDesc &o = inputs_[i];
      const ElementSource::Place *at = places_.empty() ? nullptr : &places_[i];
      ElementOperand operand;
      operand.operand = at ? at->operand : static_cast<int>(i);
      if (o.connected && !(at && at->view ? placeView(o, *at->view, operand, reason) : place(o, operand, reason)))
        return false;
      broadcasts |= operand.access == Access::kBroadcast;
      program.inputs.push_back(std::move(operand));
    }
    for (const OperandDesc &o : outputs_) program.outputBytes.push_back(getDataTypeInfo(o.info.dataType()).nbytes);
    const TensorInfo &info = outputs_[0].info;
    program.loop.elements =
        info.nelms() == 0 ? 0 : executable::storageBytes(info, layout_) / getDataTypeInfo(info.dataType()).nbytes;
    if (panels_) program.padding.assign(outputs_.size(), padding());
    if (broadcasts && info.nelms() > 0) collapse(program);
    return true;
  }

 private:
  bool place(const OperandDesc &o, ElementOperand &operand, std::string &reason) {
    operand.bytes = getDataTypeInfo(o.info.dataType()).nbytes;
    if (o.info.nelms() == 1 && elementCount(result_) != 1) return operand.access = Access::kOne, true;
    if (o.info.nelms() == elementCount(result_) && o.layout == layout_) return operand.access = Access::kFull, true;
    if (o.info.nelms() == elementCount(result_) && result_.size() < 3)
      return reason = "its operands have different layouts: " + executable::layoutName(o.layout), false;
    if (panels_ || !(isStrided(o.layout) || executable::channelsOfWhole(o.layout) > 0))
      return reason = "it cannot broadcast in layout " + executable::layoutName(panels_ ? layout_ : o.layout), false;
    operand.access = Access::kBroadcast;
    operand.strides = logicalStrides(o.info.shape(), o.layout, result_);
    return true;
  }

  bool placeView(const OperandDesc &o, const ops::StridedView &view, ElementOperand &operand, std::string &reason) {
    if (panels_ || o.layout || o.info.shape() != result_ || elementCount(result_) < 2)
      return reason = "it reads no view in its layout", false;
    operand.bytes = getDataTypeInfo(o.info.dataType()).nbytes;
    operand.access = Access::kBroadcast;
    operand.offset = view.offset;
    operand.strides = view.strides;
    return true;
  }

  // Merges dimensions that every input traverses contiguously, in the memory order of the result.
  void collapse(ElementProgram &program) {
    std::vector<size_t> order(result_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (layout_ == executable::channelsLast() && order.size() > 2)
      std::rotate(order.begin() + 1, order.begin() + 2, order.end());
    std::vector<size_t> kept;
    for (size_t d : order)
      if (result_[d] != 1) kept.push_back(d);
    std::vector<int64_t> dims;
    std::vector<std::vector<int64_t>> strides(program.inputs.size());
    for (size_t k = 0; k < kept.size(); ++k) {
      const size_t d = kept[k];
      bool joins = !dims.empty();
      for (size_t i = 0; i < strides.size() && joins; ++i)
        if (program.inputs[i].access == Access::kBroadcast)
          joins = strides[i].back() == program.inputs[i].strides[d] * result_[d];
      if (joins) {
        dims.back() *= result_[d];
      } else {
        dims.push_back(result_[d]);
      }
      for (size_t i = 0; i < strides.size(); ++i) {
        if (program.inputs[i].access != Access::kBroadcast) continue;
        if (joins)
          strides[i].back() = program.inputs[i].strides[d];
        else
          strides[i].push_back(program.inputs[i].strides[d]);
      }
    }
    constexpr int64_t kShortRun = 96;  // elements; shorter rows are expanded into full blocks instead
    bool isStrided = false;            // also inputs that are read with a stride
    for (size_t i = 0; i < strides.size(); ++i)
      isStrided |= program.inputs[i].access == Access::kBroadcast && strides[i].back() != 0 && strides[i].back() != 1;
    program.loop.dims = dims;
    program.loop.mode = isStrided || dims.back() < kShortRun ? ElementLoop::Mode::kExpanded : ElementLoop::Mode::kRows;
    for (size_t i = 0; i < strides.size(); ++i)
      if (program.inputs[i].access == Access::kBroadcast) program.inputs[i].strides = strides[i];
  }

  ElementPadding padding() const {
    ElementPadding p;
    p.panel = panels_->panel();
    const PanelShape shape = panels_->shapeOf(outputs_[0].info);
    if (shape.columns % p.panel == 0) return {};
    p.start = shape.columns / p.panel * shape.rows * p.panel;
    p.group = p.start + shape.rows * p.panel;
    p.valid = shape.columns % p.panel;
    return p;
  }

  const std::vector<OperandDesc> &inputs_;
  const Places &places_;
  const std::vector<OperandDesc> &outputs_;
  const Shape &result_;
  const Layout *layout_;
  const PanelLayout *panels_;  // layout_, if it is a layout of panels
};

// Views with short runs, or with distant elements as in a transposition, are copied faster by a separate kernel. The
// loop cannot read a broadcast input with a stride (a permuted view of plain memory).
bool hasRuns(const ElementProgram &program, const std::vector<ElementSource::Place> &places) {
  constexpr int64_t kLeastRun = 16, kMostStride = 4;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ElementOperand &o = program.inputs[i];
    if (o.access != Access::kBroadcast || o.strides.empty()) continue;
    const bool isView = !places.empty() && places[i].view;
    const int64_t stride = o.strides.back();
    if (isView && program.loop.dims.back() < kLeastRun) return false;
    if (stride < 0 || stride > (isView ? kMostStride : 1)) return false;
  }
  return true;
}

// Descriptions by input of the computation, from those by operand.
std::vector<OperandDesc> describe(const ElementSource &source, const std::vector<OperandDesc> &operands) {
  if (source.places.empty()) return operands;
  std::vector<OperandDesc> inputs;
  for (size_t i = 0; i < source.inputs.size(); ++i) {
    OperandDesc o = operands[static_cast<size_t>(source.places[i].operand)];
    if (source.places[i].view) o.info = source.graph->info(source.inputs[i]), o.constant = nullptr;
    inputs.push_back(std::move(o));
  }
  return inputs;
}

}  // namespace

std::optional<ElementProgram> makeElementProgram(const ElementSource &source, const std::vector<OperandDesc> &operands,
                                                 const std::vector<OperandDesc> &outputs, std::string &reason) {
  const std::vector<OperandDesc> inputs = describe(source, operands);
  if (outputs.empty() || source.inputs.size() != inputs.size()) return reason = "it has no results", std::nullopt;
  for (const auto *list : {&inputs, &outputs})
    for (const OperandDesc &o : *list)
      if (o.connected && !storeFunction(o.info.dataType()))
        return reason = "it takes no " + toText(o.info.dataType()), std::nullopt;
  if (inputs.size() + outputs.size() > ElementProgram::kMaxPointers)
    return reason = "it has too many operands", std::nullopt;
  ElementProgram program;
  if (!Geometry(inputs, source.places, outputs).run(program, reason)) return std::nullopt;
  if (!hasRuns(program, source.places)) return reason = "an operand would be read with a stride", std::nullopt;
  std::vector<ElementInput> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const OperandDesc &o = inputs[i];
    const ElementOperand &operand = program.inputs[i];
    const bool isOne = operand.access == Access::kOne ||
                       (operand.access == Access::kBroadcast && program.loop.mode == ElementLoop::Mode::kRows &&
                        operand.strides.back() == 0);
    values.push_back({o.info.dataType(), isOne, o.info.isSet() && o.info.nelms() == 1 ? o.constant : nullptr});
  }
  const auto cost = compileElements(source, values, program, reason);
  if (!cost) return std::nullopt;
  if (!program.finish(*cost)) return reason = "it has too many operands", std::nullopt;
  return program;
}

}  // namespace popart::cpu
