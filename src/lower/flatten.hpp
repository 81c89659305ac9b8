// flatten: the whole program as one sequential, functional main graph. Calls are inlined, in-place ops become their
// functional rows, and what they wrote is threaded through the later readers; each variable that changes gets one
// VariableAssign at the end. Only Loop bodies and If branches stay separate graphs. Later passes therefore never think
// about memory or order.
#pragma once
#include <memory>

#include <popart/ir.hpp>

namespace popart::lower {

// A session reads results through HostStore ops and drops the outputs of the main graph; a tool that prints programs
// keeps them.
enum class MainOutputs { Drop, Keep };
// Throws popart::error for a write through a view that has no inverse.
std::unique_ptr<Ir> flatten(const Ir &ir, MainOutputs outputs = MainOutputs::Drop);

}  // namespace popart::lower
