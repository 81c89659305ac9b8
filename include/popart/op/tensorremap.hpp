// TensorRemapType: in which passes the TensorRemap operator may change a tensor's layout.
#pragma once

namespace popart {

// Only for the builder's method: sessions refuse the operator.
enum class TensorRemapType { FwdBwdReverse = 0, FwdBwd, Fwd };

}  // namespace popart
