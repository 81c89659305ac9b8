// Makes the pair of rows of a differentiable element-wise operator y = f(x): the operator itself and "<Op>Grad".
#pragma once
#include "ops/catalog.hpp"
#include "ops/expression.hpp"

namespace popart::ops {

// The value that the gradient needs in addition to the incoming gradient g.
enum class Reads { Input, Output, Nothing };
// dL/dx from g = dL/dy and v (x or y as Reads says; g again for Nothing). Attributes are those of the forward op.
using GradientFormula = Expression (*)(Expression g, Expression v, const Attributes &attributes);

// Row of type `type` in `domain` with input "x" of `types`, output "y" of the same info, in-place variant
// "<type>Inplace".
OpDef unaryRow(const std::string &domain, const std::string &type, std::vector<OpVersion> versions, TypeSet types);
// Adds `row` with its gradient rule, and the gradient row "<type>Grad" with the same attributes:
// inputs "grad" and (unless Reads::Nothing) "x" or "y", all of one floating type; decomposes by `formula`.
void addDifferentiable(OpDefs &rows, OpDef row, Reads reads, GradientFormula formula);

}  // namespace popart::ops
