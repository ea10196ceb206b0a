// An operator's options between the dispatcher, which passes plain arguments, and the library,
// which passes one MmOptions. A further option is a member there, its text in OPTIONS and its name
// in unpacked() and of_product(), all in the same order; every schema and every kernel follows.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <tuple>
#include <utility>

#include "tiled_mm.h"

namespace tiled {

// The options in a schema.
constexpr const char* OPTIONS = "str? algo=None, str? precision=None, ScalarType? out_dtype=None";

// The options as the dispatcher passes them.
inline auto unpacked(const MmOptions& options) {
  const auto& [algo, precision, out_dtype] = options;
  return std::make_tuple(algo, precision, out_dtype);
}

// The options of the product in an operator that has more of them.
template <typename Options>
MmOptions of_product(const Options& options) {
  return {options.algo, options.precision, options.out_dtype};
}

// A schema written with "$options" where OPTIONS stands.
inline std::string with_options(std::string schema) {
  const std::string mark = "$options";
  return schema.replace(schema.find(mark), mark.size(), OPTIONS);
}

namespace detail {

template <typename...>
struct List {};

// A signature in which one parameter is `const MmOptions&`, taken apart there: the parameters
// before it, those after it, and the options themselves. Parameters move from Rest to Before until
// it is found.
template <typename Result, typename Options, typename Before, typename Rest>
struct Split;

template <typename Result, typename Options, typename... Before, typename Next, typename... Rest>
struct Split<Result, Options, List<Before...>, List<Next, Rest...>>
    : Split<Result, Options, List<Before..., Next>, List<Rest...>> {};

template <typename Result, typename... Option, typename... Before, typename... After>
struct Split<Result, std::tuple<Option...>, List<Before...>, List<const MmOptions&, After...>> {
  using Plain = Result(Before..., Option..., After...);

  // The function as a kernel of plain arguments.
  template <auto function>
  static Result pack(Before... before, Option... option, After... after) {
    return function(std::forward<Before>(before)..., MmOptions{std::move(option)...},
                    std::forward<After>(after)...);
  }

  // A call with plain arguments, `callee` being given them.
  template <typename Callee>
  static Result unpack(const Callee& callee, Before... before, const MmOptions& options,
                       After... after) {
    return std::apply(
        [&](const Option&... option) -> Result { return callee(before..., option..., after...); },
        unpacked(options));
  }
};

template <typename Signature>
struct SplitOf;

template <typename Result, typename... Parameters>
struct SplitOf<Result(Parameters...)>
    : Split<Result, decltype(unpacked(MmOptions())), List<>, List<Parameters...>> {};

}  // namespace detail

// What to register for a function that takes `const MmOptions&` among its parameters.
template <auto function>
constexpr auto* kernel =
    &detail::SplitOf<std::remove_pointer_t<decltype(function)>>::template pack<function>;

// The typed door to an operator, whose signature has `const MmOptions&` for its options.
template <typename Signature>
class Operator {
  using Split = detail::SplitOf<Signature>;

 public:
  Operator(const char* name, const char* overload)
      : handle_(c10::Dispatcher::singleton()
                    .findSchemaOrThrow(name, overload)
                    .typed<typename Split::Plain>()) {}

  template <typename... Arguments>
  auto call(Arguments&&... arguments) const {
    return Split::unpack([this](auto&... plain) { return handle_.call(plain...); },
                         std::forward<Arguments>(arguments)...);
  }

  template <typename... Arguments>
  auto redispatch(c10::DispatchKeySet keys, Arguments&&... arguments) const {
    return Split::unpack([&](auto&... plain) { return handle_.redispatch(keys, plain...); },
                         std::forward<Arguments>(arguments)...);
  }

 private:
  c10::TypedOperatorHandle<typename Split::Plain> handle_;
};

}  // namespace tiled
