"""Builds what is not Python. The rest is in ``setup.cfg``.

The extension that calls compiled kernels is left out where there is no C compiler: Numba calls them then. With
``CROWN_KERNELS=1`` all kernels are compiled, too: that is how wheels for others are made, see ``tests/wheels``.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

KERNELS = os.environ.get("CROWN_KERNELS") == "1"
GLIBC = "2_29"
"""What the libraries need of the C library; ``tests/wheels`` checks that."""


class Modules(build_py):
    """Copies the modules into an empty folder, so that a wheel has none that an earlier version had."""

    def run(self) -> None:
        """Empties the folder first."""
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class Build(build_ext):
    """Builds the extension, and then the libraries of kernels, with the sources that are here."""

    def run(self) -> None:
        """Builds both."""
        super().run()
        if KERNELS:
            folder = Path(self.build_lib).absolute() / "crown" / "compiling" / "libraries"
            subprocess.run([sys.executable, "-m", "crown.compiling.build", str(folder)], check=True)


native = Extension(
    "crown.compiling.native",
    ["crown/compiling/native.c"],
    include_dirs=[numpy.get_include()],
    py_limited_api=True,
    optional=not KERNELS,
)
wheel = {"py_limited_api": "cp311"}
if KERNELS and sys.platform == "linux":
    wheel["plat_name"] = f"manylinux_{GLIBC}_{os.uname().machine}"
setup(ext_modules=[native], cmdclass={"build_py": Modules, "build_ext": Build}, options={"bdist_wheel": wheel})
