// flatten: makes one sequential, functional main graph of the whole program. Calls are inlined; in-place ops are
// replaced by their functional rows, and later readers read the values that they wrote. Each variable that changes gets
// one VariableAssign at the end. Only Loop bodies and If branches stay separate graphs. Later passes need not consider
// memory or order.
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
