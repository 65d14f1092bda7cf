"""setuptools, which is also given what compiling the kernels needs, where ``CROWN_KERNELS=1`` asks for that."""

import os
from configparser import ConfigParser

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403


def get_requires_for_build_wheel(config_settings=None):
    """Returns the packages that building a wheel needs: all that this package needs, and Numba."""
    needed = build_meta.get_requires_for_build_wheel(config_settings)
    if os.environ.get("CROWN_KERNELS") != "1":
        return needed
    settings = ConfigParser()
    settings.read("setup.cfg")
    listed = settings["options"]["install_requires"] + settings["options.extras_require"]["jit"]
    return [*needed, *filter(None, listed.split("\n"))]
