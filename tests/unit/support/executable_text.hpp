// Texts of executables that are compared.
#pragma once
#include <regex>
#include <string>

#include "executable/executable.hpp"

namespace popart::test {

// The text of an executable without the numbers of ops, "MatMul: …" for "MatMul.136: …": ops of a program that was read
// are counted anew.
inline std::string textWithoutNumbers(const executable::Executable &executable) {
  static const std::regex number("\\.[0-9]+:");
  return std::regex_replace(print(executable), number, ":");
}

}  // namespace popart::test
