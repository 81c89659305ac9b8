// Operators on a window of a tensor whose position is known only at run time: DynamicSlice, DynamicUpdate, DynamicZero,
// DynamicAdd. The window starts at offset[i] along axes[i] and has sizes[i] elements there; along other axes it has all
// elements. A slice that is written may omit dimensions of size 1 of the window. A window that is not inside the tensor
// ends the run.
#include <algorithm>

#include "ops/catalog.hpp"
#include "ops/forward_op.hpp"
#include "ops/index/dynamic_window.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

using Ints = std::vector<int64_t>;

Shape windowShape(const InferContext &c, const Shape &whole) {
  const Ints &axes = c.attrInts("axes"), &sizes = c.attrInts("sizes");
  const int64_t rank = static_cast<int64_t>(whole.size());
  c.require(axes.size() == sizes.size(), "axes and sizes differ in length: got {} and {}", axes, sizes);
  Shape window = whole;
  std::vector<bool> seen(whole.size(), false);
  for (size_t i = 0; i < axes.size(); ++i) {
    c.require(axes[i] >= -rank && axes[i] < rank, "an axis is out of range: got {} for shape {}", axes, whole);
    const int64_t axis = normalizeAxis(axes[i], rank, "axes");
    c.require(!seen[axis], "an axis is repeated: got {}, expected each axis once", axes);
    c.require(sizes[i] >= 0 && sizes[i] <= whole[axis], "a size does not fit its axis: got {} for axes {} of {}", sizes,
              axes, whole);
    seen[axis] = true;
    window[axis] = sizes[i];
  }
  return window;
}

void checkOffset(const InferContext &c, int input) {
  c.require(c.in(input).nelms() == static_cast<int64_t>(c.attrInts("axes").size()),
            "offset does not fit axes: got {} for axes {}, expected one number per axis", c.shape(input),
            c.attrInts("axes"));
}

void inferSlice(InferContext &c) {
  checkOffset(c, 1);
  c.out(0, c.type(0), windowShape(c, c.shape(0)));
}

void inferWhole(InferContext &c) {
  checkOffset(c, 1);
  const Shape window = windowShape(c, c.shape(0));
  if (c.hasIn(2))
    c.require(fillsWindow(c.shape(2), window),
              "the slice does not have the window's shape: got {}, expected {} (dimensions of size 1 may be left out)",
              c.shape(2), window);
  c.out(0, c.in(0));
}

TensorIndex emitSliceGradient(VjpBuilder &b) {
  const Attributes attributes{{"axes", b.attrs().getAttribute<Ints>("axes")},
                              {"sizes", b.attrs().getAttribute<Ints>("sizes")}};
  const TensorIndex g = b.emit("DynamicUpdateSliceGrad", {b.gradOut(0), b.in(1)}, attributes);
  return b.info(g).shape() == b.inInfo(2).shape() ? g : emitReshape(b, g, b.inInfo(2).shape());
}

OpDef dynamicRow(const char *type, TypeSet types) {
  return OpDef("ai.graphcore", type, {1})
      .input("tensor", types, "T")
      .input("offset", kIndices)
      .attrRequired("axes", AttributeType::Ints)
      .attrRequired("sizes", AttributeType::Ints)
      .attr("noOverlap", int64_t{0});
}

Attributes window(const Attributes &attributes) {
  return {{"axes", attributes.getAttribute<Ints>("axes")}, {"sizes", attributes.getAttribute<Ints>("sizes")}};
}

// Gradient row that decomposes into one dynamic op on (grad, offset).
OpDef gradientRow(const char *type, const char *serves, InferFn infer) {
  return OpDef("ai.graphcore", type, {1})
      .input("grad", kNumeric)
      .input("offset", kIndices)
      .output("dx")
      .attrRequired("axes", AttributeType::Ints)
      .attrRequired("sizes", AttributeType::Ints)
      .infer(std::move(infer))
      .traits(Trait::Gradient)
      .notOnnx()
      .decompose([serves](DecomposeBuilder &b) {
        b.result(0, b.emit(serves, {b.in(0), b.in(1)}, window(b.attrs())));
      });
}

