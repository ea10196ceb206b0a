"""The wheel, the library inside it, its CMake package, and the rules that switch CUDA on.

They build with the sources' own build folder (TILED_MM_BUILD_DIR, else build/), so that little is
compiled twice.
"""

from __future__ import annotations

import email
import hashlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import tiled_mm
import torch

ROOT = Path(__file__).resolve().parents[1]
SITE_PACKAGES = Path(torch.__file__).resolve().parents[1]
TORCH_MINOR = ".".join(torch.__version__.split(".")[:2])


def tool(name: str) -> str:
    """A program beside this Python, or on PATH."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    found = shutil.which(name, path=path)
    assert found is not None, f"{name} is missing"
    return found


def run(*command: str | Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, **options)


def output_of(*command: str | Path) -> str:
    result = run(*command)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


# ---- the wheel --------------------------------------------------------------------------------


Metadata = tuple[email.message.Message, email.message.Message]


def built_wheel(folder: Path, **settings: str) -> Path:
    """Built for the running torch, as `pip wheel --no-build-isolation --no-deps .` does."""
    options = ["--no-build-isolation", "--no-deps", "--wheel-dir", folder]
    result = run(sys.executable, "-m", "pip", "wheel", *options, ROOT, env=os.environ | settings)
    assert result.returncode == 0, result.stdout + result.stderr
    (built,) = folder.iterdir()
    return built


def metadata_of(wheel: Path, version: str) -> Metadata:
    """METADATA and WHEEL."""
    with zipfile.ZipFile(wheel) as archive:
        folder = f"tiled_mm-{version}.dist-info"
        texts = [archive.read(f"{folder}/{name}").decode() for name in ("METADATA", "WHEEL")]
    return email.message_from_string(texts[0]), email.message_from_string(texts[1])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Metadata:
    return metadata_of(wheel, tiled_mm.__version__)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel unpacked in a site-packages of its own, whose path has a space, beside a torch of
    links to this Python's, save the files by which CMake finds out where torch lies."""
    site_packages = tmp_path_factory.mktemp("site packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site_packages)
    torch_folder = site_packages / "torch"
    torch_folder.mkdir()
    for entry in (SITE_PACKAGES / "torch").iterdir():
        if entry.name != "share":
            (torch_folder / entry.name).symlink_to(entry)
    shutil.copytree(SITE_PACKAGES / "torch" / "share", torch_folder / "share")
    return site_packages / "tiled_mm"


def test_one_wheel_serves_every_python(wheel: Path, metadata) -> None:
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name == f"tiled_mm-{tiled_mm.__version__}-py3-none-{platform}.whl"
    assert metadata[1]["Tag"] == f"py3-none-{platform}"
    assert metadata[1]["Root-Is-Purelib"] == "false"
    assert metadata[0]["Requires-Python"] == ">=3.10"


def test_the_wheel_asks_for_the_torch_it_was_built_for(metadata) -> None:
    assert metadata[0].get_all("Requires-Dist") == [f"torch=={TORCH_MINOR}.*"]
    assert metadata[0]["License-Expression"] == "BSD-3-Clause"


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    python = {
        f"tiled_mm/{path.relative_to(ROOT / 'ops' / 'tiled_mm')}"
        for path in (ROOT / "ops" / "tiled_mm").rglob("*.py")
    }
    cmake = {"Config", "ConfigVersion", "Targets", "Targets-release", "Torch"}
    others = {
        "tiled_mm/py.typed",
        "tiled_mm/include/tiled_mm.h",
        "tiled_mm/lib/libtiled_mm.so",
        *(f"tiled_mm/share/cmake/TiledMM/TiledMM{name}.cmake" for name in cmake),
    }
    assert {name for name in names if not name.startswith("tiled_mm-")} == (
        python | others | {"tiled_mm/_build_info.py"}
    )


def test_the_wheel_runs_where_it_is_installed(installed: Path, tmp_path: Path) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(installed.parent)!r})\n"
        "import json, torch, tiled_mm\n"
        "c = torch.ops.tiled.mm(torch.ones(2, 3), torch.ones(3, 4))\n"
        "print(json.dumps([tiled_mm.__file__, tiled_mm.build_info(), c.tolist()]))\n"
    )
    result = run(sys.executable, "-c", program, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    file, info, c = json.loads(result.stdout)
    assert file == str(installed / "__init__.py")
    assert c == [[3.0] * 4] * 2
    assert info["version"] == tiled_mm.__version__
    assert info["torch"].startswith(f"{TORCH_MINOR}.")


def test_a_wheel_says_in_its_version_what_it_was_built_for(metadata, tmp_path: Path) -> None:
    """Where it is asked to: its name, its metadata and the package in it agree."""
    wheel = built_wheel(tmp_path / "wheel", TILED_MM_LOCAL_VERSION="1")
    with zipfile.ZipFile(wheel) as archive:
        archive.extract("tiled_mm/_build_info.py", tmp_path)
    info = runpy.run_path(str(tmp_path / "tiled_mm" / "_build_info.py"))["BUILD_INFO"]
    device = f"cu{info['cuda'].replace('.', '')}" if info["cuda"] else "cpu"
    version = f"{tiled_mm.__version__}+{device}.torch{TORCH_MINOR}"
    assert info == tiled_mm.build_info() | info | {"version": version}
    assert wheel.name.startswith(f"tiled_mm-{version}-py3-none-")
    marked = metadata_of(wheel, version)
    assert marked[0]["Version"] == version
    for message in (*metadata, *marked):
        del message["Version"]
    assert [m.items() for m in marked] == [m.items() for m in metadata]


def small_wheel(folder: Path, version: str) -> Path:
    """A wheel of a version that holds no library."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"tiled_mm-{version}-py3-none-any.whl"
    info = f"tiled_mm-{version}.dist-info"
    head = f"Metadata-Version: 2.1\nName: tiled-mm\nVersion: {version}\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"{head}Requires-Python: >=3.10\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def test_the_index_of_wheels_is_one_for_pip(tmp_path: Path) -> None:
    """From a disk, so without a network: pip finds the version that is named, and its sha256."""
    versions = ("0.1.0+cpu.torch2.11", "0.1.0+cu130.torch2.11", "0.1.0+cpu.torch2.15")
    wheels = [small_wheel(tmp_path / "dist" / "tiled-mm", version) for version in versions]
    output_of(sys.executable, ROOT / "wheel_index.py", tmp_path / "dist")
    page = (tmp_path / "dist" / "tiled-mm" / "index.html").read_text()
    for wheel in wheels:
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        link = f'"{wheel.name.replace("+", "%2B")}#sha256={digest}"'
        assert f'href={link} data-requires-python="&gt;=3.10">{wheel.name}</a>' in page
    options = ["--isolated", "download", "--no-deps", "--dest", tmp_path / "got"]
    index = (tmp_path / "dist").as_uri()

    def download(version: str) -> subprocess.CompletedProcess[str]:
        asked = f"tiled-mm=={version}"
        return run(sys.executable, "-m", "pip", *options, "--index-url", index, asked)

    assert download(versions[0]).returncode == 0
    assert [path.name for path in (tmp_path / "got").iterdir()] == [wheels[0].name]
    small_wheel(tmp_path / "dist" / "tiled-mm", versions[1]).open("ab").write(b"damaged")
    assert "DO NOT MATCH THE HASHES" in download(versions[1]).stderr
    empty = run(sys.executable, ROOT / "wheel_index.py", tmp_path / "got")
    assert empty.returncode == 1 and "There is no wheel in " in empty.stderr


# ---- the library ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library(installed: Path) -> Path:
    return installed / "lib" / "libtiled_mm.so"


def dynamic(library: Path, tag: str) -> list[str]:
    """The values of a tag of the dynamic section."""
    return re.findall(rf"\({tag}\).*\[(.*)\]", output_of("readelf", "-dW", library))


def test_the_library_uses_no_python(library: Path) -> None:
    undefined = re.findall(r" U (\S+)", output_of("nm", "-D", "--undefined-only", library))
    assert "_ZN3c1010Dispatcher13realSingletonEv" in undefined  # the list is what it should be
    assert not [name for name in undefined if re.match(r"_?Py[A-Z_]|PyInit", name)]
    assert not [name for name in dynamic(library, "NEEDED") if "python" in name]


def test_the_library_needs_only_what_it_uses(library: Path) -> None:
    info = runpy.run_path(str(library.parents[1] / "_build_info.py"))["BUILD_INFO"]
    torch_libraries = {"libc10.so", "libtorch_cpu.so"}
    if info["cuda"]:
        torch_libraries |= {"libc10_cuda.so", "libtorch_cuda.so"}
    system = {"libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1", "libm.so.6", "libc.so.6"}
    needed = set(dynamic(library, "NEEDED"))
    assert {"libc10.so", "libtorch_cpu.so"} <= needed
    assert {name for name in needed if not name.startswith("ld-linux")} <= torch_libraries | system
    # ldd lists here what is needed but not used, and exits with 1 if there is any.
    unused = run("ldd", "-u", "-r", library)
    assert "libtorch" not in unused.stdout
    assert "libc10" not in unused.stdout


def test_the_library_finds_torch_by_a_relative_path(library: Path) -> None:
    (path,) = dynamic(library, "RUNPATH")
    assert path == "$ORIGIN/../../torch/lib"
    # Alone in a process, so that nothing else has loaded torch.
    program = f"import ctypes; ctypes.CDLL({str(library)!r})"
    result = run(sys.executable, "-c", program)
    assert result.returncode == 0, result.stderr


def test_the_library_names_no_folder_of_its_build(library: Path) -> None:
    content = library.read_bytes()
    assert b"ops/" in content  # __FILE__ in the messages, relative to the sources
    assert str(ROOT).encode() not in content
    assert str(SITE_PACKAGES).encode() not in content


def test_the_library_exports_only_its_own_functions(library: Path) -> None:
    symbols = output_of("nm", "-DC", "--defined-only", library)
    # Weak and unique symbols (W, V, u) are inline functions of torch's and the standard's headers.
    strong = re.findall(r"^[0-9a-f]+ [A-TX-Z] (.*)$", symbols, re.MULTILINE)
    assert any(name.startswith("tiled::mm(") for name in strong)
    assert not [name for name in strong if not name.startswith("tiled::")]


@pytest.mark.parametrize("project", ["cpp_tests/consumer", "examples"])
def test_a_program_builds_against_the_wheel(project: str, installed: Path, tmp_path: Path) -> None:
    """With the package's CMake path alone: torch is found as its neighbour."""
    prefix = output_of(
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(installed.parent)!r})\n"
        "import tiled_mm; print(tiled_mm.cmake_prefix_path)",
    ).strip()
    assert Path(prefix) == installed / "share" / "cmake"
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"]
    configure = ["-S", ROOT / project, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}"]
    output_of(tool("cmake"), *generator, *configure)
    output_of(tool("cmake"), "--build", tmp_path)
    output_of(tool("ctest"), "--test-dir", tmp_path, "--output-on-failure", "--no-tests=error")


