// TensorRemapType: in which passes the TensorRemap operator may change a tensor's layout.
#pragma once

namespace popart {

enum class TensorRemapType { FwdBwdReverse = 0, FwdBwd, Fwd };

}  // namespace popart
