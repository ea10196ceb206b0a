#include "torch/override_request.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>

#include "torch/memory.h"

namespace tiled {
namespace {

using Sizes = c10::SmallVector<int64_t, 3>;

Sizes sizes_of(const Request& asked) {
  const at::Tensor &a = *asked.a, &b = *asked.b;
  switch (asked.form) {
    case Form::Matrices: return {a.size(0), b.size(1)};
    case Form::Batches: return {a.size(0), a.size(1), b.size(2)};
    case Form::MatrixVector: return {a.size(0)};
    case Form::Dot: return {};
    case Form::Groups: return {};  // they are written into no tensor that is given
  }
  return {};
}

at::ScalarType result_type(const Request& asked) {
  return asked.out_dtype.value_or(asked.a->scalar_type());
}

// Torch's tensors for integers have no products on a GPU.
bool both_compute(at::ScalarType dtype, at::DeviceType device) {
  switch (dtype) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kComplexFloat:
    case at::kComplexDouble: return true;
    case at::kChar:
    case at::kShort:
    case at::kInt:
    case at::kLong:
    case at::kByte: return device == at::kCPU;
    default: return false;
  }
}

// Torch's grouped product takes no bias yet, and its result has the operands' dtype.
bool dtypes_of_groups_fit(const Request& asked) {
  const at::ScalarType dtype = asked.a->scalar_type();
  return sums_are_floats(dtype) && asked.b->scalar_type() == dtype && result_type(asked) == dtype &&
         !asked.has_bias && (asked.offs == nullptr || asked.offs->scalar_type() == at::kInt);
}

bool dtypes_fit(const Request& asked, at::DeviceType device) {
  if (asked.form == Form::Groups) return dtypes_of_groups_fit(asked);
  const at::ScalarType dtype = asked.a->scalar_type(), result = result_type(asked);
  if (asked.of_int8)
    return dtype == at::kChar && asked.b->scalar_type() == dtype &&
           (asked.out == nullptr || asked.out->scalar_type() == result);
  return both_compute(dtype, device) && asked.b->scalar_type() == dtype &&
         (result == dtype || (result == at::kFloat && is_16_bit(dtype))) &&
         (asked.input == nullptr || asked.input->scalar_type() == dtype ||
          asked.input->scalar_type() == result) &&
         (asked.out == nullptr || asked.out->scalar_type() == result) &&
         (!asked.activation || at::isFloatingType(dtype));
}

bool shapes_of_groups_fit(const Request& asked) {
  const at::Tensor &a = *asked.a, &b = *asked.b;
  const bool a_is_matrix = a.dim() == 2, b_is_matrix = b.dim() == 2;
  if (!(a_is_matrix || a.dim() == 3) || !(b_is_matrix || b.dim() == 3)) return false;
  if (a.size(-1) != b.size(-2)) return false;
  if ((asked.offs != nullptr) != (a_is_matrix || b_is_matrix)) return false;
  if (asked.offs == nullptr) return a.size(0) == b.size(0);
  if (asked.offs->dim() != 1) return false;
  const int64_t groups = asked.offs->size(0);
  return (a_is_matrix || a.size(0) == groups) && (b_is_matrix || b.size(0) == groups);
}

bool shapes_fit(const Request& asked) {
  if (asked.form == Form::Groups) return shapes_of_groups_fit(asked);
  const at::Tensor &a = *asked.a, &b = *asked.b;
  const bool b_is_vector = asked.form == Form::MatrixVector || asked.form == Form::Dot;
  const int64_t a_dim = asked.form == Form::Dot ? 1 : asked.form == Form::Batches ? 3 : 2;
  if (a.dim() != a_dim || b.dim() != (b_is_vector ? 1 : a_dim)) return false;
  if (a.size(a_dim - 1) != b.size(b_is_vector ? 0 : a_dim - 2)) return false;
  if (asked.form == Form::Batches && a.size(0) != b.size(0)) return false;
  if (asked.input == nullptr) return true;
  const Sizes sizes = sizes_of(asked);
  return asked.input == asked.out ? asked.out->sizes() == at::IntArrayRef(sizes)
                                  : at::is_expandable_to(asked.input->sizes(), sizes);
}

// Torch's own conversions refuse what is not.
bool is_in(at::ScalarType dtype, const at::Scalar& scalar) {
  try {
    factor_of(scalar, dtype, "");
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// An out of another size is resized, and torch has done with what it was.
bool is_resized(const Request& asked) {
  return asked.out->sizes() != at::IntArrayRef(sizes_of(asked));
}

bool writable(const Request& asked) {
  const at::Tensor& out = *asked.out;
  return !out.is_conj() && !out.is_neg() &&
         (is_resized(asked) ? at::has_internal_overlap(out) != at::MemOverlap::Yes
                            : !overlaps_itself(out));
}

template <typename Predicate>
bool every_tensor(const Request& asked, const Predicate& holds) {
  for (const at::Tensor* t :
       {asked.a, asked.b, asked.input, const_cast<const at::Tensor*>(asked.out), asked.offs})
    if (t != nullptr && !holds(*t)) return false;
  return true;
}

bool reads_input(const Request& asked) {
  return asked.input != nullptr && asked.beta->toComplexDouble() != 0.;
}

// Here, since torch's views and copies of a freed tensor have other words for it, or none.
void check_read_memory(const Request& asked) {
  check_allocated(*asked.a);
  check_allocated(*asked.b);
  if (reads_input(asked)) check_allocated(*asked.input);
}

// The same elements at the same places.
bool is_same_view(const at::Tensor& x, const at::Tensor& y) {
  return x.is_same(y) || (x.const_data_ptr() == y.const_data_ptr() && x.sizes() == y.sizes() &&
                          x.strides() == y.strides() && x.scalar_type() == y.scalar_type());
}

c10::MaybeOwned<at::Tensor> without_lazy_conj(const at::Tensor& t) {
  return t.is_conj() ? c10::MaybeOwned<at::Tensor>::owned(t.resolve_conj())
                     : c10::MaybeOwned<at::Tensor>::borrowed(t);
}

EpilogueOptions epilogue_of(const Request& asked, const std::optional<at::Tensor>& out) {
  EpilogueOptions e;
  e.activation = asked.activation;
  if (asked.alpha) e.alpha = *asked.alpha;
  e.out = out;
  if (!reads_input(asked)) return e;
  at::Tensor input = *without_lazy_conj(*asked.input);
  e.beta = *asked.beta;
  if (asked.form == Form::MatrixVector) input = input.expand({asked.a->size(0)}).unsqueeze(1);
  e.input = input;
  return e;
}

// A vector is a matrix of one column, and on the left of one row.
at::Tensor product(const Request& asked, const Products& products,
                   const std::optional<at::Tensor>& out = std::nullopt) {
  const auto a = without_lazy_conj(*asked.a), b = without_lazy_conj(*asked.b);
  MmOptions options;
  options.out_dtype = asked.out_dtype;
  if (asked.form == Form::Groups)
    return products.grouped(*a, *b, asked.offs ? std::optional(*asked.offs) : std::nullopt,
                            std::nullopt, std::nullopt, options);
  if (asked.form == Form::Matrices && !asked.input && !out) return products.mm(*a, *b, options);
  if (asked.form == Form::Batches && !asked.input && !out) return products.bmm(*a, *b, options);
  const at::Tensor left = asked.form == Form::Dot ? a->unsqueeze(0) : *a;
  const bool b_is_vector = asked.form == Form::MatrixVector || asked.form == Form::Dot;
  const at::Tensor right = b_is_vector ? b->unsqueeze(1) : *b;
  return std::get<0>(products.finished(left, right, epilogue_of(asked, out), options));
}

// Dimensions may have names in torch 2.11; later versions know no such tensors.
template <typename Tensor>
auto is_named(const Tensor& t, int) -> decltype(t.has_names()) {
  return t.has_names();
}
template <typename Tensor>
bool is_named(const Tensor&, long) {
  return false;
}

}  // namespace

const char* name_of(Verdict verdict) {
  constexpr const char* NAMES[VERDICTS] = {"tiled",  "off",    "dtype", "shape", "device",
                                           "scalar", "layout", "names", "memory"};
  return NAMES[static_cast<int>(verdict)];
}

Verdict judge(const Request& asked, at::DeviceType device, const Products& products) {
  if (!dtypes_fit(asked, device)) return Verdict::Dtype;
  if (!shapes_fit(asked)) return Verdict::Shape;
  const at::Device here = asked.a->device();
  if (here.type() != device || !products.run_on(*asked.a) ||
      !every_tensor(asked, [&](const at::Tensor& t) { return t.device() == here; }))
    return Verdict::Device;
  const at::ScalarType dtype = asked.a->scalar_type();
  if (asked.input && !(is_in(dtype, *asked.beta) && is_in(dtype, *asked.alpha)))
    return Verdict::Scalar;
  if (asked.out && !writable(asked)) return Verdict::Layout;
  if (!every_tensor(asked, [](const at::Tensor& t) { return !is_named(t, 0); }))
    return Verdict::Names;
  if (!every_tensor(asked, [](const at::Tensor& t) { return !t._is_zerotensor(); }))
    return Verdict::Memory;
  return Verdict::Tiled;
}

at::Tensor compute(const Request& asked, const Products& products) {
  check_read_memory(asked);
  const at::Tensor c = product(asked, products);
  const bool has_a_vector = asked.form == Form::MatrixVector || asked.form == Form::Dot;
  return has_a_vector ? c.view(sizes_of(asked)) : c;
}

void compute_out(const Request& asked, const Products& products) {
  check_read_memory(asked);
  at::Tensor& out = *asked.out;
  const bool resized = is_resized(asked);
  // An operand that shares memory with out would be overwritten before it is read, and what memory
  // out shares when it is resized is known only then. Products with an epilogue have no whole sums
  // of int8.
  if (resized || asked.of_int8 || may_overlap(out, *asked.a) || may_overlap(out, *asked.b) ||
      (reads_input(asked) && !is_same_view(out, *asked.input) && may_overlap(out, *asked.input))) {
    const Sizes sizes = sizes_of(asked);  // taken now: out may be an operand
    const at::Tensor c = compute(asked, products);
    if (resized) at::native::resize_output(out, sizes);
    out.copy_(c);
    return;
  }
  product(asked, products, asked.form == Form::MatrixVector ? out.unsqueeze(1) : out);
}

}  // namespace tiled
