"""pip's face of the CMake build. The sources and all settings of theirs are CMake's
(CMakeLists.txt, cmake/, and sources.cmake in each rung's folder).

    pip install .                                      with a torch of pip's own choice
    pip install --no-build-isolation .                 for the torch that is installed
    pip install --no-build-isolation -e .              the same, in place (builds in build/)
    pip wheel --no-build-isolation --no-deps .

The environment variables of cmake/cuda_rule.cmake apply; MAX_JOBS bounds the parallel compilations,
TILED_MM_BUILD_DIR names the folder to build in. With TILED_MM_LOCAL_VERSION=1 the version says what
the library is built for, as it must of wheels that lie beside others (`make wheels`):
0.1.0+cu130.torch2.11, 0.1.0+cpu.torch2.11.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Distribution, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
PACKAGE = "tiled_mm"
OLDEST_TORCH = (2, 10)  # CMakeLists.txt says the same, and why


def torch_requirement() -> str:
    """C++ interfaces of torch change with each minor version, so the library fits only one."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        sys.exit(
            "tiled-mm is built for the torch that is installed, and there is none: "
            "pip install torch first, or leave out --no-build-isolation."
        )
    major, minor = (int(number) for number in version.split(".")[:2])
    if (major, minor) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        sys.exit(f"tiled-mm needs torch {oldest} or later, but torch {version} is installed.")
    return f"torch=={major}.{minor}.*"


def torch_is_ours() -> bool:
    """Whether torch belongs to this Python, rather than to pip's isolated environment."""
    spec = importlib.util.find_spec("torch")  # does not import it
    return Path(spec.origin).parents[1] == Path(sysconfig.get_path("platlib"))


def find_tool(name: str) -> str:
    """cmake or ninja, first among the scripts of this Python, whether or not it is activated."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    tool = shutil.which(name, path=path)
    if tool is None:
        sys.exit(f"tiled-mm needs {name} to build: pip install {name}")
    return tool


@functools.cache
def configured() -> Path:
    """The folder in which CMake has been configured, which decides there whether there is CUDA."""
    cmake, ninja = find_tool("cmake"), find_tool("ninja")
    configure = [cmake, "-S", ROOT, "-G", "Ninja"]
    if named := os.environ.get("TILED_MM_BUILD_DIR"):
        build_dir = Path(named)
    elif torch_is_ours():
        build_dir = ROOT / "build"
    else:  # an environment that is new each time: keep it out of the other build
        build_dir = ROOT / "build" / "isolated"
        configure.append("--fresh")
    configure += ["-B", build_dir]
    configure += [f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DPython3_EXECUTABLE={sys.executable}"]
    subprocess.run(configure, check=True)
    return build_dir


def local_version() -> str:
    """The end of the version, if it is asked for: what the library is built for. CMake is asked,
    since it alone decides about CUDA; the number is nvcc's."""
    if os.environ.get("TILED_MM_LOCAL_VERSION", "0") in ("", "0"):
        return ""
    built = runpy.run_path(str(configured() / "package" / "_build_info.py"))["BUILD_INFO"]
    device = "cpu" if built["cuda"] is None else "cu" + built["cuda"].replace(".", "")
    minor = ".".join(built["torch"].split(".")[:2])
    return f"+{device}.torch{minor}"


def build_and_install(prefix: Path) -> None:
    """Builds the library with CMake and installs it, with its package, into `prefix`. The package
    says of itself the version that its metadata have."""
    cmake, build_dir = find_tool("cmake"), configured()
    build = [cmake, "--build", build_dir, "--target", "tiled_mm"]
    if jobs := os.environ.get("MAX_JOBS"):
        build += ["--parallel", jobs]
    subprocess.run(build, check=True)
    install = [cmake, "--install", build_dir, "--prefix", prefix]
    subprocess.run(install, check=True)
    subprocess.run([*install, "--component", "python"], check=True)
    info = prefix / "_build_info.py"
    if LOCAL_VERSION:
        plain = runpy.run_path(str(info))["BUILD_INFO"]["version"]
        info.write_text(info.read_text().replace(f'"{plain}"', f'"{plain}{LOCAL_VERSION}"', 1))


class BuildPackage(build_py):
    """Copies the Python files, and builds the library beside them (in place if editable)."""

    def run(self) -> None:
        if self.editable_mode:
            super().run()
            build_and_install(ROOT / "ops" / PACKAGE)
            return
        package = Path(self.build_lib).resolve() / PACKAGE
        shutil.rmtree(package, ignore_errors=True)  # leave nothing of an earlier build
        super().run()
        build_and_install(package)


class AnyPythonWheel(bdist_wheel):
    """The library uses no Python API: one wheel for every Python 3 on the platform."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(Distribution):
    """Not pure Python, though it has no extension module."""

    def has_ext_modules(self) -> bool:
        return True


LOCAL_VERSION = local_version()

setup(
    distclass=BinaryDistribution,
    cmdclass={"build_py": BuildPackage, "bdist_wheel": AnyPythonWheel},
    packages=find_packages("ops", include=[f"{PACKAGE}*"]),
    # With "ops" for all packages an editable installation is a line in a .pth file, which mypy and
    # pyright read; with a folder for each it would be an import hook, which they cannot see.
    package_dir={"": "ops"},
    package_data={PACKAGE: ["py.typed"]},
    include_package_data=False,
    install_requires=[torch_requirement()],
    options={"egg_info": {"egg_base": ".", "tag_build": LOCAL_VERSION}},
)
