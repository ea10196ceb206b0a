"""``python -m tiled_mm``: versions, devices, what runs where, and a self-test of some seconds.

Ends with 1 where a result is wrong. ``python -m tiled_mm check --model FOLDER`` says which operator
of a model changes with the batch, and ``python -m tiled_mm tune`` measures the choice among ways.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator

import torch
from torch import Tensor

import tiled_mm

DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.complex64, torch.complex128, torch.int8, torch.int64),
)
PRECISIONS = ("ieee", "tf32", "fp16x3")


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def devices() -> list[torch.device]:
    """The CPU, and the GPUs, if this build has kernels for any."""
    count = torch.cuda.device_count() if tiled_mm.build_info()["cuda"] else 0
    return [torch.device("cpu"), *(torch.device("cuda", i) for i in range(count))]


def versions() -> Iterator[str]:
    built = tiled_mm.build_info()
    kernels = [built["portable_architectures"], built["hopper_architectures"]]
    cuda = f"CUDA {built['cuda']}, kernels for {' '.join(k for k in kernels if k)}"
    yield f"tiled-mm {built['version']}, built for torch {built['torch']}, " + (
        cuda if built["cuda"] else f"without CUDA: {built['cuda_reason']}"
    )
    yield f"torch {torch.__version__}, Python {platform.python_version()}"


def what_runs(device: torch.device) -> str:
    """The rung that the planner chooses for a product of middle size, by dtype."""
    rungs: dict[str, list[str]] = {}
    level = ""
    for dtype in DTYPES:
        a = torch.empty(1024, 1024, dtype=dtype, device=device)
        plan = tiled_mm.plan(a, a)
        rungs.setdefault(plan.algo, []).append(name(dtype))
        level = f" ({plan.level}, {plan.threads} threads)" if device.type == "cpu" else ""
    where = "CPU" if device.type == "cpu" else torch.cuda.get_device_name(device)
    return f"{device}: {where}{level}, " + "; ".join(
        f"{rung} for {', '.join(dtypes)}" for rung, dtypes in rungs.items()
    )


def wrong_results(device: torch.device, dtype: torch.dtype) -> Iterator[str]:
    """What is wrong, if anything, with products of a size that fills no tile. Of small whole
    numbers every sum is exact, so there is one right answer, of every rung."""
    exact_a, exact_b = torch.randint(-3, 4, (67, 133)), torch.randint(-3, 4, (133, 71))
    exact = (exact_a[:, :, None] * exact_b).sum(1)  # [67, 71], without any product of torch's
    a, b, right = (t.to(dtype).to(device) for t in (exact_a, exact_b, exact))
    for precision in PRECISIONS if dtype == torch.float32 else (None,):
        try:
            rungs = tiled_mm.algos(a, b, precision=precision) if device.type != "cpu" else [None]
        except NotImplementedError:  # no kernel for it on this device
            continue
        for rung in rungs:
            what = " ".join(str(x) for x in (device, name(dtype), precision, rung) if x)
            c = tiled_mm.mm(a, b, algo=rung, precision=precision)
            if not torch.equal(c, right):
                yield f"{what}: {int((c != right).sum())} of {c.numel()} elements are wrong"
            if not torch.equal(tiled_mm.mm(a[3:5], b, algo=rung, precision=precision), c[3:5]):
                yield f"{what}: two rows differ from the same rows of the whole"
    if dtype.is_floating_point:
        yield from wrong_gradients(a, b, right)


def wrong_gradients(a: Tensor, b: Tensor, right: Tensor) -> Iterator[str]:
    a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
    with tiled_mm.override():
        c = a @ b
        if not torch.equal(c, right):
            yield f"{a.device} {name(a.dtype)}: torch's product under override is wrong"
        c.sum().backward()
    expected = b.detach().double().sum(1).to(b.dtype).expand_as(a)
    if not torch.equal(a.grad, expected):
        yield f"{a.device} {name(a.dtype)}: the gradient is wrong"


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["check"]:
        from tiled_mm.invariance import _cli

        return _cli.main(arguments[1:])
    if arguments[:1] == ["tune"]:
        from tiled_mm import _tune_command

        return _tune_command.main(arguments[1:])
    if arguments:
        print("usage: python -m tiled_mm [check ... | tune ...]", file=sys.stderr)
        return 2
    torch.manual_seed(0)
    for line in versions():
        print(line)
    wrong = []
    for device in devices():
        try:
            print(what_runs(device))
        except NotImplementedError as error:  # a GPU that this build has no kernels for
            print(f"{device}: {error}")
            continue
        wrong += [text for dtype in DTYPES for text in wrong_results(device, dtype)]
    for text in wrong:
        print("WRONG:", text)
    print("self-test:", f"{len(wrong)} failures" if wrong else "all results are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