def test_a_program_is_told_when_torch_does_not_fit(installed: Path, tmp_path: Path) -> None:
    other = fake_torch(tmp_path / "torch", version="1.13.0", cuda=None)
    source = ROOT / "cpp_tests" / "consumer"
    result = run(
        tool("cmake"),
        *("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"),
        *("-S", source, "-B", tmp_path / "build"),
        f"-DCMAKE_PREFIX_PATH={installed / 'share' / 'cmake'}",
        f"-DTorch_DIR={other}",
    )
    assert result.returncode != 0
    message = " ".join(result.stderr.split())
    assert f"built for torch {TORCH_MINOR}, but torch 1.13.0 was found" in message


# ---- when CUDA is on --------------------------------------------------------------------------


def fake_torch(folder: Path, version: str, cuda: str | None) -> Path:
    """What the build looks at in a torch: returns its Torch_DIR."""
    config = folder / "share" / "cmake" / "Torch"
    config.mkdir(parents=True)
    (config / "TorchConfigVersion.cmake").write_text(f'set(PACKAGE_VERSION "{version}")\n')
    (config / "TorchConfig.cmake").touch()
    (folder / "include" / "torch" / "csrc" / "api" / "include").mkdir(parents=True)
    (folder / "lib").mkdir()
    if cuda is not None:
        (folder / "lib" / "libtorch_cuda.so").touch()
        (folder / "lib" / "libc10_cuda.so").write_text(f"\0libcudart.so.{cuda}\0")
    return config


