"""A library of some kernels, built here and called by the extension: what it takes, returns, raises and refuses.

Teams make several calls at once.
"""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest

from crown.compiling import library
from crown.compiling.build import link
from crown.compiling.signatures import variants
from crown.guards.threads import Threads
from crown.kernels import batches
from crown.kernels.memory import arena as A
from crown.kernels.memory import tables

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which(os.environ.get("CC", "cc"))
pytestmark = pytest.mark.skipif(
    COMPILER is None or sys.platform != "linux" or bool(numba.config.DISABLE_JIT) or bool(numba.config.BOUNDSCHECK),
    reason="nothing can be built",
)
SIGNATURES = {
    "extent": (batches.extent, "const words"),
    "texts_equal": (batches.texts_equal, "const halves, const bytes, bytes, bool, flags"),
    "negatives": (batches.negatives, "words"),
    "new_table": (tables.new_table, "words, int"),
    "is_arena": (A.is_arena, "words"),
}


def function_of(kernel: Any) -> Any:
    return getattr(kernel, "py_func", None) or kernel.__wrapped__


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The extension."""
    made = tmp_path_factory.mktemp("native") / "native.so"
    include = [f"-I{sysconfig.get_paths()['include']}", f"-I{np.get_include()}"]
    options = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([str(COMPILER), *options, *include, "crown/compiling/native.c", "-o", made], cwd=ROOT, check=True)
    spec = importlib.util.spec_from_file_location("native", made)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kernels(native: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Some kernels, called in a library of them."""
    from crown.compiling.dispatch import compiled_alone, dispatcher
    from crown.compiling.emit import Emitter, letters_of

    folder = tmp_path_factory.mktemp("library")
    machine = "aarch64" if os.uname().machine == "aarch64" else "x86-64-v2"
    emitter, lines = Emitter(machine), []
    for name, (kernel, signature) in SIGNATURES.items():
        (variant,) = variants(signature)
        compiled = compiled_alone(dispatcher(function_of(kernel), ()), variant)
        (folder / f"{name}.o").write_bytes(emitter.kernel(compiled, f"entry_{name}"))
        lines.append((name, variant, letters_of(compiled.signature.return_type), f"entry_{name}"))
    (folder / "table.o").write_bytes(emitter.table(lines))
    loaded = ctypes.CDLL(str(link(folder, folder / "some.so")))
    found = native.entries(ctypes.addressof(ctypes.c_char.in_dll(loaded, "crown_entries")))
    assert [one[:3] for one in found] == [line[:3] for line in lines]
    names = {name: tuple(inspect.signature(function_of(kernel)).parameters) for name, (kernel, _) in SIGNATURES.items()}
    made = {name: native.Kernel(name, names[name], (tuple(addresses),)) for name, _, _, *addresses in found}
    made["library"] = loaded
    return made


def test_the_stamp_of_a_library_is_that_of_the_sources(kernels: dict[str, Any]) -> None:
    at = ctypes.addressof(ctypes.c_char.in_dll(kernels["library"], "crown_stamp"))
    assert ctypes.string_at(at).decode() == library.stamp()


def test_results_are_those_of_the_kernel(kernels: dict[str, Any]) -> None:
    values = np.array([3, -1, 7])
    assert kernels["extent"](values) == (-1, 7)
    values.flags.writeable = False
    assert kernels["extent"](values) == (-1, 7)
    assert kernels["extent"](values.astype(np.longlong)) == (-1, 7)
    ends, data = np.array([0, 1, 2], np.int32), np.frombuffer(b"ab", np.uint8)
    for flag, wanted in ((True, [False, True]), (np.bool_(False), [True, False]), (1, [False, True])):
        out = np.zeros(2, bool)
        kernels["texts_equal"](ends, data, np.frombuffer(b"b", np.uint8).copy(), flag, out)
        assert out.tolist() == wanted


def test_an_arena_is_the_same_as_that_of_numba(kernels: dict[str, Any]) -> None:
    one, other = np.zeros(4096, np.int64), np.zeros(4096, np.int64)
    for arena, new_table in ((one, kernels["new_table"]), (other, tables.new_table)):
        A.format_arena(arena, 1, 4096, 7)
        new_table(arena, np.int64(tables.table_at(0)))
    assert np.array_equal(one, other)
    assert kernels["is_arena"](one) == A.is_arena(one)


def test_what_a_kernel_raises_is_raised(kernels: dict[str, Any]) -> None:
    arena = np.zeros(200, np.int64)
    A.format_arena(arena, 1, int(A.header_words(1)) + 1, 7)
    with pytest.raises(MemoryError, match="arena exhausted"):
        kernels["new_table"](arena, int(tables.table_at(0)))


@pytest.mark.parametrize(
    "given",
    [[1, 2], None, np.zeros(3), np.zeros((2, 2), np.int64), np.arange(8)[::2], np.arange(3, dtype=">i8"), 5],
    ids=str,
)
def test_another_type_is_refused_with_the_kernel_and_the_argument(kernels: dict[str, Any], given: object) -> None:
    with pytest.raises(TypeError, match=r"extent\(\) takes for values a C-contiguous array int64\[n\], not"):
        kernels["extent"](given)


def test_what_is_written_must_be_writable(kernels: dict[str, Any]) -> None:
    arena = np.zeros(4096, np.int64)
    arena.flags.writeable = False
    with pytest.raises(TypeError, match=r"new_table\(\) takes for arena a writable C-contiguous array int64\[n\]"):
        kernels["new_table"](arena, 1)


