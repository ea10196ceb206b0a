"""torch.library.opcheck, torch.compile, torch.export and AOTInductor."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import cases
import pytest
import rungs
import tiled_mm
import torch
from cases import each
from golden import assert_same_bits

ALL_CHECKS = (
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_static",
    "test_aot_dispatch_dynamic",
)


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def opcheck(op, args: tuple, kwargs: dict) -> None:
    """Results are compared with the same operator's, so bit for bit."""
    torch.library.opcheck(op, args, kwargs, test_utils=ALL_CHECKS, atol=0, rtol=0)


def samples(device: str) -> Iterator[tuple[str, tuple, dict]]:
    def pair(dtype: torch.dtype, m: int = 5, n: int = 6, k: int = 7):
        return cases.pair(m, n, k, dtype, device)

    yield "float32", pair(torch.float32), {}
    a, b = pair(torch.float32)
    yield "gradients", (a.requires_grad_(), b.requires_grad_()), {}
    a, b = pair(torch.float64)
    yield "one gradient, a rung", (a, b.requires_grad_()), {"algo": "naive"}
    a, b = pair(torch.complex64)
    yield "complex", (a.requires_grad_(), b.requires_grad_()), {}
    yield "int8", pair(torch.int8), {}
    yield "int32 output", pair(torch.uint8), {"out_dtype": torch.int32}
    a, b = pair(torch.bfloat16)
    yield (
        "fp32 output",
        (a.requires_grad_(), b.requires_grad_()),
        {"out_dtype": torch.float32, "precision": "ieee"},
    )
    yield "transposed", tuple(x.mT.contiguous().mT for x in pair(torch.float32)), {}
    yield "column", pair(torch.float32, 1, 1, 7), {"precision": "ieee"}
    yield "empty", pair(torch.float32, 0, 6, 7), {}
    yield "no terms", pair(torch.float32, 5, 6, 0), {}


NAMES = tuple(name for name, _, _ in samples("cpu"))


@each("name", NAMES)
def test_opcheck_mm(device: str, name: str) -> None:
    ((args, kwargs),) = ((a, k) for n, a, k in samples(device) if n == name)
    opcheck(torch.ops.tiled.mm.default, args, kwargs)


@each("name", tuple(name for name in NAMES if "gradient" not in name))
def test_opcheck_mm_out(device: str, name: str) -> None:
    ((args, kwargs),) = ((a, k) for n, a, k in samples(device) if n == name)
    args = tuple(x.detach() for x in args)
    dtype = kwargs.get("out_dtype", args[0].dtype)
    out = cases.hole(args[0].shape[0], args[1].shape[1], dtype, device)
    opcheck(torch.ops.tiled.mm.out, args, {**kwargs, "out": out})
    args, out = tuple(x[None] for x in args), out[None]
    opcheck(torch.ops.tiled.bmm.out, args, {**kwargs, "out": out})


@each("name", NAMES)
def test_opcheck_bmm(device: str, name: str) -> None:
    ((args, kwargs),) = ((a, k) for n, a, k in samples(device) if n == name)
    args = tuple(torch.stack([x.detach()] * 3).requires_grad_(x.requires_grad) for x in args)
    opcheck(torch.ops.tiled.bmm.default, args, kwargs)


def every_keyword(algos: tuple[str, ...]) -> Callable:
    """A function that uses every keyword of mm, and bmm, and out=."""

    def products(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        results = [tiled_mm.mm(a, b), tiled_mm.mm(a, b, precision="ieee")]
        for algo in algos:
            results.append(tiled_mm.mm(a, b, algo=algo))
        half_a, half_b = a.bfloat16(), b.bfloat16()
        results.append(tiled_mm.mm(half_a, half_b))
        results.append(tiled_mm.mm(half_a, half_b, out_dtype=torch.float32))
        results.append(tiled_mm.bmm(a[None], b[None]))
        results.append(torch.ops.tiled.mm(b.t(), a.t()))
        return results

    return products


@each("backend", ("aot_eager", "inductor"))
def test_compiled_with_every_keyword_and_gradients(device: str, backend: str) -> None:
    function = every_keyword(rungs.RUNGS[device])
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=backend)

    def run(function: Callable, a: torch.Tensor, b: torch.Tensor):
        a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
        results = function(a, b)
        grads = torch.autograd.grad([c.sum() for c in results], (a, b))
        return results, grads

    shapes = ((5, 6, 7), (33, 18, 21), (70, 3, 12))
    for i, shape in enumerate(shapes):
        # Small integers: the compiler may add up gradients in another order.
        m, n, k = shape
        a, b = (torch.randint(-3, 4, s).float().to(device) for s in ((m, k), (k, n)))
        stance = "fail_on_recompile" if i else "default"
        with torch.compiler.set_stance(stance):
            results, grads = run(compiled, a, b)
        expected, expected_grads = run(function, a, b)
        for x, y in zip(results, expected, strict=True):
            assert_same_bits(x, y)
            assert x.stride() == y.stride()
        for x, y in zip(grads, expected_grads, strict=True):
            assert torch.equal(x, y)