void addDynamicSlice(OpDefs &rows) {
  rows.push_back(dynamicRow("DynamicSlice", kStoredTypes)
                     .role(Role::DynamicSlice)
                     .cost(movesData())
                     .precision(Precision::Follows)
                     .output("slice")
                     .infer(inferSlice)
                     .vjp([](VjpBuilder &b) {
                       Attributes attributes = window(b.attrs());
                       attributes.set("fwd_shape", b.inInfo(0).shape());
                       b.grad(0, b.emit("DynamicSliceGrad", {b.gradOut(0), b.in(1)}, attributes));
                     })
                     .doc("The window of a tensor that starts at offset."));
  rows.push_back(OpDef("ai.graphcore", "DynamicSliceGrad", {1})
                     .role(Role::DynamicSliceGrad)
                     .input("grad", kNumeric)
                     .input("offset", kIndices)
                     .output("dx")
                     .attrRequired("axes", AttributeType::Ints)
                     .attrRequired("sizes", AttributeType::Ints)
                     .attrRequired("fwd_shape", AttributeType::Ints)
                     .infer([](InferContext &c) {
                       inferGradientOf(c, "DynamicSlice", {forwardInfo(c), c.in(1)});
                     })
                     .traits(Trait::Gradient)
                     .notOnnx()
                     .decompose([](DecomposeBuilder &b) {
                       TensorIndex zeros = emitZeros(b, b.outInfo(0).dataType(), b.outInfo(0).shape());
                       b.result(0, b.emit("DynamicUpdate", {zeros, b.in(1), b.in(0)}, window(b.attrs())));
                     })
                     .doc("Gradient of DynamicSlice: the window among zeros."));
}

void addWrites(OpDefs &rows) {
  rows.push_back(dynamicRow("DynamicUpdate", kStoredTypes)
                     .input("slice", kStoredTypes, "T")
                     .output("updated")
                     .infer(inferWhole)
                     .inplace("DynamicUpdateInplace", 10)
                     .vjp([](VjpBuilder &b) {
                       if (b.wants(0))
                         b.grad(0, b.emit("DynamicUpdateTensorGrad", {b.gradOut(0), b.in(1)}, window(b.attrs())));
                       if (b.wants(2)) b.grad(2, emitSliceGradient(b));
                     })
                     .doc("The tensor with the slice written into the window."));
  rows.push_back(gradientRow("DynamicUpdateTensorGrad", "DynamicZero", inferWhole)
                     .doc("Gradient of DynamicUpdate for the tensor."));
  rows.push_back(gradientRow("DynamicUpdateSliceGrad", "DynamicSlice", inferSlice)
                     .doc("Gradient of DynamicUpdate for the slice."));
  rows.push_back(dynamicRow("DynamicAdd", kNumeric)
                     .role(Role::DynamicAdd)
                     .input("slice", kNumeric, "T")
                     .output("updated")
                     .infer(inferWhole)
                     .inplace("DynamicAddInplace", 10)
                     .vjp([](VjpBuilder &b) {
                       if (b.wants(0)) b.grad(0, b.emit("IdentityGrad", {b.gradOut(0)}));
                       if (b.wants(2)) b.grad(2, emitSliceGradient(b));
                     })
                     .doc("The tensor with the slice added to the window."));
  rows.push_back(dynamicRow("DynamicZero", kStoredTypes)
                     .output("updated")
                     .infer(inferWhole)
                     .inplace("DynamicZeroInplace", 10)
                     .vjp([](VjpBuilder &b) {
                       b.grad(0, b.emit("DynamicZeroGrad", {b.gradOut(0), b.in(1)}, window(b.attrs())));
                     })
                     .doc("The tensor with zeros in the window."));
  rows.push_back(gradientRow("DynamicZeroGrad", "DynamicZero", inferWhole).doc("Gradient of DynamicZero."));
}

}  // namespace

bool fillsWindow(const Shape &slice, const Shape &window) {
  size_t next = 0;
  for (int64_t size : window) {
    if (next < slice.size() && slice[next] == size)
      ++next;
    else if (size != 1)
      return false;
  }
  return next == slice.size();
}

OpDefs dynamicOps() {
  OpDefs rows;
  addDynamicSlice(rows);
  addWrites(rows);
  return rows;
}

}  // namespace popart::ops
