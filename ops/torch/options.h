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
constexpr const char* OPTIONS =
    "str? algo=None, str? precision=None, ScalarType? out_dtype=None, str? sum_order=None";

// The options as the dispatcher passes them.
inline auto unpacked(const MmOptions& options) {
  const auto& [algo, precision, out_dtype, sum_order] = options;
  return std::make_tuple(algo, precision, out_dtype, sum_order);
}

// The options of the product in an operator that has more of them.
template <typename Options>
MmOptions of_product(const Options& options) {
  return {options.algo, options.precision, options.out_dtype, options.sum_order};
}

// The same of scaled products.
constexpr const char* SCALED_OPTIONS =
    "Tensor? offs=None, Tensor? bias=None, *, str? recipe_a=None, str? recipe_b=None,"
    " ScalarType? out_dtype=None, str? activation=None, str? sum_order=None";

inline auto unpacked(const ScaledOptions& options) {
  const auto& [offs, bias, recipe_a, recipe_b, out_dtype, activation, sum_order] = options;
  return std::make_tuple(offs, bias, recipe_a, recipe_b, out_dtype, activation, sum_order);
}

// A schema written with "$options" where OPTIONS stands.
inline std::string with_options(std::string schema, const char* options = OPTIONS) {
  const std::string mark = "$options";
  return schema.replace(schema.find(mark), mark.size(), options);
}

namespace detail {

template <typename...>
struct List {};

// A signature in which one parameter is `const Options&`, taken apart there: the parameters before
// it, those after it, and the options themselves. Parameters move from Rest to Before until it is
// found.
template <typename Options, typename Result, typename Members, typename Before, typename Rest>
struct Split;

template <typename Options, typename Result, typename Members, typename... Before, typename Next,
          typename... Rest>
struct Split<Options, Result, Members, List<Before...>, List<Next, Rest...>>
    : Split<Options, Result, Members, List<Before..., Next>, List<Rest...>> {};

template <typename Options, typename Result, typename... Option, typename... Before,
          typename... After>
struct Split<Options, Result, std::tuple<Option...>, List<Before...>,
             List<const Options&, After...>> {
  using Plain = Result(Before..., Option..., After...);

  // The function as a kernel of plain arguments.
  template <auto function>
  static Result pack(Before... before, Option... option, After... after) {
    return function(std::forward<Before>(before)..., Options{std::move(option)...},
                    std::forward<After>(after)...);
  }

  // A call with plain arguments, `callee` being given them.
  template <typename Callee>
  static Result unpack(const Callee& callee, Before... before, const Options& options,
                       After... after) {
    return std::apply(
        [&](const Option&... option) -> Result { return callee(before..., option..., after...); },
        unpacked(options));
  }
};

template <typename... Parameters>
using OptionsAmong = std::conditional_t<(std::is_same_v<Parameters, const ScaledOptions&> || ...),
                                        ScaledOptions, MmOptions>;

template <typename Options, typename Result, typename... Parameters>
using SplitBy = Split<Options, Result, decltype(unpacked(Options())), List<>, List<Parameters...>>;

template <typename Signature>
struct SplitOf;

template <typename Result, typename... Parameters>
struct SplitOf<Result(Parameters...)>
    : SplitBy<OptionsAmong<Parameters...>, Result, Parameters...> {};

}  // namespace detail

// The kernel to register for a function that takes `const MmOptions&`, or `const ScaledOptions&`,
// among its parameters.
template <auto function>
constexpr auto* kernel =
    &detail::SplitOf<std::remove_pointer_t<decltype(function)>>::template pack<function>;

// The typed door to an operator, whose signature has the options likewise.
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
