"""Which terms of the formula pay: what the choice costs when each is left out of the fit.

    python -m bench.choice_terms RECORD... --held-out RECORD [--held-out ...] --device h100

A term is left out by fixing its number where it says nothing (a wait of no seconds, an endless
rate, a factor of one). All other numbers are fitted anew, and judged on the records held out.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import torch
import typer

from bench.choice_fit import (
    CHIP,
    TILE,
    Cost,
    console,
    costs,
    fit_to,
    fitted_seconds,
    load,
    multiprocessors_of,
    regret,
    row_name,
)

RATES = ("copy", "memory", "cache", "pair_load", "pair_memory")
ONES = ("four", "p_mn", "q_mn")
WITHOUT = {
    name: math.inf if name in RATES else 1.0 if name in ONES else 0.0
    for name in (*CHIP, *TILE)
    if name not in ("busy", "memory")  # without which there is no estimate
}


def overall(found: dict[str, list[Cost]]) -> float:
    """The families' mean, each counting alike."""
    logs = [math.log1p(regret(cases)) for cases in found.values()]
    return math.expm1(sum(logs) / len(logs))


def judged(train: list[dict], held_out: list[dict], device: str, steps: int, without: str) -> dict:
    multiprocessors = multiprocessors_of(device)
    fixed = {without: WITHOUT[without]} if without else None
    fit = fit_to(train, multiprocessors, steps, fixed)
    known = [p | {"all": [w for w in p["all"] if row_name(w) in fit.place]} for p in held_out]
    return costs(known, fitted_seconds(fit, known, multiprocessors))


def row(name: str, found: dict[str, list[Cost]], whole: dict[str, list[Cost]]) -> str:
    """What leaving it out does to all families, and to the one that it serves the most."""
    more = {f: math.log1p(regret(found[f])) - math.log1p(regret(whole[f])) for f in whole}
    most = max(more, key=more.__getitem__)
    beyond = sum(c.cost > 1.25 for cases in found.values() for c in cases)
    return (
        f"| {name} | {overall(found):.2%} | {overall(found) - overall(whole):+.2%} |"
        f" {most} {math.expm1(more[most]):+.1%} | {beyond} |"
    )


def main(
    records: list[Path],
    held_out: Annotated[list[Path], typer.Option(help="records to judge by")],
    device: Annotated[str, typer.Option(help="the records' device by name")] = "h100",
    steps: Annotated[int, typer.Option(help="of each fit")] = 400,
    only: Annotated[str, typer.Option(help="terms, with commas; or all")] = "all",
) -> None:
    """Prints a line for each term."""
    console.quiet = True
    train, rest = load(records, device), load(held_out, device)
    if torch.cuda.is_available():
        torch.set_default_device("cuda")
    whole = judged(train, rest, device, steps, "")
    print("| without | regret, all families | more | most in | beyond 1.25 x |")
    print("| --- | ---: | ---: | --- | ---: |")
    print(row("nothing", whole, whole), flush=True)
    for name in WITHOUT if only == "all" else only.split(","):
        print(row(name, judged(train, rest, device, steps, name), whole), flush=True)


if __name__ == "__main__":
    typer.run(main)
