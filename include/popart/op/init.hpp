// InitType: what a tensor made by the Init operator holds at first.
#pragma once

namespace popart {

// NoInit: undefined content.
enum class InitType { NoInit = 0, Zero };

}  // namespace popart
