// What a call complains about.
#pragma once
#include <string>

#include <popart/error.hpp>

namespace popart::test {

// The message of the popart::error that f() throws, or "no error".
template <class F>
std::string messageOf(F f) {
  try {
    f();
  } catch (const error &e) {
    return e.what();
  }
  return "no error";
}

}  // namespace popart::test
