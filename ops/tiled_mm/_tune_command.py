"""``python -m tiled_mm tune 4096x14336x4096 ... --save FILE``: tunes products of given sizes."""

from __future__ import annotations

import argparse

import torch

from ._tune import Shape, load_rules, save_rules, tune


def _sizes(text: str) -> Shape:
    try:
        sizes = tuple(int(size) for size in text.lower().split("x"))
    except ValueError:
        sizes = ()
    if len(sizes) not in (3, 4) or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"expected MxNxK or BxMxNxK, got {text!r}")
    return sizes


def _dtype(text: str) -> torch.dtype:
    found = getattr(torch, text, None)
    if not isinstance(found, torch.dtype):
        raise argparse.ArgumentTypeError(f"torch has no dtype {text!r}")
    return found


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m tiled_mm tune", description=__doc__)
    p.add_argument("sizes", nargs="+", type=_sizes, help="MxNxK, or BxMxNxK for a batch")
    p.add_argument("--dtype", type=_dtype, default=torch.bfloat16, help="default: bfloat16")
    p.add_argument("--out-dtype", type=_dtype, help="default: the operands'")
    p.add_argument("--layout", choices=("nn", "nt", "tn", "tt"), default="nt")
    p.add_argument("--precision", choices=("ieee", "tf32", "fp16x3"), help="of float32")
    p.add_argument("--device", default="cuda", help="default: the current GPU")
    p.add_argument("--load", metavar="FILE", help="what it knows is not measured again")
    p.add_argument("--save", metavar="FILE", help="for load_rules() and TILED_MM_RULES")
    return p


def main(arguments: list[str]) -> int:
    asked = parser().parse_args(arguments)
    if asked.load:
        load_rules(asked.load)
    found = tune(
        asked.sizes,
        dtype=asked.dtype,
        layout=asked.layout,
        precision=asked.precision,
        out_dtype=asked.out_dtype,
        device=asked.device,
    )
    for row in found:
        print(f"{1e6 * row.seconds:10.1f} us {row.gain:7.1%} faster  {row.product}: {row.way}")
    print(f"{len(found)} measured, {len(asked.sizes)} asked")
    if asked.save:
        save_rules(asked.save, device=asked.device)
    return 0