def fake_nvcc(folder: Path, release: str) -> Path:
    """An nvcc that can only say its version."""
    nvcc = folder / "nvcc"
    nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}.1'\n")
    nvcc.chmod(0o755)
    return nvcc


def status_lines(output: str) -> list[str]:
    """The lines of CMake's output that this project wrote. The folder's path, which CMake writes
    too, may have its name."""
    return [line for line in output.splitlines() if line.startswith("-- tiled-mm ")]


class Configured:
    """The outcome of `cmake -S . -B folder` under the given settings."""

    def __init__(self, folder: Path, torch_dir: Path | None, settings: dict[str, str]) -> None:
        if torch_dir is None:
            which = f"-DPython3_EXECUTABLE={sys.executable}"
        else:
            which = f"-DTorch_DIR={torch_dir}"
        clean = {k: v for k, v in os.environ.items() if k not in CUDA_SETTINGS}
        result = run(
            tool("cmake"),
            *("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"),
            *("-S", ROOT, "-B", folder, which),
            env={**clean, **settings},
        )
        self.good = result.returncode == 0
        # CMake wraps and indents the text of errors.
        self.error = " ".join(result.stderr.split())
        self.status = status_lines(result.stdout)
        self.folder = folder

    def commands(self) -> dict[str, str]:
        """How each source file of the library is compiled, by its path below ops/, or below its
        like in the build's folder, which the build has written."""
        entries = json.loads((self.folder / "compile_commands.json").read_text())
        return {
            str(Path(entry["file"]).relative_to(ops)): entry["command"]
            for entry in entries
            for ops in self.roots()
            if Path(entry["file"]).is_relative_to(ops)
        }

    def roots(self) -> tuple[Path, Path]:
        """Where the library's sources are: the project's, and those that the build has written."""
        return ROOT / "ops", self.folder / "generated" / "ops"

    def text(self, name: str) -> str:
        """A source file, by its name in commands()."""
        return next(file for ops in self.roots() if (file := ops / name).exists()).read_text()

    def flags(self) -> dict[str, set[str]]:
        """-gencode of each CUDA source, by its name."""
        return {
            Path(source).name: set(re.findall(r"-gencode=arch=(\S+)", command))
            for source, command in self.commands().items()
            if source.endswith(".cu")
        }

    def build_info(self) -> dict[str, str | None]:
        return runpy.run_path(str(self.folder / "package" / "_build_info.py"))["BUILD_INFO"]


