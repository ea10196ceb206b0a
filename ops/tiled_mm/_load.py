"""Loads the library, or says plainly why it cannot run with this torch."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import torch

LIBRARY = Path(__file__).resolve().parent / "lib" / "libtiled_mm.so"


def build_info() -> dict[str, str | None]:
    """What the library was built for.

    The keys: ``version`` of tiled-mm; ``torch``; ``cuda``, None without CUDA kernels;
    ``cuda_reason``; ``portable_architectures`` and ``hopper_architectures`` of the CUDA kernels;
    ``left_out``, the CUDA kernels that TORCH_CUDA_ARCH_LIST left out, None if it did not.
    """
    try:
        module = importlib.import_module("tiled_mm._build_info")
    except ModuleNotFoundError:
        raise ImportError(_not_built("_build_info.py")) from None
    return dict(module.BUILD_INFO)


def load() -> None:
    """Registers the operators. Touches no GPU."""
    built = build_info()
    if not hasattr(sys.modules["tiled_mm._build_info"], "Algo"):
        raise ImportError(_not_built("_build_info.py of this version"))
    if not LIBRARY.is_file():
        raise ImportError(_not_built("lib/libtiled_mm.so"))
    # Asked before loading: a library for another torch fails with an undefined symbol, or later.
    if not _fits(built):
        raise ImportError(_describe(built))
    try:
        torch.ops.load_library(LIBRARY)
    except OSError as error:
        reason = error.__cause__ or error  # torch's own error only names the file
        raise ImportError(f"{LIBRARY} does not load: {reason}. {_describe(built)}") from error


def _fits(built: dict[str, str | None]) -> bool:
    """Whether the library was built for the running torch.

    The C++ interfaces of torch hold within a minor version. A library with CUDA kernels needs a
    torch of the same CUDA major version; one without runs with any.
    """
    if _minor(built["torch"]) != _minor(torch.__version__):
        return False
    return built["cuda"] is None or _major(built["cuda"]) == _major(torch.version.cuda)


def _describe(built: dict[str, str | None]) -> str:
    """The versions built for and running, and what to do."""
    target = f"torch {_minor(built['torch'])} with {_cuda(built['cuda'])}"
    running = f"torch {torch.__version__} with {_cuda(torch.version.cuda)}"
    return (
        f"tiled-mm {built['version']} was built for {target}; this is {running}. Install {target}, "
        "or build tiled-mm again for this torch: pip install --no-build-isolation --no-deps "
        "--force-reinstall <the sources of tiled-mm>"
    )


def _not_built(missing: str) -> str:
    return (
        f"tiled-mm has not been built: {LIBRARY.parents[1] / missing} is missing. In the sources "
        "run: make build, or pip install --no-build-isolation -e ."
    )


def _cuda(version: str | None) -> str:
    return f"CUDA {version}" if version else "no CUDA"


def _minor(version: str | None) -> str:
    """'2.11.0+cu130' -> '2.11'."""
    return ".".join((version or "").split(".")[:2])


def _major(version: str | None) -> str:
    """'13.0' -> '13'."""
    return (version or "").split(".")[0]
