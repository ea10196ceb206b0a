"""Devices, markers and seeds of every test.

`cuda`  needs a GPU; skipped, with one line of the summary, where none can be used.
`tensor_cores` needs one with Hopper's kernels in the library, and so does `scaled` where a test is
marked `cuda` as well; skipped likewise.
`mma` needs one with the kernels of rung async_mma in the library; skipped likewise.
`large` needs more than 2^31 elements; run on demand with `pytest --large`.
"""

from __future__ import annotations

import functools
import gc
import zlib
from collections.abc import Iterator

import pytest
import torch


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--large",
        action="store_true",
        help="also run the tests marked large (tensors of more than 2^31 elements)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cuda: needs a CUDA GPU")
    config.addinivalue_line("markers", "tensor_cores: needs a GPU of compute capability 9.0")
    config.addinivalue_line("markers", "scaled: of products with scales, on a GPU Hopper's")
    config.addinivalue_line("markers", "mma: needs a GPU of compute capability 8.0 or later")
    config.addinivalue_line("markers", "large: more than 2^31 elements; run with --large")
    # Skips are part of the result: `s` adds them, folded by reason, to the summary.
    if "s" not in config.option.reportchars:
        config.option.reportchars += "s"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One process on a GPU; None has as many as there are cores."""
    return 1 if torch.cuda.is_available() else None


@functools.cache
def why_no_cuda() -> str | None:
    """Why tests marked cuda cannot run here; None where they can."""
    if not torch.cuda.is_available():
        return "needs a CUDA GPU, and torch sees none"
    import tiled_mm

    if tiled_mm.build_info()["cuda"] is None:
        return "needs the CUDA kernels, and this build of tiled_mm has none"
    return None


def why_no_tensor_cores() -> str | None:
    """The same of tests marked tensor_cores, on a GPU."""
    import rungs

    if not rungs.has_tensor_core_kernels("cuda"):
        return "needs a GPU of compute capability 9.0, and a build with its tensor-core kernels"
    return None


def why_no_mma() -> str | None:
    """The same of tests marked mma."""
    import rungs

    if not rungs.has_mma_kernels("cuda"):
        return "needs a GPU of compute capability 8.0 or later, and a build with kernels for it"
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda") and (reason := why_no_cuda()):
        pytest.skip(reason)
    if item.get_closest_marker("tensor_cores") and (reason := why_no_tensor_cores()):
        pytest.skip(reason)
    on_gpu = item.get_closest_marker("cuda") is not None
    if on_gpu and item.get_closest_marker("scaled") and (reason := why_no_tensor_cores()):
        pytest.skip(reason)
    if item.get_closest_marker("mma") and (reason := why_no_mma()):
        pytest.skip(reason)
    if item.get_closest_marker("large") and not item.config.getoption("--large"):
        pytest.skip("more than 2^31 elements: run with --large")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request: pytest.FixtureRequest) -> str:
    """Every device that the library has kernels for."""
    return request.param


@pytest.fixture
def no_fallback() -> Iterator[None]:
    """Without a batching rule vmap would loop over the batch; here that is an error."""
    before = torch._C._functorch._is_vmap_fallback_enabled()
    torch._C._functorch._set_vmap_fallback_enabled(False)
    yield
    torch._C._functorch._set_vmap_fallback_enabled(before)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """For many small operations on the CPU."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def from_zero() -> None:
    """No product has been counted under an override."""
    import tiled_mm

    tiled_mm.override_counts(reset=True)


@pytest.fixture
def shipped_rules() -> Iterator[None]:
    """Without rows that were loaded or measured before. For files that import the library."""
    torch.ops.tiled_debug.forget_rules()
    yield
    torch.ops.tiled_debug.forget_rules()


@pytest.fixture(scope="module")
def said(request: pytest.FixtureRequest) -> dict[str, str]:
    """What every case of a module's MODULES said, of so many processes."""
    from processes import run_cases

    count, backend = request.param
    has_gpus = torch.cuda.device_count() >= count and torch.distributed.is_nccl_available()
    if backend == "nccl" and not has_gpus:
        pytest.skip(f"needs {count} GPUs and NCCL")
    return run_cases(count, backend, *(module.__name__ for module in request.module.MODULES))


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest) -> None:
    """Other data for every test, the same data in every run."""
    torch.manual_seed(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(autouse=True)
def free_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """Some of these matrices are large, and several processes may run tests side by side."""
    yield
    if request.node.get_closest_marker("tensor_cores"):
        torch.cuda.empty_cache()


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """The CPU's devices (streaming.py) hold no memory and no thread when the test has ended."""
    yield
    held = torch.ops.tiled_debug.out_of_core_on_cpu_holds
    if held() != [0, 0, 0]:
        gc.collect()  # of an exception and the frame that caught it, each of which has the other
    assert held() == [0, 0, 0]