CUDA_SETTINGS = {
    *("FORCE_CUDA", "TORCH_CUDA_ARCH_LIST", "TILED_MM_PTX_OF"),
    *("CUDACXX", "CUDA_HOME", "CUDA_PATH"),
}

# torch's CUDA major (None: CPU only), nvcc's release (None: no nvcc), the reason CUDA is off
WITHOUT_CUDA = {
    "no nvcc": ("13", None, "nvcc is not in CUDACXX, CUDA_HOME, CUDA_PATH, PATH or "),
    "CPU-only torch": (None, "13.0", f"torch {TORCH_MINOR}.0 is a CPU-only build"),
    "another major": (
        "13",
        "12.4",
        f"nvcc is of CUDA 12.4, while torch {TORCH_MINOR}.0 was built for CUDA 13",
    ),
    "odd nvcc": ("13", "unknown", "nvcc --version names no CUDA release"),
}


def configure_without_cuda(case: str, folder: Path, **settings: str) -> Configured:
    cuda, release, _ = WITHOUT_CUDA[case]
    torch_dir = fake_torch(folder / "torch", f"{TORCH_MINOR}.0", cuda)
    nvcc = fake_nvcc(folder, release) if release else folder / "there-is-no-nvcc"
    return Configured(folder / "build", torch_dir, {"CUDACXX": str(nvcc), **settings})


