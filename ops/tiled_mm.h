// tiled-mm, the C++ door: matrix products with gradients on CPU and CUDA.
//
//   #include <tiled_mm.h>
//   at::Tensor c = tiled::mm(a, b);                                // [M, K] x [K, N] -> [M, N]
//   at::Tensor d = tiled::mm(a, b, {.algo = "shared_tile_16"});    // C++20; or fill a MmOptions
//
// All functions go through PyTorch's dispatcher, so autograd, autocast and functorch see them.
// Errors are c10::Error (torch.mm's texts) and are raised before any work is done.
#pragma once

#include <ATen/core/Scalar.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The library shows this to the outside; everything else has hidden visibility.
#define TILED_MM_API __attribute__((visibility("default")))

namespace tiled {

struct MmOptions {
  // A rung by name (see algos()); the planner's choice if empty. The backward uses the same.
  std::optional<std::string_view> algo = {};
  // For float32 inputs: "ieee" (fp32 chains), "tf32" (operands rounded to 11 bits) or "fp16x3"
  // (fp32's error bound from tensor cores); if empty the library's setting, else torch's.
  std::optional<std::string_view> precision = {};
  // The inputs' dtype if empty; at::kFloat for fp16 and bf16 inputs gives the unrounded sum, and
  // at::kInt for int8 and uint8 inputs of mm and bmm the sum modulo 2^32, not its low 8 bits.
  std::optional<at::ScalarType> out_dtype = {};
  // In which order K is summed: "chain"; "tree", whose leaves have 1024 to 2047 of K; or
  // "tree:LEAF" for others, LEAF a power of two from 16 to 16384. The library's setting if empty.
  // The backward uses the same. See docs/contract.md.
  std::optional<std::string_view> sum_order = {};
};

// C[M, N] = A[M, K] B[K, N]. Both operands have one dtype: float, double, half, bfloat16, complex
// float or double, int8, int16, int32, int64 or uint8; any strides; one device, CPU or CUDA.
// The result is contiguous.
TILED_MM_API at::Tensor mm(const at::Tensor& a, const at::Tensor& b, const MmOptions& options = {});

// The same into `out` [M, N], which has the result's dtype and device; a tensor of no elements is
// resized. `out` may overlap an input. Returns `out`.
TILED_MM_API at::Tensor& mm_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                                const MmOptions& options = {});

// C[i] = A[i] B[i]: [B, M, K] x [B, K, N] -> [B, M, N]. Each entry has the bits of mm().
TILED_MM_API at::Tensor bmm(const at::Tensor& a, const at::Tensor& b,
                            const MmOptions& options = {});

// The same into `out`, as mm_out().
TILED_MM_API at::Tensor& bmm_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                                 const MmOptions& options = {});

struct AddmmOptions {
  at::Scalar beta = 1, alpha = 1;
  // For real floating-point results: "relu", "gelu", "gelu_tanh" or "silu"; none if empty.
  std::optional<std::string_view> activation = {};
  // As MmOptions'.
  std::optional<std::string_view> algo = {}, precision = {};
  std::optional<at::ScalarType> out_dtype = {};
  std::optional<std::string_view> sum_order = {};
};

// C = activation(beta input + alpha A B), rounded once, to the result's dtype: [M, K] x [K, N] ->
// [M, N], with mm()'s sums. `input` expands to that; its dtype is A's, or, where that is float,
// half or bfloat16, any of these. Where beta is 0 it is not read.
TILED_MM_API at::Tensor addmm(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b,
                              const AddmmOptions& options = {});

// The same into `out`, as mm_out(); `out` may be the input itself, and overlaps nothing else that
// is read. A float `out` of 16-bit operands, with out_dtype = at::kFloat, accumulates in float.
TILED_MM_API at::Tensor& addmm_out(at::Tensor& out, const at::Tensor& input, const at::Tensor& a,
                                   const at::Tensor& b, const AddmmOptions& options = {});

// addmm() of every entry of a batch: [B, M, K] x [B, K, N] -> [B, M, N].
TILED_MM_API at::Tensor baddbmm(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b,
                                const AddmmOptions& options = {});
