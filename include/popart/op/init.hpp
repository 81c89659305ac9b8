// InitType: the initial value of a tensor from the Init operator.
#pragma once

namespace popart {

// NoInit: undefined content.
enum class InitType { NoInit = 0, Zero };

}  // namespace popart
