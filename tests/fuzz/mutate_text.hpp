// Mutations of IR text: numbers, operands, operators, element types, entries of lists, lines. Types that the text
// states for results are best left out before (see damaged_texts.cpp): they betray every other change.
#pragma once
#include <string>

#include "mutate.hpp"

namespace popart::fuzz {

// One to three mutations of `text`. What is done depends on the random numbers alone.
std::string damagedText(std::string text, Random &random);

}  // namespace popart::fuzz
