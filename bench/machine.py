"""What the measurements ran on: versions, commit, device, and the ceilings of a roofline.

Nothing here may fail a run: what cannot be read is None.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def commit() -> tuple[str | None, bool | None]:
    """(hash, whether tracked files differ from it). TILED_MM_COMMIT, "<hash>" or "<hash>-dirty",
    stands in where there is no git."""
    told = os.environ.get("TILED_MM_COMMIT")
    if told:
        return told.removesuffix("-dirty"), told.endswith("-dirty")
    found = _output("git", "rev-parse", "HEAD")
    if not found:
        return None, None
    changes = _output("git", "status", "--porcelain", "--untracked-files=no")
    return found, None if changes is None else bool(changes)


def _nvidia_smi() -> str | None:
    return shutil.which("nvidia-smi")


@functools.cache
def _smi_id(device: torch.device) -> str:
    """The device's identity for nvidia-smi, which does not know CUDA_VISIBLE_DEVICES."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    if uuid is not None:
        name = f"GPU-{str(uuid).removeprefix('GPU-')}"
        if _asked("index", f"--id={name}"):
            return name
    return str(device.index or 0)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _asked(field: str, *which: str) -> str | None:
    """What nvidia-smi says of a GPU."""
    smi = _nvidia_smi()
    text = smi and _output(smi, *which, f"--query-gpu={field}", "--format=csv,noheader,nounits")
    return text.splitlines()[0].strip() if text else None


def _cublas() -> str | None:
    """The version of the cuBLAS that torch has loaded."""
    if torch.version.cuda is None:
        return None
    try:
        library = ctypes.CDLL(f"libcublas.so.{torch.version.cuda.split('.')[0]}")
        numbers = []
        for part in range(3):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
            value = ctypes.c_int()
            if library.cublasGetProperty(part, ctypes.byref(value)) != 0:
                return None
            numbers.append(str(value.value))
        return ".".join(numbers)
    except (OSError, AttributeError):
        return None


def cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def library_version() -> str | None:
    try:
        import tiled_mm
    except ImportError:
        return None
    return tiled_mm.__version__


def environment(device: torch.device) -> dict:
    """Everything a reader of a number should know of where it came from; no host name."""
    found, dirty = commit()
    gpu = None
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        gpu = {
            "name": properties.name,
            "capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "l2_bytes": int(properties.L2_cache_size),
            "memory_bytes": int(properties.total_memory),
            "driver": _asked("driver_version"),
        }
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": found,
        "dirty": dirty,
        "tiled_mm": library_version(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cublas": _cublas() if gpu else None,
        "cpu": {
            "model": cpu_model(),
            "logical_cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "capability": torch.backends.cpu.get_cpu_capability(),
            "load_before": round(os.getloadavg()[0], 2),  # processes wanting a core, last minute
        },
        "gpu": gpu,
    }


class PowerLog:
    """Power over time, read by one nvidia-smi process beside the measurements."""

    INTERVAL_MS = 250

    def __init__(self, device: torch.device) -> None:
        self._readings: list[tuple[float, float]] = []  # (monotonic s, W)
        self._process: subprocess.Popen[str] | None = None
        smi = _nvidia_smi() if device.type == "cuda" else None
        if smi is None:
            return
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [
                    smi,
                    f"--id={_smi_id(device)}",
                    "--query-gpu=power.draw",
                    "--format=csv,noheader,nounits",
                    f"--loop-ms={self.INTERVAL_MS}",
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            threading.Thread(target=self._read, args=(self._process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if (watts := _number(line)) is not None:
                self._readings.append((time.monotonic(), watts))

    def watts(self, since: float) -> list[float]:
        return [w for t, w in self._readings if t >= since]

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5)
            self._process = None

    def __enter__(self) -> PowerLog:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _event_median_s(run: Callable[[], object], repeats: int) -> float:
    run()
    times = []
    for _ in range(repeats):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def copy_bandwidth(device: torch.device) -> float:
    """Bytes per second, read plus written, of a device-to-device copy of 1 GiB."""
    source = torch.ones(1 << 28, device=device)  # [2^28] fp32
    target = torch.empty_like(source)
    return 2 * source.nbytes / _event_median_s(lambda: target.copy_(source), 20)


# fp32 multiply-adds a multiprocessor can start in a cycle, by compute capability.
_FP32_LANES = {(7, 0): 64, (7, 5): 64, (8, 0): 64}
_FP32_LANES_ELSE = 128


def ceilings(device: torch.device) -> dict | None:
    """The roofline's two ceilings: copy bandwidth, and the rate of independent fp32 multiply-adds
    in registers; the latter is computed from the clock where the extension cannot be built."""
    if device.type != "cuda":
        return None
    from bench import native

    peak, source = None, "measured: independent multiply-adds in registers"
    if native.load(device) is None:
        peak = native.fp32_peak(device)
    else:
        properties = torch.cuda.get_device_properties(device)
        clock = _number(_asked("clocks.max.sm", f"--id={_smi_id(device)}") or "")
        source = "computed: multiprocessors x lanes x 2 x largest SM clock"
        if clock is not None:
            capability = (properties.major, properties.minor)
            lanes = _FP32_LANES.get(capability, _FP32_LANES_ELSE)
            peak = properties.multi_processor_count * lanes * 2 * clock * 1e6
    return {
        "copy_bytes_per_s": copy_bandwidth(device),
        "fp32_flops": peak,
        "fp32_source": source,
    }