def test_numbers_are_integers_of_64_bits(kernels: dict[str, Any]) -> None:
    arena = np.zeros(4096, np.int64)
    with pytest.raises(TypeError, match=r"takes for t an integer, not float"):
        kernels["new_table"](arena, 1.5)
    with pytest.raises(OverflowError):
        kernels["new_table"](arena, 2**63)
    for wrong in ((arena,), (arena, 1, 2)):
        with pytest.raises(TypeError, match="takes 2 arguments by position"):
            kernels["new_table"](*wrong)
    with pytest.raises(TypeError, match="by position"):
        kernels["new_table"](arena, t=1)


def test_several_threads_call_at_the_same_time(kernels: dict[str, Any]) -> None:
    values, found = [np.arange(n, n + 1_000_000) for n in range(4)], [(0, 0)] * 4

    def look(n: int) -> None:
        for _ in range(20):
            found[n] = kernels["extent"](values[n])

    threads = [threading.Thread(target=look, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(n, n + 999_999) for n in range(4)]


def test_objects_for_another_processor_have_the_same_entries() -> None:
    """Those for ARM are emitted here; they are linked and run on a machine of their kind."""
    from crown.compiling.dispatch import compiled_alone, dispatcher
    from crown.compiling.emit import Emitter

    compiled = compiled_alone(dispatcher(function_of(batches.extent), ()), "W")
    made = Emitter("aarch64").kernel(compiled, "entry_of_extent")
    assert made[:5] == b"\x7fELF\x02"
    assert int.from_bytes(made[18:20], "little") == 183, "the machine of an ELF file: AArch64"
    assert b"entry_of_extent" in made


@pytest.fixture
def team(native: ModuleType) -> Iterator[Any]:
    """A team with two threads."""
    made = native.Team(2)
    serving = [threading.Thread(target=made.serve, args=(number,)) for number in range(2)]
    for thread in serving:
        thread.start()
    yield made
    made.end()
    for thread in serving:
        thread.join(10)
        assert not thread.is_alive()


def test_a_team_makes_calls_at_once_and_returns_what_each_has_left(kernels: dict[str, Any], team: Any) -> None:
    full = np.zeros(200, np.int64)
    A.format_arena(full, 1, int(A.header_words(1)) + 1, 7)
    for wait in (0.0, 0.0, 0.01, 0.0, 0.3):  # the threads watch for some time, then sleep
        time.sleep(wait)
        values = [(np.arange(n),) for n in (5, 7, 9)]
        assert team.run(kernels["extent"], values) == [(0, 4), (0, 6), (0, 8)]
        assert team.run(kernels["extent"], values[:1]) == [(0, 4)]
        fresh = np.zeros(4096, np.int64)
        A.format_arena(fresh, 1, 4096, 7)
        left = team.run(kernels["new_table"], [(fresh, 1), (full, int(tables.table_at(0)))])
        assert left[0] is None
        assert isinstance(left[1], MemoryError)


def test_a_team_refuses_what_it_cannot_call_and_goes_on(kernels: dict[str, Any], team: Any) -> None:
    extent, values = kernels["extent"], (np.arange(3),)
    for wrong, error in (
        ((extent, [values] * 4), "makes 1 to 3 calls"),
        ((extent, []), "makes 1 to 3 calls"),
        ((extent, [values, (5,)]), "takes for values"),
        ((extent, [values, ()]), "takes 1 arguments"),
        ((extent, [values, 7]), "are a tuple"),
        ((len, [values]), "Kernel"),
    ):
        with pytest.raises((TypeError, ValueError), match=error):
            team.run(*wrong)
    assert team.run(extent, [values] * 3) == [(0, 2)] * 3
    with pytest.raises(IndexError, match="2 seats"):
        team.serve(2)


@pytest.mark.parametrize("native_calls", [True, False])
def test_calls_in_threads_return_results_and_exceptions(native_calls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if native_calls and library.library() is None:
        pytest.skip("kernels are called by Numba")
    if not native_calls:
        monkeypatch.setattr("crown.guards.threads.library", lambda: None)
    threads, three = Threads(2), [(np.arange(n),) for n in (40_000, 50_000, 60_000)]
    assert threads.call(batches.extent, [(np.arange(4),)]) == [(0, 3)]
    assert threads.call(batches.extent, [(np.arange(n),) for n in (4, 5, 6)]) == [(0, 3), (0, 4), (0, 5)]
    full = np.zeros(200, np.int64)
    A.format_arena(full, 1, int(A.header_words(1)) + 1, 7)
    failed = threads.call(tables.new_table, [(full.copy(), np.int64(tables.table_at(0))) for _ in range(3)])
    assert [type(one) for one in failed] == [MemoryError] * 3
    found = list[Any]()
    many = [threading.Thread(target=lambda: found.append(Threads(2).call(batches.extent, three))) for _ in range(8)]
    for one in many:  # all views share a team
        one.start()
    for one in many:
        one.join()
    assert found == [[(0, 39_999), (0, 49_999), (0, 59_999)]] * 8
    child = os.fork()
    if child == 0:  # its threads are its own
        os._exit(threads.call(batches.extent, [(np.arange(n),) for n in (4, 5)]) != [(0, 3), (0, 4)])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert threads.call(batches.extent, [(np.arange(n),) for n in (7, 8)]) == [(0, 6), (0, 7)]
