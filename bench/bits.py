"""Whether two builds of the library give the same bits, on a fixed list of products.

    python -m bench.bits record OLD.json [--device cpu|cuda] [--library OLD/libtiled_mm.so]
    python -m bench.bits record NEW.json [--device cpu|cuda]
    python -m bench.bits compare OLD.json NEW.json

A file holds a hash of every result of the list (bench/bits_list.py), by the planner and by each
rung that takes the product. compare says which differ or are gone, and fails if any. Which NaN a
result holds is no part of the contract, so all count as the same one. A build or a GPU without the
kernels of a precision has no results of it. A CPU's bits are those of its
instruction level and a GPU's those of its compute capability: files of other ones are refused.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from bench import machine
from bench.arguments import pick_device
from bench.bits_list import Product, memory, operands, products

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
SHOWN = 40  # names that compare prints of one kind


# ---- a result's bits ----------------------------------------------------------------------------


INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # that NumPy has, by their bytes


def digest(x: Tensor) -> str:
    """Of the bits of each element, every NaN being the same one."""
    x = x.cpu()
    if x.is_complex():
        x = torch.view_as_real(x)
    if x.is_floating_point():
        x = torch.where(x.isnan(), torch.full_like(x, torch.nan), x)
        x = x.view(INTEGERS[x.element_size()])
    return hashlib.sha256(x.numpy().tobytes()).hexdigest()[:16]


def result(product: Product, a: Tensor, b: Tensor, algo: str | None) -> Tensor:
    """C; of an out= all the memory around it too, so that writing beside it is seen."""
    import tiled_mm

    out_dtype = product.out_dtype and getattr(torch, product.out_dtype)
    asked = {"algo": algo, "precision": product.precision, "out_dtype": out_dtype}
    if product.batch:
        return tiled_mm.bmm(a, b, **asked)
    if product.out == "new":
        return tiled_mm.mm(a, b, **asked)
    whole, out = memory((product.m, product.n), product.out, out_dtype or a.dtype, a.device)
    tiled_mm.mm(a, b, **asked, out=out)
    return whole


def rungs(product: Product, a: Tensor, b: Tensor) -> list[str]:
    import tiled_mm

    out_dtype = product.out_dtype and getattr(torch, product.out_dtype)
    return tiled_mm.algos(a, b, precision=product.precision, out_dtype=out_dtype)


def moved(x: Tensor, device: torch.device) -> Tensor:
    """With its strides and its offset, which .to() does not keep."""
    if device.type == "cpu":
        return x
    flat = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
    return flat.to(device).as_strided(x.shape, x.stride(), x.storage_offset())


def arithmetic_of(device: torch.device) -> str:
    """What the bits depend on beside the library."""
    import tiled_mm

    if device.type == "cpu":
        one = torch.ones(1, 1)
        return f"cpu, level {tiled_mm.plan(one, one).level}"
    return "cuda, compute capability {}.{}".format(*torch.cuda.get_device_capability(device))


def record_here(path: Path, device: torch.device, listed: Iterable[Product]) -> int:
    """How many results."""
    from tiled_mm._load import LIBRARY

    found, drawn = {}, hashlib.sha256()
    for product in listed:
        a, b = operands(product)
        drawn.update((digest(a) + digest(b)).encode())
        a, b = moved(a, device), moved(b, device)
        try:
            algos = rungs(product, a, b)
        except NotImplementedError:  # a precision without a kernel in this build or on this device
            continue
        for algo in (None, *algos):
            found[f"{product.name}: {algo or 'planner'}"] = digest(result(product, a, b, algo))
    document = {
        "arithmetic": arithmetic_of(device),
        "operands": drawn.hexdigest(),
        "library": hashlib.sha256(LIBRARY.read_bytes()).hexdigest(),
        "environment": machine.environment(device),
        "results": found,
    }
    path.write_text(json.dumps(document, indent=0) + "\n")
    return len(found)


# ---- the two commands ---------------------------------------------------------------------------


def environment_with(library: Path, folder: Path) -> dict[str, str]:
    """The environment of a process whose tiled_mm, a copy of the package, loads this library. The
    package is found without being imported."""
    installed = Path(importlib.util.find_spec("tiled_mm").origin).parent
    package = folder / "tiled_mm"
    shutil.copytree(installed, package, ignore=shutil.ignore_patterns("lib", "__pycache__"))
    (package / "lib").mkdir()
    shutil.copy(library, package / "lib" / "libtiled_mm.so")
    return {**os.environ, "PYTHONPATH": str(folder)}


@app.command()
def record(
    path: Path,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    library: Annotated[Path | None, typer.Option(help="in place of the installed one")] = None,
) -> None:
    """Runs the list and writes the hashes."""
    if library is None:
        print(f"{record_here(path, pick_device(device), products())} results recorded")
        return
    # By a process of its own: this one has imported the package, and it can load one library only.
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.bits", "record", str(path.resolve())]
        environment = environment_with(library, Path(folder))
        done = subprocess.run(
            [*command, "--device", device], cwd=machine.ROOT, env=environment, check=False
        )
    if done.returncode != 0:
        raise typer.Exit(done.returncode)


@app.command()
def compare(old: Path, new: Path) -> None:
    """Prints what differs and how many were compared; fails where anything of OLD does, or is gone.
    Results that only NEW has, of a rung that did not take the product before, are counted alone."""
    before, after = (json.loads(path.read_text()) for path in (old, new))
    for what in ("arithmetic", "operands"):
        if before[what] != after[what]:
            print(f"not comparable: {what} {before[what]!r} and {after[what]!r}")
            raise typer.Exit(2)
    before, after = before["results"], after["results"]
    gone = [name for name in before if name not in after]
    common = [name for name in before if name in after]
    different = [name for name in common if before[name] != after[name]]
    for kind, names in (("differs", different), ("gone", gone)):
        for name in names[:SHOWN]:
            print(f"{kind}: {name}")
        if len(names) > SHOWN:
            counts = Counter(name.rpartition(": ")[2] for name in names)
            print(
                f"{kind}: {len(names)} in all, " + ", ".join(f"{n} {c}" for n, c in counts.items())
            )
    print(
        f"{len(common)} compared: {len(different)} differ; {len(gone)} gone; "
        f"{len(after) - len(common)} only in the new"
    )
    if different or gone or not common:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
