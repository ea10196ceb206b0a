// A loop's index as a constant of the code that it chooses.
#pragma once

#include <type_traits>
#include <utility>

namespace tiled {

// body(std::integral_constant<int, index>()), of 0 <= index < COUNT. Registers have no index: in a
// loop that is not unrolled, what chooses among them stands in the kernel once for each choice, and
// the rest of the loop once. (Written as a loop in which one step acts, the array goes to memory.)
template <typename Body, int... I>
__device__ __forceinline__ void call_with(std::integer_sequence<int, I...>, int index, Body body) {
  ((I == index ? body(std::integral_constant<int, I>()) : void()), ...);
}
template <int COUNT, typename Body>
__device__ __forceinline__ void call_with(int index, Body body) {
  call_with(std::make_integer_sequence<int, COUNT>(), index, body);
}

}  // namespace tiled