@pytest.mark.parametrize("case", WITHOUT_CUDA)
def test_cuda_is_off_with_the_reason(case: str, tmp_path: Path) -> None:
    configured = configure_without_cuda(case, tmp_path)
    assert configured.good, configured.error
    assert len(configured.status) == 1  # one line says it all
    assert f": CUDA off: {WITHOUT_CUDA[case][2]}" in configured.status[0]


@pytest.mark.parametrize(
    ("case", "name", "value"),
    [("no nvcc", "FORCE_CUDA", "1"), ("CPU-only torch", "TORCH_CUDA_ARCH_LIST", "9.0")],
)
def test_cuda_that_was_asked_for_and_is_missing_is_an_error(
    case: str, name: str, value: str, tmp_path: Path
) -> None:
    configured = configure_without_cuda(case, tmp_path, **{name: value})
    assert not configured.good
    assert f"{name}={value} asks for CUDA, but {WITHOUT_CUDA[case][2]}" in configured.error


def test_cuda_can_be_left_out(tmp_path: Path) -> None:
    torch_dir = fake_torch(tmp_path / "torch", f"{TORCH_MINOR}.0", "13")
    settings = {"CUDACXX": str(fake_nvcc(tmp_path, "13.0")), "FORCE_CUDA": "0"}
    configured = Configured(tmp_path / "build", torch_dir, settings)
    assert configured.good, configured.error
    assert "CUDA off: FORCE_CUDA=0 leaves it out" in configured.status[0]


@pytest.mark.parametrize(
    ("version", "good"),
    [("2.9.1+cu130", False), ("2.10.0", True), ("3.0.0a0+git1", True)],
)
def test_a_torch_that_is_too_old_is_refused_at_once(
    version: str, good: bool, tmp_path: Path
) -> None:
    """By CMake, and by setup.py before it."""
    configured = Configured(
        tmp_path / "build", fake_torch(tmp_path / "torch", version, None), {"FORCE_CUDA": "0"}
    )
    metadata = tmp_path / "packages" / f"torch-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    environment = {**os.environ, "PYTHONPATH": str(metadata.parents[1])}
    setup = run(sys.executable, "setup.py", "--version", cwd=ROOT, env=environment)
    assert configured.good == (setup.returncode == 0) == good, configured.error + setup.stderr
    if not good:
        told = f"tiled-mm needs torch 2.10 or later, but torch {version}"
        assert f"{told} was found in {tmp_path / 'torch'}" in configured.error
        assert f"{told} is installed" in setup.stderr


needs_nvcc = pytest.mark.skipif(
    tiled_mm.build_info()["cuda"] is None,
    reason="needs nvcc and a CUDA build of torch, and this tiled_mm was built without",
)
PORTABLE = "naive.cu"
ASYNC = "register_tile_async.cu"  # planned for compute capability 8.0 on
INSTANCE = "Async128x128.cu"  # the same, and written by the build


