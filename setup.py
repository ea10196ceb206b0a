"""pip's face of the CMake build. The sources and all settings of theirs are CMake's
(CMakeLists.txt, cmake/, and sources.cmake in each rung's folder).

    pip install .                                      with a torch of pip's own choice
    pip install --no-build-isolation .                 for the torch that is installed
    pip install --no-build-isolation -e .              the same, in place (builds in build/)
    pip wheel --no-build-isolation --no-deps .

The environment variables of cmake/cuda_rule.cmake apply; MAX_JOBS bounds the parallel compilations,
TILED_MM_BUILD_DIR names the folder to build in.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
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


def build_and_install(prefix: Path) -> None:
    """Builds the library with CMake and installs it, with its package, into `prefix`."""
    cmake, ninja = find_tool("cmake"), find_tool("ninja")
    configure = [cmake, "-S", ROOT, "-G", "Ninja"]
    if build_dir := os.environ.get("TILED_MM_BUILD_DIR"):
        build_dir = Path(build_dir)
    elif torch_is_ours():
        build_dir = ROOT / "build"
    else:  # an environment that is new each time: keep it out of the other build
        build_dir = ROOT / "build" / "isolated"
        configure.append("--fresh")
    configure += ["-B", build_dir]
    configure += [f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DPython3_EXECUTABLE={sys.executable}"]
    build = [cmake, "--build", build_dir, "--target", "tiled_mm"]
    if jobs := os.environ.get("MAX_JOBS"):
        build += ["--parallel", jobs]
    subprocess.run(configure, check=True)
    subprocess.run(build, check=True)
    install = [cmake, "--install", build_dir, "--prefix", prefix]
    subprocess.run(install, check=True)
    subprocess.run([*install, "--component", "python"], check=True)


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


setup(
    distclass=BinaryDistribution,
    cmdclass={"build_py": BuildPackage, "bdist_wheel": AnyPythonWheel},
    packages=find_packages("ops", include=[f"{PACKAGE}*"]),
    package_dir={PACKAGE: f"ops/{PACKAGE}"},
    package_data={PACKAGE: ["py.typed"]},
    include_package_data=False,
    install_requires=[torch_requirement()],
)