TILED_MM_API at::Tensor& baddbmm_out(at::Tensor& out, const at::Tensor& input, const at::Tensor& a,
                                     const at::Tensor& b, const AddmmOptions& options = {});

struct LinearOptions {
  // As AddmmOptions'.
  std::optional<std::string_view> activation = {};
  std::optional<std::string_view> algo = {}, precision = {};
  std::optional<at::ScalarType> out_dtype = {};
  std::optional<std::string_view> sum_order = {};
};

// activation(x weight^T + bias), rounded once: x [..., K] with any number of leading dimensions,
// weight [N, K] and bias [N] -> [..., N]. Errors are torch.nn.functional.linear's.
TILED_MM_API at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias = std::nullopt,
                               const LinearOptions& options = {});

// The same into `out`, as mm_out(); it overlaps nothing that is read.
TILED_MM_API at::Tensor& linear_out(at::Tensor& out, const at::Tensor& x, const at::Tensor& weight,
                                    const std::optional<at::Tensor>& bias = std::nullopt,
                                    const LinearOptions& options = {});

struct GroupedOptions {
  // int32 or int64 [E] on the operands' device: the groups' cumulative ends in the size that they
  // share out. None for two batches.
  std::optional<at::Tensor> offs = {};
  std::optional<at::Tensor> bias = {};  // [E, N]; none where groups share out the columns of b
  // As AddmmOptions'.
  std::optional<std::string_view> activation = {};
  std::optional<std::string_view> algo = {}, precision = {};
  std::optional<at::ScalarType> out_dtype = {};
  std::optional<std::string_view> sum_order = {};
};

// The products of E groups, each with the bits of mm(), in one of four forms:
//   a [T, K], b [E, K, N] -> [T, N]     groups share out the rows of a (a layer of experts)
//   a [E, M, K], b [K, T] -> [M, T]     the columns of b
//   a [M, T], b [T, N] -> [E, M, N]     K (the experts' weight gradients)
//   a [E, M, K], b [E, K, N] -> [E, M, N]: bmm(), without offsets
// Groups may be empty. Rows or columns of C behind the last end are zero, and what stands there in
// the operands is not read into any sum. Offsets that decrease or leave the size that is shared out
// are a c10::Error on the CPU; on CUDA each end counts as at least the one before and at most that
// size. See docs/grouped.md for what waits for the device.
TILED_MM_API at::Tensor grouped_mm(const at::Tensor& a, const at::Tensor& b,
                                   const GroupedOptions& options = {});

// The same into `out`, as mm_out(); it overlaps nothing that is read.
TILED_MM_API at::Tensor& grouped_mm_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                                        const GroupedOptions& options = {});

struct ScaledOptions {
  std::optional<at::Tensor> offs = {};  // as GroupedOptions'
  std::optional<at::Tensor> bias = {};  // [N], of groups [E, N]: float, half or bfloat16
  // The parts that have a scale of their own, as torch's ScalingType has it: "TensorWise",
  // "RowWise", "BlockWise1x128" or "BlockWise128x128"; by the shape of the scales if empty.
  std::optional<std::string_view> recipe_a = {}, recipe_b = {};
  // at::kBFloat16 (if empty), at::kHalf or at::kFloat.
  std::optional<at::ScalarType> out_dtype = {};
  std::optional<std::string_view> activation = {};  // as AddmmOptions'
  std::optional<std::string_view> sum_order = {};   // as MmOptions'
};

// C = activation((scale_a A) (scale_b B) + bias), rounded once, of fp8 (e4m3fn and e5m2, mixed or
// not) or of int8 by int8: a [M, K], b [K, N], any strides -> [M, N], or the forms of grouped_mm().
// Scales are float and of any strides: one element; [M, 1] and [1, N]; of fp8 also a scale for 128
// of K of each row, [M, ceil(K / 128)] and [ceil(K / 128), N], or of each 128 rows,
// [ceil(M / 128), ceil(K / 128)] and [ceil(K / 128), ceil(N / 128)]; each side in its own way. See
// docs/fp8.md for the order of the sums and for the scales of groups. There are no gradients.
TILED_MM_API at::Tensor scaled_mm(const at::Tensor& a, const at::Tensor& b,
                                  const at::Tensor& scale_a, const at::Tensor& scale_b,
                                  const ScaledOptions& options = {});