@needs_nvcc
@pytest.mark.parametrize(
    ("wanted", "portable"),
    [
        (
            None,
            {
                "compute_75,code=sm_75",
                "compute_80,code=sm_80",
                "compute_90,code=sm_90",
                "compute_90,code=compute_90",
            },
        ),
        ("8.6", {"compute_86,code=sm_86"}),
        ("7.5", {"compute_75,code=sm_75"}),
        ("8.0 9.0a", {"compute_80,code=sm_80", "compute_90,code=sm_90"}),
        ("9.0a;9.0+PTX", {"compute_90,code=sm_90", "compute_90,code=compute_90"}),
    ],
)
def test_architectures_are_set_per_source(
    wanted: str | None, portable: set[str], tmp_path: Path
) -> None:
    settings = {} if wanted is None else {"TORCH_CUDA_ARCH_LIST": wanted}
    configured = Configured(tmp_path, None, settings)
    assert configured.good, configured.error
    assert ": CUDA on: " in configured.status[0]
    flags = configured.flags()
    assert flags[PORTABLE] == portable
    newer = {flag for flag in portable if not flag.startswith("compute_75")}
    assert flags[ASYNC] == flags[INSTANCE] == (newer or portable)


@needs_nvcc
@pytest.mark.parametrize("wanted", ["7.5", "8.0;8.6", "9.0", "9.0a", "9.0a;10.0", "12.0"])
def test_every_list_of_architectures_builds_and_says_what_it_leaves_out(
    wanted: str, tmp_path: Path
) -> None:
    """nvcc without an architecture takes its own, for which Hopper's sources do not compile."""
    configured = Configured(tmp_path, None, {"TORCH_CUDA_ARCH_LIST": wanted})
    assert configured.good, configured.error
    flags = configured.flags()
    assert {PORTABLE, ASYNC} <= set(flags)
    assert [name for name, architectures in flags.items() if not architectures] == []
    hopper = "9.0" in wanted
    for name in ("tma_wgmma.cu", "Coop128x256.cu"):
        assert (flags.get(name) == {"compute_90a,code=sm_90a"}) == hopper
    assert ("cuda/parts/launch/tensor_map.cpp" in configured.commands()) == hopper
    (status,) = configured.status
    assert ("Hopper's for 9.0a" in status) == hopper
    info = configured.build_info()
    listed = re.findall(r"[\d.]+", wanted)
    assert info["portable_architectures"] == " ".join(listed)
    assert info["mma_architectures"] == " ".join(x for x in listed if float(x) >= 8)
    assert info["by_8_architectures"] == " ".join(x for x in listed if float(x) == 7.5)
    assert ("RegisterStaged128x128.cu" in flags) == ("7.5" in listed)
    if hopper:
        assert info["left_out"] is None
    else:
        assert f"left out: {info['left_out']}" in status
        assert "compute capability 9.0" in info["left_out"]


@needs_nvcc
@pytest.mark.parametrize(("ptx", "mma"), [("8.0", "9.0"), ("7.5", "")])
def test_machine_code_of_older_ptx(ptx: str, mma: str, tmp_path: Path) -> None:
    settings = {"TORCH_CUDA_ARCH_LIST": "9.0", "TILED_MM_PTX_OF": ptx}
    configured = Configured(tmp_path, None, settings)
    assert configured.good, configured.error
    flags = configured.flags()
    assert {PORTABLE, ASYNC} <= set(flags) and "tma_wgmma.cu" not in flags
    wanted = {f"compute_{ptx.replace('.', '')},code=sm_90"}
    assert [name for name, found in flags.items() if found != wanted] == []
    info = configured.build_info()
    assert (info["portable_architectures"], info["mma_architectures"]) == ("9.0", mma)
    assert info["by_8_architectures"] == ("9.0" if ptx == "7.5" else "")
    assert ("RegisterStaged128x128.cu" in flags) == (ptx == "7.5")
    assert info["left_out"].endswith(f"PTX of {ptx}") and info["left_out"] in configured.status[0]


@needs_nvcc
def test_older_ptx_is_of_one_architecture(tmp_path: Path) -> None:
    configured = Configured(tmp_path, None, {"TILED_MM_PTX_OF": "8.0+PTX"})
    assert not configured.good and "TILED_MM_PTX_OF takes one architecture" in configured.error


