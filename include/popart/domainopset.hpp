// compat: PopART's name for the header of Opset, the base of the builder's operator classes.
#pragma once
#include <popart/opset.hpp>
