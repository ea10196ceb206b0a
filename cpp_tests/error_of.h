// The error that a call raises, for the tests of what errors say.
#pragma once

#include <c10/util/Exception.h>

#include <functional>
#include <string>

namespace tiled::test {

inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

}  // namespace tiled::test
