// Clusters of element-wise ops with one output shape become FusedElementwise ops: one loop over cache-sized blocks
// instead of one pass over memory per op.
#pragma once
#include <popart/ir.hpp>

#include "executable/kernel.hpp"

namespace popart::lower {

// A hint of Op::Settings: the op runs where the program puts it, by itself. Additions of gradients carry it, because a
// fused chain of them would wait for the last term with all others in memory.
constexpr const char *kKeepApart = "keep_apart";

// Only ops that `backend` supports on its own are clustered. Flat graphs only.
void fuseElementwise(Ir &flat, const executable::Backend &backend);

// Whether the op computes each element from the elements at the same position.
bool isElementwise(const Op &op);
// Constants of one element become part of a fused op's body instead of operands.
bool isNumber(const Tensor &tensor);

}  // namespace popart::lower
