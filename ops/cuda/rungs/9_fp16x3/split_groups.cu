// Operands of groups that share out K in two fp16 planes, as split.cu says: a row has a scale for
// every group, of the group's part of K alone. In the planes that part begins at place_of_group(),
// and is zero from its end to the next multiple of 64: the product takes whole steps.
//
// A thread takes a row of a group, which neighbours in memory share with the threads beside it
// where the operand lies along its rows, as gradients of weights have both.
#include "cuda/parts/group_scan.cuh"
#include "cuda/rungs/9_fp16x3/layout.h"
#include "cuda/rungs/9_fp16x3/split.cuh"

namespace tiled {
namespace {

constexpr int UNROLL = 8;  // loads on their way

__global__ void __launch_bounds__(SPLIT_GROUPS_THREADS) split_groups(const SplitArguments args) {
  begin(args);
  clear(args);
  const int count = static_cast<int>(args.batch);
  GroupScan scan(args.groups, count, static_cast<int>(args.k), /*has_rest=*/false,
                 [](int, int) -> uint32_t { return 1; });
  const int64_t row = int64_t{blockIdx.x} * SPLIT_GROUPS_THREADS + threadIdx.x;
  for (int group = blockIdx.y; group < count; group += gridDim.y) {
    const GroupTile part = scan.at(group);  // by whole warps
    if (row >= args.rows) continue;
    const int length = part.end - part.begin;
    const float* from = args.from + row * args.from_row + part.begin * args.from_k;
    MagnitudeRange range;
#pragma unroll UNROLL
    for (int k = 0; k < length; ++k) range.include(__ldg(from + k * args.from_k));
    const Scale scale(range.most);
    __half* const to = args.to + row * args.to_row + place_of_group(part.begin, group) * args.to_k;
    unsigned long long lost = 0;
#pragma unroll UNROLL
    for (int k = 0; k < length; ++k) {
      const Fp16Parts parts = scale.split(__ldg(from + k * args.from_k));
      to[k * args.to_k] = parts.hi, to[args.plane + k * args.to_k] = parts.lo;
      lost += parts.lost;
    }
    for (int k = length; k % 64 != 0; ++k)
      to[k * args.to_k] = to[args.plane + k * args.to_k] = __half();
    args.scales[group * args.rows + row] = scale.result(lost);
  }
  end(args);
}

}  // namespace

Kernel<SplitArguments> split_groups_kernel() { return &split_groups; }

}  // namespace tiled