@needs_nvcc
def test_nothing_is_missing_where_hoppers_kernels_are_left_out(tmp_path: Path) -> None:
    """Of what launch.cpp calls, that build has every function: else its link would fail."""
    configured = Configured(tmp_path, None, {"TORCH_CUDA_ARCH_LIST": "7.5"})
    assert configured.good, configured.error
    commands = configured.commands()
    launch = tmp_path / "launch.o"
    # Its command alone: its target would have the kernels compiled first.
    output_of("sh", "-c", re.sub(r" -o \S+", f" -o {launch}", commands["cuda/launch/launch.cpp"]))
    undefined = re.findall(r" U tiled::(\w+)", output_of("nm", "-C", "-u", launch))
    assert {"NaiveLaunch", "launch_sums"} <= set(undefined)
    assert "HopperLaunch" not in undefined
    sources = {name: configured.text(name) for name in commands}
    sources.pop("cuda/launch/launch.cpp")
    missing = [
        name
        for name in undefined
        # a definition begins a line with the type of its result, or gives a constant its value
        if not any(re.search(rf"^\w.* \*?{name}(\(| = )", text, re.M) for text in sources.values())
    ]
    assert missing == []


@needs_nvcc
@pytest.mark.parametrize("wanted", ["Hopper", "9.0+ptx", "3.5"])
def test_unknown_architectures_are_refused(wanted: str, tmp_path: Path) -> None:
    configured = Configured(tmp_path, None, {"TORCH_CUDA_ARCH_LIST": wanted})
    assert not configured.good
    assert f"'{wanted}'" in configured.error


# ---- the sources, wherever they lie -----------------------------------------------------------


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive that `python -m build --sdist` makes."""
    folder = tmp_path_factory.mktemp("sdist")
    program = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    result = run(sys.executable, "-c", program, folder, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    (archive,) = folder.iterdir()
    return archive


def unpacked(archive: Path, folder: Path) -> Path:
    """The archive's one folder, as `folder`."""
    shutil.unpack_archive(archive, folder.parent)
    (only,) = (path for path in folder.parent.iterdir() if path.is_dir())
    return only.rename(folder)


def test_a_source_distribution_has_all_that_is_built_and_no_more(
    source_distribution: Path, tmp_path: Path
) -> None:
    folder = unpacked(source_distribution, tmp_path / "sources")
    assert not (folder / "ops" / "tiled_mm" / "lib").exists()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert pages and pages == {page.name for page in (folder / "docs").glob("*.md")}


# These stand for the programs of the virtual environment, which lies below the clone too. CMake
# configures, and so looks for every source file; commands that compile or install are only printed.
TOOLS = {
    "cmake": 'case "$1" in -S) exec "{cmake}" "$@" ;; *) echo cmake "$@" ;; esac',
    "ninja": 'exec "{ninja}" "$@"',
    "python": 'case "$1" in -c) exec "{python}" "$@" ;; *) echo python "$@" ;; esac',
}


def test_make_builds_in_a_folder_of_any_name(source_distribution: Path, tmp_path: Path) -> None:
    clone = unpacked(source_distribution, tmp_path / "tiled-mm 0.1 (copy)")
    tools = {"cmake": tool("cmake"), "ninja": tool("ninja"), "python": sys.executable}
    programs = clone / ".venv" / "bin"
    programs.mkdir(parents=True)
    for program, text in TOOLS.items():
        (programs / program).write_text(f"#!/bin/sh\n{text.format(**tools)}\n")
        (programs / program).chmod(0o755)
    # Not the settings of the make that runs these tests.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    result = run("make", "build", cwd=clone, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    (status,) = status_lines(result.stdout)
    assert f" {tiled_mm.__version__}: CUDA " in status
    cache = (clone / "build" / "CMakeCache.txt").read_text()
    assert f"Python3_EXECUTABLE:UNINITIALIZED={programs / 'python'}\n" in cache
    assert (clone / "build" / "build.ninja").exists()
    assert "cmake --install build --prefix ops/tiled_mm\n" in result.stdout


