// The common form of optimizer rows: output 0 is the new value of input 0 (a variable or optimizer state), and every
// scalar parameter is either the tensor of its input or, if that input is absent, the float attribute of the same name.
#pragma once
#include <popart/opdef.hpp>

namespace popart::ops {

constexpr TypeSet kUpdatable = kFloats | kInts;

// A row that writes input 0 "var" (any numeric type); output "updated". It is element-wise: each new value depends on
// the elements at the same position and on scalars.
OpDef varUpdateRow(const char *type);
OpDef elementUpdateRow(const char *type);
// Optional scalar input `name` and optional float attribute `name`.
OpDef &scalarParameter(OpDef &row, const char *name);
// Fails unless the scalar input `input` has one element, or the attribute `name` is given. If both are absent, the row
// must have a default.
enum class Presence { Required, Optional };
void requireScalarParameter(const InferContext &c, int input, const char *name, Presence presence);
// Optional input "due", the row's last one, a single BOOL: if it is false, the variable keeps its value.
OpDef &dueInput(OpDef &row);
// The index of input "due" in the row; -1: there is none.
int dueInputOf(const OpDef &row);
// Fails unless input "due" is absent or has one element.
void requireDue(const InferContext &c);
// Output 0 has the info of input 0; the named inputs must have its shape, and `due` one element.
void inferUpdate(const InferContext &c, std::initializer_list<int> sameShape);

}  // namespace popart::ops
