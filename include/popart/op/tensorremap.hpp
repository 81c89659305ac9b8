// TensorRemapType: in which passes the TensorRemap operator may change a tensor's layout.
#pragma once

namespace popart {

// Of the builder's method only: sessions refuse the operator.
enum class TensorRemapType { FwdBwdReverse = 0, FwdBwd, Fwd };

}  // namespace popart