@pytest.mark.parametrize("asked", [None, "newest-cuda", "gpu"])
def test_make_wheels_builds_each_kind_for_each_torch(
    asked: str | None, source_distribution: Path, tmp_path: Path
) -> None:
    """By the commands that it runs: pip is not called here, since CUDA's kernels take an hour."""
    clone = unpacked(source_distribution, tmp_path / "tiled-mm 0.1 (copy)")
    for environment in (".venv", ".venv-newest"):
        programs = clone / environment / "bin"
        programs.mkdir(parents=True)
        said = '"$TILED_MM_LOCAL_VERSION" "$FORCE_CUDA" "${TILED_MM_BUILD_DIR##*/}" "$*"'
        (programs / "python").write_text(f"#!/bin/sh\necho {environment} {said}\n")
        (programs / "python").chmod(0o755)
    wheels = [] if asked is None else [f"WHEELS={asked}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    result = run("make", "wheels", *wheels, cwd=clone, env=environment)
    if asked == "gpu":
        assert result.returncode != 0 and "WHEELS has no gpu: cpu, cuda, " in result.stderr
        return
    assert result.returncode == 0, result.stderr
    pip = "-m pip wheel --no-build-isolation --no-deps --wheel-dir dist/tiled-mm ."
    kinds = {
        "cpu": (".venv", 0),
        "cuda": (".venv", 1),
        "newest-cpu": (".venv-newest", 0),
        "newest-cuda": (".venv-newest", 1),
    }
    assert [line for line in result.stdout.splitlines() if line.endswith(pip)] == [
        f"{environment} 1 {cuda} build-wheel-{kind} {pip}"
        for kind, (environment, cuda) in kinds.items()
        if asked in (None, kind)
    ]
    assert result.stdout.splitlines()[-1].endswith(" wheel_index.py dist")


# It makes the wheel of an editable installation, but for the library in place.
EDITABLE = """
import sys
import setuptools
import distutils.core
from setuptools.command.build_py import build_py

distribution = distutils.core.run_setup("setup.py", stop_after="commandline")
distribution.cmdclass["build_py"] = build_py
distribution.get_command_obj("editable_wheel").dist_dir = sys.argv[1]
distribution.run_command("editable_wheel")
"""


def test_an_editable_installation_is_a_path_that_checkers_read(
    source_distribution: Path, tmp_path: Path
) -> None:
    """Static checkers read a .pth file that names a folder, and run no import hook."""
    clone = unpacked(source_distribution, tmp_path / "sources")
    made = run(sys.executable, "-c", EDITABLE, tmp_path, cwd=clone)
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = [n for n in archive.namelist() if ".dist-info/" not in n]
        assert [Path(name).suffix for name in files] == [".pth"]
        assert archive.read(files[0]).decode().splitlines() == [str(clone / "ops")]
    assert (clone / "ops" / "tiled_mm" / "py.typed").exists()


def test_the_source_list_is_complete() -> None:
    """Every source of the library is in CMakeLists.txt, or in sources.cmake beside it."""
    names = r"\.(?:cpp|cu\.in|cu)\b"
    listed = set(re.findall(rf"ops/[\w/]+{names}", (ROOT / "CMakeLists.txt").read_text()))
    for rung in (ROOT / "ops/cuda").glob("*/*/sources.cmake"):
        folder = rung.parent.relative_to(ROOT)
        listed |= {f"{folder}/{name}" for name in re.findall(rf"\w+{names}", rung.read_text())}
    suffixes = ("cpp", "cu", "cu.in")
    sources = [path for suffix in suffixes for path in (ROOT / "ops").rglob(f"*.{suffix}")]
    assert len(sources) > 10
    assert listed == {str(path.relative_to(ROOT)) for path in sources}
