// See norm_gradient.hpp.
#include "ops/nn/norm_gradient.hpp"

#include <popart/op.hpp>

#include "ops/expression.hpp"
#include "ops/rules.hpp"

namespace popart::ops {

void decomposeNormGradient(DecomposeBuilder &b, const NormView &view) {
  const auto seen = [&](int input, const Shape &shape) {
    return Expression(b, emitReshape(b, emitCast(b, b.in(input), b.inInfo(1).dataType()), shape));
  };
  const auto mean = [&](Expression e) {
    return e.apply("ReduceMean", {{"axes", view.axes}, {"keepdims", int64_t{1}}});
  };
  const Expression g = seen(0, view.data), x = seen(1, view.data), h = g * seen(2, view.scale);
  const Expression centred = x - mean(x);
  const Expression r = 1.0 / sqrt(mean(centred * centred) + static_cast<double>(b.op().attrFloat("epsilon")));
  const Expression xhat = centred * r;
  b.result(0, emitReshape(b, r * (h - mean(h) - xhat * mean(h * xhat)), b.inInfo(1).shape()));
  const TensorInfo &scale = b.inInfo(2);
  const auto sumTo = [&](Expression e) {
    return emitCast(b, emitReshape(b, emitReduceSumTo(b, e, view.scale), scale.shape()), scale.dataType());
  };
  if (b.hasOut(1)) b.result(1, sumTo(g * xhat));
  if (b.hasOut(2)) b.result(2, sumTo(g));
}

}  // namespace popart::ops