// The same into `out`, as mm_out(); it overlaps nothing that is read.
TILED_MM_API at::Tensor& scaled_mm_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                                       const at::Tensor& scale_a, const at::Tensor& scale_b,
                                       const ScaledOptions& options = {});

// The rungs that compute these inputs, from the simplest to the fastest.
TILED_MM_API std::vector<std::string> algos(const at::Tensor& a, const at::Tensor& b,
                                            const MmOptions& options = {},
                                            std::optional<std::string_view> device = std::nullopt);

// A text that says what would run on these inputs and what bounds it. Computes nothing. `device`
// names a GPU to plan for ("h200", "a100", ..., see docs/gpus.md); otherwise the tensors' own
// device. `verbose` lists every way that the rung has for the problem, not only the four best.
TILED_MM_API std::string explain(const at::Tensor& a, const at::Tensor& b,
                                 const MmOptions& options = {},
                                 std::optional<std::string_view> device = std::nullopt,
                                 bool verbose = false);

// The same as a JSON object.
TILED_MM_API std::string plan(const at::Tensor& a, const at::Tensor& b,
                              const MmOptions& options = {},
                              std::optional<std::string_view> device = std::nullopt);

// How far a product of out_of_core() is.
struct OutOfCoreProgress {
  int64_t tiles_done, tiles;    // of C; a tile that is not done has not been touched
  int64_t bytes_in, bytes_out;  // moved to the devices and back
  double seconds;               // since the begin
  double flops_done;            // of the tiles that are done
};

struct OutOfCoreOptions {
  std::optional<std::string_view> precision;  // as of MmOptions
  std::optional<at::ScalarType> out_dtype;    // as of MmOptions
  std::vector<at::Device> devices;            // CUDA devices; the current one if empty
  std::optional<int64_t> memory;  // bytes of each device; what is free, less a margin, if empty
  bool copy = true;               // else kernels read a and b, which must be pinned, where they are
  // Called now and then by the calling thread. If it throws, the product ends: threads and memory
  // are cleaned up, and out_of_core() throws it on.
  std::function<void(const OutOfCoreProgress&)> progress;
};

// C[M, N] = A[M, K] B[K, N] of CPU tensors, computed on GPUs that need not have room for them:
// tiles are streamed over one or several GPUs while they compute. The bits are those of mm() on
// such a GPU. Any strides, memory-mapped files too; pinned memory is the fastest. No gradients. See
// docs/scale.md.
TILED_MM_API at::Tensor out_of_core(const at::Tensor& a, const at::Tensor& b,
                                    const OutOfCoreOptions& options = {});

// The same into `out` [M, N] on the CPU, of the result's dtype, which shares no memory with a or b.
// Where the call fails, every tile of `out` is as it was or done.
TILED_MM_API at::Tensor& out_of_core_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                                         const OutOfCoreOptions& options = {});

// The plan as text: tiles, bytes over the link each way, and which rate bounds the product. a and b
// may be meta tensors. `device` names a GPU to plan for, with options.devices.size() of them.
TILED_MM_API std::string explain_out_of_core(const at::Tensor& a, const at::Tensor& b,
                                             const OutOfCoreOptions& options = {},
                                             std::optional<std::string_view> device = std::nullopt);

// The library-wide precision of float32 products: "ieee", "tf32", "fp16x3", or nothing to follow
// torch's own setting (the state at start). For all threads.
TILED_MM_API void set_float32_precision(std::optional<std::string_view> precision);
TILED_MM_API std::optional<std::string> get_float32_precision();

namespace detail {
TILED_MM_API int64_t enter_float32_precision(std::optional<std::string_view> precision);
TILED_MM_API bool leave_float32_precision(int64_t block) noexcept;  // whether it was open
}  // namespace detail

// Sets the library-wide precision for a scope. Scopes of several threads may interleave: of those
// that are open the one entered last decides. set_float32_precision() in one counts until its end.
class Float32Precision {
 public:
  explicit Float32Precision(std::optional<std::string_view> precision)
      : block_(detail::enter_float32_precision(precision)) {}
  ~Float32Precision() { detail::leave_float32_precision(block_); }
  Float32Precision(const Float32Precision&) = delete;
  Float32Precision& operator=(const Float32Precision&) = delete;

