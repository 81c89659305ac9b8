// Settings of ops and facts of tensors as attribute lists. Only this file knows their fields; printing, parsing,
// comparison, hashing and JSON use it. Fields at their defaults are left out.
#pragma once
#include <popart/ir.hpp>

namespace popart {

// All settings except graph and sequence; `name` and `scope` are included.
Attributes settingsFacts(const Op::Settings &settings);
// The inverse. Throws popart::error for unknown fields and impossible values.
void applySettingsFacts(const Attributes &facts, Op::Settings &settings);

// Replica settings, roles and flags of a tensor; its id, info, type and data are not included.
Attributes tensorFacts(const Tensor &tensor);
void applyTensorFacts(const Attributes &facts, Tensor &tensor);

// "const", "variable", "stream", "tensor" (ActGrad), "unknown".
std::string_view tensorTypeText(TensorType type);
bool tensorTypeFromText(std::string_view text, TensorType &type);

}  // namespace popart
