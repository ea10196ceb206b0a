"""What Inductor writes for an H100 with tiled_mm.inductor_options, seen without one."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from unittest import mock

import pytest
import tiled_mm
import torch
from tiled_mm import _inductor
from torch import Tensor

F = torch.nn.functional
BF16 = torch.bfloat16

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available() or torch.__version__ >= torch.torch_version.TorchVersion("2.12"),
    reason="what torch 2.11's Inductor writes is looked at without a GPU",
)


@pytest.fixture(autouse=True)
def needs_triton() -> None:
    pytest.importorskip("triton", reason="needs triton")


@contextlib.contextmanager
def a_gpu_on_paper() -> Iterator[None]:
    """Inductor writes kernels for an H100 that is not there; none is compiled."""
    import torch._inductor.scheduler as scheduler
    import torch.utils._triton as triton
    from torch._inductor.runtime.hints import DeviceProperties

    gpu = DeviceProperties(
        type="cuda", index=0, multi_processor_count=132, cc=90, major=9, warp_size=32,
        regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048,
        max_threads_per_block=1024,
    )  # fmt: skip
    seen = SimpleNamespace(
        major=9, minor=0, multi_processor_count=132, total_memory=80 << 30, name="", gcnArchName=""
    )
    stand_ins = (
        (DeviceProperties, "create", lambda device: gpu),
        (torch.cuda, "get_device_properties", lambda *a: seen),
        (torch.cuda, "get_device_capability", lambda *a: (9, 0)),
        (torch.cuda, "current_device", lambda: 0),
        (triton, "triton_hash_with_backend", lambda: ""),
        (scheduler, "has_triton", lambda: True),
    )
    with contextlib.ExitStack() as stack:
        for owner, name, stand_in in stand_ins:
            stack.enter_context(mock.patch.object(owner, name, stand_in))
        yield


Spec = tuple[torch.dtype, tuple[int, ...]]


def kernels_for(function: Callable, *inputs: Spec, plain: bool = False) -> str:
    """The text of what Inductor writes for inputs of these types and sizes; plain: without our
    options."""
    from torch._inductor import config
    from torch._inductor.debug import DebugContext
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    options = {} if plain else tiled_mm.inductor_options()
    with a_gpu_on_paper(), FakeTensorMode() as fake, config.patch(options), torch.no_grad():
        tensors = [torch.empty(sizes, device="cuda", dtype=dtype) for dtype, sizes in inputs]
        program = make_fx(function, select_decomp_table())(*tensors)
        graph = GraphLowering(program, example_inputs=tensors)
        with DebugContext(), V.set_graph_handler(graph), V.set_fake_mode(fake):
            graph.run(*tensors)
            return graph.codegen()[0].value


def configs(text: str) -> list[str]:
    """The blocks of the reductions, in their order. Those that are named are arguments of their
    kernels, and all that a kernel asks for are named: else Triton would not compile it."""
    found = re.findall(
        r"^    (config=({[^}]*}),)$.*?^def \w+\((.*?)\):", text, re.MULTILINE | re.DOTALL
    )
    for _, blocks, arguments in found:
        asked = set(re.findall(r"(\w+) : tl.constexpr", arguments))
        assert asked == {name for name in ast.literal_eval(blocks) if name.endswith("BLOCK")}
    return [config for config, *_ in found]


def rms_norm(x: Tensor, w: Tensor) -> Tensor:
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
    return y.to(x.dtype) * w


def softmax(x: Tensor, w: Tensor) -> Tensor:
    return torch.softmax((x * w).float(), -1).to(x.dtype)


def layer_norm(x: Tensor, w: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], w)


def test_the_options_hold_for_their_program_alone() -> None:
    """Whichever program of a thread comes first: Inductor keeps the choices of that one."""
    inputs = (BF16, (2, 128)), (BF16, (128,))
    for _ in range(2):
        assert not configs(kernels_for(rms_norm, *inputs, plain=True))
        assert len(configs(kernels_for(rms_norm, *inputs))) == 1


@pytest.mark.parametrize("width", [128, 1000, 4096, 14336])
@pytest.mark.parametrize("function", [rms_norm, softmax, layer_norm])
def test_reductions_have_one_block_in_every_batch(function: Callable, width: int) -> None:
    found = set()
    for batch in (1, 2, 64, 4096):
        text = kernels_for(function, (BF16, (batch, width)), (BF16, (width,)))
        (config,) = set(configs(text))
        assert "'enable_fp_fusion': False" in text
        found.add(config)
    (config,) = found
    block = _inductor.block_of(width)
    of_row = "" if width <= _inductor.WHOLE_ROW else f"'R0_BLOCK': {block['R0_BLOCK']}, "
    assert f"'XBLOCK': 1, {of_row}'num_warps': {block['num_warps']}" in config


# ---- loads whose place depends on the row alone --------------------------------------------------


def norm_of_embedding(tokens: Tensor, table: Tensor, w: Tensor) -> Tensor:
    return rms_norm(table[tokens], w)


def layer_norm_of_embedding(tokens: Tensor, table: Tensor, w: Tensor) -> Tensor:
    return layer_norm(table[tokens], w)


def scaled_row(tokens: Tensor, table: Tensor, w: Tensor) -> Tensor:
    rows = table[: tokens.shape[0]]
    return rms_norm(rows * tokens[:, None].to(rows.dtype), w)


def causal_softmax(tokens: Tensor, table: Tensor, w: Tensor) -> Tensor:
    rows = table[: tokens.shape[0]] * w
    before = torch.arange(rows.shape[1], device=rows.device) <= tokens[:, None]
    return torch.softmax(rows.float().masked_fill(~before, -torch.inf), -1)


def loss_of_rows(tokens: Tensor, table: Tensor, w: Tensor) -> Tensor:
    return F.cross_entropy((table[: tokens.shape[0]] * w).float(), tokens, reduction="none")


def layer_norm_backward(tokens: Tensor, table: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    """The mean and the deviation of a row are read back."""
    rows = table[tokens]
    y, mean, deviation = torch.native_layer_norm(rows, rows.shape[-1:], w, None, 1e-5)
    return torch.ops.aten.native_layer_norm_backward(
        y, rows, rows.shape[-1:], mean, deviation, w, None, [True, False, False]
    )


ROWS = (
    norm_of_embedding, layer_norm_of_embedding, scaled_row, causal_softmax, loss_of_rows,
    layer_norm_backward,
)  # fmt: skip


@pytest.mark.parametrize("width", [96, 768, 4096, 14336])
@pytest.mark.parametrize("function", ROWS)
def test_loads_that_depend_on_the_row_alone(function: Callable, width: int) -> None:
    held = (BF16, (4000, width)), (BF16, (width,))
    (config,) = {
        tuple(configs(kernels_for(function, (torch.int64, (rows,)), *held))) for rows in (1, 7, 96)
    }
    assert config and all("'XBLOCK': 1," in c for c in config)


@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen3"])
def test_whole_models_are_written(name: str) -> None:
    pytest.importorskip("transformers", reason="needs transformers")
    from bench.compiled import LENGTH, make_model

    model = make_model(name, torch.device("cpu"))
    state = dict(model.named_parameters()) | dict(model.named_buffers())

    def call(tokens: Tensor, *values: Tensor) -> Tensor:
        held = dict(zip(state, values, strict=True))
        return torch.func.functional_call(model, held, tokens, {"use_cache": False}).logits

    specs = [(value.dtype, tuple(value.shape)) for value in state.values()]
    alone, beside = (
        configs(kernels_for(call, (torch.int64, (batch, LENGTH)), *specs)) for batch in (1, 7)
    )
    assert alone == beside and len(alone) > 4  # two norms a layer, and the last
