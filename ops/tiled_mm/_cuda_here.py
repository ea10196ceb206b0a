"""This asks the machine for the report: which CUDA and driver it has, and why torch sees no GPU."""

from __future__ import annotations

import ctypes
import os

import torch

from ._self_test import first_line


def runtime_version() -> str | None:
    """This is the CUDA runtime that torch has loaded; it is None where torch has no CUDA."""
    return _asked_of_runtime("cudaRuntimeGetVersion")


def newest_cuda_of_driver() -> str | None:
    """A driver serves a newest CUDA, whose version this is; it is None without a driver."""
    return _asked_of_runtime("cudaDriverGetVersion")


def driver_version() -> str | None:
    """A driver has a number of its own, such as 580.95.05; it is None without a driver."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    if nvml.nvmlInit_v2() != 0:
        return None
    text = ctypes.create_string_buffer(96)
    failed = nvml.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text))) != 0
    nvml.nvmlShutdown()
    return None if failed else text.value.decode()


def why_torch_sees_no_gpu() -> str | None:
    """The answer is None where torch sees one. The value of CUDA_VISIBLE_DEVICES is not told, since
    it may hold a GPU's own identifier."""
    if torch.cuda.is_available():
        return None
    if torch.version.cuda is None:
        return "torch was built without CUDA"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    reasons = []
    if newest_cuda_of_driver() is None:
        reasons.append("there is no NVIDIA driver")
    elif visible is None or visible.strip():
        reasons.append(_torchs_words())
    if visible is not None:
        reasons.append(f"CUDA_VISIBLE_DEVICES is {'set' if visible.strip() else 'empty'}")
    return ", and ".join(reasons)


def _asked_of_runtime(function: str) -> str | None:
    """The answer is 13000 for 13.0, and 0 where nothing is installed. torch loads its runtime for
    all of the process, so that its functions are found without the library's name."""
    number = ctypes.c_int(0)
    try:
        failed = getattr(ctypes.CDLL(None), function)(ctypes.byref(number)) != 0
    except AttributeError:
        return None
    return None if failed or not number.value else _dotted(number.value)


def _dotted(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _torchs_words() -> str:
    """Starting CUDA raises what is wrong, where asking whether it is there only says no."""
    try:
        torch.cuda.init()
    except Exception as error:
        return f"torch says: {first_line(error)}"
    return "torch.cuda.is_available() is False"