 private:
  const int64_t block_;
};

// The library-wide order of sums, a name as of MmOptions::sum_order; "chain" at start. For all
// threads. A product whose gradients are wanted reads it once.
TILED_MM_API void set_sum_order(std::string_view order);
TILED_MM_API std::string get_sum_order();

namespace detail {
TILED_MM_API int64_t enter_sum_order(std::string_view order);
TILED_MM_API bool leave_sum_order(int64_t block) noexcept;  // whether it was open
}  // namespace detail

// Sets it for a scope, as Float32Precision does.
class SumOrder {
 public:
  explicit SumOrder(std::string_view order) : block_(detail::enter_sum_order(order)) {}
  ~SumOrder() { detail::leave_sum_order(block_); }
  SumOrder(const SumOrder&) = delete;
  SumOrder& operator=(const SumOrder&) = delete;

 private:
  const int64_t block_;
};

namespace detail {
TILED_MM_API void enter_tuning();
TILED_MM_API void leave_tuning() noexcept;
}  // namespace detail

// Within such a scope, of any thread, every product on a GPU whose class (sizes, layouts, dtypes,
// precision, scales, epilogue) has not been measured measures the two dozen ways that are estimated
// to be the fastest (hundredths of a second's work, a hundred times a long product's), and the
// fastest is taken from then on. No result changes by a bit. Candidates write to scratch memory.
// While a CUDA graph is captured nothing is measured.
class Tuning {
 public:
  Tuning() { detail::enter_tuning(); }
  ~Tuning() { detail::leave_tuning(); }
  Tuning(const Tuning&) = delete;
  Tuning& operator=(const Tuning&) = delete;
};

// Writes what is known of a GPU's choices, that of `device` ("cuda:1", or one that can be planned
// for, as "h200") or of the current one, with what the file has already; it is written whole, then
// renamed, and writers at once wait for each other. A file of another GPU or version is left as it
// is, with a c10::Error.
TILED_MM_API void save_rules(std::string_view path,
                             std::optional<std::string_view> device = std::nullopt);
// Adds the choices of a file to those that are known, and returns how many classes it has ways
// for. A c10::Error where it cannot be read, is damaged, or was made by another version or on
// another GPU. TILED_MM_RULES names one that is read at a program's first product.
TILED_MM_API int64_t load_rules(std::string_view path);

// While it is on, torch's own products (mm, addmm, bmm, baddbmm, addmv, dot, grouped_mm and their
// variants, and what is made of them: matmul, linear, einsum, ...) are computed by this library,
// for all threads: on at::kCPU, on at::kCUDA or, with nothing, on both. What the library does not
// compute goes on to torch's kernels. Each enable needs a disable, else a c10::Error; enabling a
// device for the first time registers the kernels. Raises NotImplementedError for at::kCUDA in a
// build without it.
TILED_MM_API void enable_override(std::optional<at::DeviceType> device = std::nullopt);
TILED_MM_API void disable_override(std::optional<at::DeviceType> device = std::nullopt);

// Counts of what computed torch's products since the last reset: a JSON object with a member for
// each operator that was called, {"mm": {"tiled": 3, "torch": {"dtype": 1}}}. What torch computed
// is by reason.
TILED_MM_API std::string override_counts(bool reset = false);

namespace detail {
TILED_MM_API void leave_override(std::optional<at::DeviceType> device) noexcept;
}  // namespace detail

// Overrides for a scope. Its end raises nothing: where disable_override() has taken back what the
// scope enabled, it does nothing.
class Override {
 public:
  explicit Override(std::optional<at::DeviceType> device = std::nullopt) : device_(device) {
    enable_override(device_);
  }
  ~Override() { detail::leave_override(device_); }
  Override(const Override&) = delete;
  Override& operator=(const Override&) = delete;

 private:
  std::optional<at::DeviceType> device_;
};

// Including this header is enough to have the operators: the reference below makes a linker with
// --as-needed keep the library even if the program names none of its functions.
namespace detail {
TILED_MM_API void keep_registrations();
[[gnu::used]] inline void (*const keep)() = &keep_registrations;
}  // namespace detail

}  // namespace tiled
