r"""Every rung on the GPU over awkward shapes and layouts, for compute-sanitizer to watch:

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck \
        python python_tests/sanitize.py

and the same with synccheck, initcheck and, with --short since it is slow, racecheck. Without the
caching allocator every tensor is an allocation of its own, so a read one element past its end is
seen. The results are compared with the CPU's, bit for bit. A last line says how many products ran.
"""

from __future__ import annotations

import itertools
import sys

import cases
import tiled_mm
import torch

SHORT_DTYPES = (torch.float32, torch.float64, torch.complex128)  # one of each accumulator's size
SHAPES = ((129, 130, 7), (65, 63, 9), (5, 300, 131), (1, 1, 1))
LAYOUTS = (
    *(("n", "n"), ("t", "t"), ("n", "t"), ("t", "n")),
    *(("misaligned", "slice"), ("strided", "n")),
)
LONG = (130, 260, 4100)  # crosses a segment, and every tile in both directions


def same_bits(x: torch.Tensor, y: torch.Tensor) -> bool:
    x, y = x.cpu().contiguous(), y.cpu().contiguous()
    return torch.equal(x.view(torch.uint8), y.view(torch.uint8))


def main(short: bool) -> None:
    torch.manual_seed(0)
    products = 0
    if short:
        problems = list(itertools.product(SHAPES[:2], SHORT_DTYPES, LAYOUTS[2::2]))
    else:
        problems = list(itertools.product(SHAPES, cases.DTYPES, LAYOUTS))
        problems += [(LONG, torch.float32, layout) for layout in LAYOUTS[:4]]
    for (m, n, k), dtype, (layout_a, layout_b) in problems:
        a = cases.LAYOUTS[layout_a](m, k, dtype, "cuda")
        b = cases.LAYOUTS[layout_b](k, n, dtype, "cuda")
        expected = tiled_mm.mm(a.cpu(), b.cpu())
        out = cases.in_a_hole(cases.hole(m, n, dtype, "cuda"))
        for algo in (None, *cases.RUNGS["cuda"]):
            assert same_bits(tiled_mm.mm(a, b, algo=algo), expected), (m, n, k, dtype, algo)
            tiled_mm.mm(a, b, algo=algo, out=out)
            assert same_bits(out, expected), (m, n, k, dtype, algo, "out=")
            batch = tiled_mm.bmm(a.expand(3, m, k), b.expand(3, k, n), algo=algo)
            assert all(same_bits(entry, expected) for entry in batch), (m, n, k, dtype, algo)
            products += 3
    torch.cuda.synchronize()
    print(f"{products} products, all with the bits of the CPU")


if __name__ == "__main__":
    main(short="--short" in sys.argv[1:])
