"""Builds and loads the benchmark's own operators (host_floor.cpp, kernels.cu), which the library
does not carry. The result is kept in build-bench/, named after all it depends on."""

from __future__ import annotations

import functools
import hashlib
import os
import statistics
import sys
from pathlib import Path

import torch

from bench.machine import ROOT

_HERE = Path(__file__).resolve().parent

# Machine code for Hopper, PTX for every GPU from Turing on. Said outright, so that the build does
# not need a GPU to ask.
_ARCHITECTURES = (
    "-gencode=arch=compute_75,code=compute_75",
    "-gencode=arch=compute_90,code=sm_90",
)


def _library_path(cuda: bool) -> Path:
    digest = hashlib.sha256(f"{torch.__version__} {torch.version.cuda} {cuda}".encode())
    for source in sorted(_HERE.glob("*.[ch]*")):
        digest.update(source.read_bytes())
    return ROOT / "build-bench" / f"tiled_bench_{digest.hexdigest()[:12]}.so"


def _build(library: Path, cuda: bool) -> None:
    from torch.utils import cpp_extension

    flags = ["-O2"]
    sources = [str(_HERE / "host_floor.cpp")]
    if cuda:
        if cpp_extension.CUDA_HOME is None:
            raise RuntimeError("nvcc was not found")
        flags.append("-DTILED_MM_BENCH_CUDA")
        sources.append(str(_HERE / "kernels.cu"))
    library.parent.mkdir(parents=True, exist_ok=True)
    # pip's ninja stands beside the interpreter, which need not be on the PATH.
    beside = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), beside])
    cpp_extension.load(
        library.stem,
        sources,
        extra_cflags=flags,
        extra_cuda_cflags=["-O3", *_ARCHITECTURES],
        build_directory=str(library.parent),
        with_cuda=cuda,
        is_python_module=False,
    )


@functools.cache
def _load(cuda: bool) -> str | None:
    library = _library_path(cuda)
    try:
        if library.exists():
            torch.ops.load_library(str(library))
        else:
            _build(library, cuda)  # loads it, too
    except Exception as error:  # a missing compiler, a failed build, an unloadable library
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return f"the benchmark's own operators could not be built: {lines[0]}"
    return None


def load(device: torch.device) -> str | None:
    """Makes torch.ops.tiled_bench available for this device. Returns why it is not, or None."""
    return _load(device.type == "cuda")


def fp32_peak(device: torch.device) -> float:
    """Flop/s of independent fp32 multiply-adds in registers."""
    properties = torch.cuda.get_device_properties(device)
    # Every multiprocessor full, several times over: 16 blocks of 256 threads for each.
    sink = torch.empty(properties.multi_processor_count * 16 * 256, device=device)
    steps = 4096
    rates = []
    for _ in range(10):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        flops = torch.ops.tiled_bench.fp32_peak(sink, steps)
        end.record()
        end.synchronize()
        rates.append(flops / (begin.elapsed_time(end) * 1e-3))
    return statistics.median(rates[2:])
