"""``crown warm``: compiles all kernels, so that the first batch does not wait for it."""

from __future__ import annotations

import argparse

HELP = "compile all kernels on this machine, unless the package contains them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""


def run(args: argparse.Namespace) -> int:
    """Compiles the kernels that are not in the cache, and prints where they are. Returns exit code 0."""
    from crown.compiling.folder import cache_folder
    from crown.compiling.library import library, library_state
    from crown.compiling.warm import all_variants, ensure_compiled

    variants = all_variants()
    if library() is not None:
        print(f"{len(variants)} kernels are in {library_state()}")
        return 0
    compiled = ensure_compiled(variants)
    folder, reason = cache_folder()
    print(f"{compiled} of {len(variants)} kernels were compiled; all of them are in {folder} ({reason})")
    return 0