def test_compiled_gradients_keep_their_bits(device: str) -> None:
    def gradient(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(tiled_mm.mm(a, b).sum(), (a, b))

    a, b = (x.requires_grad_() for x in cases.pair(33, 18, 21, torch.float32, device))
    loss = torch.compile(
        lambda x, y: tiled_mm.mm(x, y).sum(), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    for x, y in zip(torch.autograd.grad(loss(a, b), (a, b)), gradient(a, b), strict=True):
        assert_same_bits(x, y)


@each("backend", ("aot_eager", "inductor"))
def test_compiled_out(device: str, backend: str) -> None:
    def into(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        tiled_mm.mm(a, b, out=out)
        return out + 1

    a, b = cases.pair(5, 6, 7, torch.float32, device)
    out = cases.hole(5, 6, torch.float32, device)
    result = torch.compile(into, fullgraph=True, dynamic=True, backend=backend)(a, b, out)
    assert_same_bits(out, tiled_mm.mm(a, b))
    assert_same_bits(result, out + 1)


def test_compiled_autocast_and_vmap(device: str) -> None:
    def mixed(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast(device, dtype=torch.bfloat16):
            c = tiled_mm.mm(a, b)
        return c, torch.vmap(tiled_mm.mm, (None, 0))(a, torch.stack([b, 2 * b]))

    a, b = cases.pair(5, 6, 7, torch.float32, device)
    compiled = torch.compile(mixed, fullgraph=True, dynamic=True, backend="aot_eager")
    for x, y in zip(compiled(a, b), mixed(a, b), strict=True):
        assert_same_bits(x, y)


def test_errors_while_compiling(device: str) -> None:
    compiled = torch.compile(tiled_mm.mm, fullgraph=True, dynamic=True, backend="aot_eager")
    a, b = cases.pair(5, 6, 7, torch.float32, device)
    with pytest.raises(Exception, match="cannot be multiplied"):
        compiled(a, b[:-1])


class Layer(torch.nn.Module):
    """A module that uses the operators with a dynamic number of rows."""

    def __init__(self, device: str, algo: str | None = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(cases.fill(16, 12, torch.float32, device))
        self.algo = algo

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(tiled_mm.mm(x, self.weight, algo=self.algo, precision="ieee"))
        low = tiled_mm.mm(hidden.bfloat16(), self.weight.t().bfloat16())
        return low.float() + tiled_mm.bmm(hidden[None], self.weight.t()[None])[0]


class WideLayer(Layer):
    """The same with an fp32 result of 16-bit operands."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return tiled_mm.mm(x.bfloat16(), self.weight.bfloat16(), out_dtype=torch.float32)


def exported(layer: Layer, device: str) -> torch.export.ExportedProgram:
    rows = torch.export.Dim("rows", min=2, max=4096)
    example = (cases.fill(5, 16, torch.float32, device),)
    return torch.export.export(layer, example, dynamic_shapes=({0: rows},))


def test_export(device: str) -> None:
    for layer in (
        *(Layer(device, algo) for algo in (None, *rungs.RUNGS[device])),
        WideLayer(device),
    ):
        program = exported(layer, device)
        targets = {str(node.target) for node in program.graph.nodes}
        assert "tiled.mm.default" in targets and not any("aten.mm" in name for name in targets)
        for rows in (2, 5, 70):
            x = cases.fill(rows, 16, torch.float32, device)
            assert_same_bits(program.module()(x), layer(x))


PLAIN_PACKAGE = """
import sys, torch
class Layer(torch.nn.Module):
    def forward(self, x):
        return torch.mm(x, x)
x = torch.ones(4, 4, device=sys.argv[1])
package = torch._inductor.aoti_compile_and_package(
    torch.export.export(Layer(), (x,)), package_path=sys.argv[2]
)
torch._inductor.aoti_load_package(package)(x)
"""


@pytest.fixture
def packages_load(device: str, tmp_path: Path) -> None:
    """Some installations of torch crash when they load any package; then ours cannot be tried."""
    command = [sys.executable, "-c", PLAIN_PACKAGE, device, str(tmp_path / "plain.pt2")]
    plain = subprocess.run(command, capture_output=True, text=True)
    if plain.returncode != 0:
        pytest.skip(f"AOTInductor fails for torch.mm too on this machine ({plain.returncode})")


def check_packaged(layer: Layer, device: str, path: Path) -> None:
    """Compiled ahead of time, saved, loaded and run with several numbers of rows."""
    package = torch._inductor.aoti_compile_and_package(
        exported(layer, device), package_path=str(path / "layer.pt2")
    )
    loaded = torch._inductor.aoti_load_package(package)
    for rows in (2, 5, 70):
        x = cases.fill(rows, 16, torch.float32, device)
        assert_same_bits(loaded(x), layer(x))


def test_aot_inductor(packages_load: None, device: str, tmp_path: Path) -> None:
    check_packaged(Layer(device, "naive"), device, tmp_path)


@pytest.mark.skipif(
    torch.__version__ < torch.torch_version.TorchVersion("2.12"),
    reason="AOTInductor before torch 2.12 hands an operator another dtype than was written "
    "(pytorch/pytorch#169157)",
)
def test_aot_inductor_with_fp32_output(packages_load: None, device: str, tmp_path: Path) -> None:
    check_packaged(WideLayer(device), device, tmp_path)


def test_meta_tensors_have_the_shape_dtype_and_strides_of_the_result(device: str) -> None:
    for (m, n, k), dtype in itertools.product(
        (*cases.SHAPES, *cases.EMPTY_SHAPES), (torch.float32, torch.bfloat16, torch.int8)
    ):
        out_dtype = torch.float32 if dtype == torch.bfloat16 else None
        a, b = cases.pair(m, n, k, dtype, device)
        real = tiled_mm.mm(a, b, out_dtype=out_dtype)
        meta = tiled_mm.mm(a.to("meta"), b.to("meta"), out_dtype=out_dtype)
        assert meta.is_meta
        assert (meta.shape, meta.dtype, meta.stride()) == (real.shape, real.dtype, real.stride())
