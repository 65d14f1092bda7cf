"""Measures how much of mapped files is resident in memory, and returns pages to the system. Linux only.

The touched pages of a file stay in memory until the system is short of it. A program that shares a host with others, or
is charged for resident memory, cannot wait for that: ``trim`` writes pages to the file and drops them. Nothing is lost,
even if other threads write: a page that changes after it was written is not dropped, and a dropped page is read again
when it is touched.

Pages are chosen by the clock algorithm with a second chance. Each ``trim`` unmaps all pages from this process. So pages
that are mapped at the next ``trim`` were touched in between, and they are dropped last.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from crown.kernels.memory import arena as A
from crown.store.memory import MappedFile

_PAGE = mmap.PAGESIZE
_FOLIO = 512  # pages: the largest unit in which the system caches a file; it drops no part of one
_PIECES = (16, _FOLIO, 1 << 20)
"""Pages that are dropped or kept together: first the unit that the system maps around a touched page, then larger ones
if dropping these did not suffice."""
_LEFT = 3 / 4  # share of the limit that remains after a trim, so that pages are not dropped one by one
_IN_MEMORY = {"tmpfs", "ramfs"}
_Span = tuple[MappedFile, int, int]
"""A file, and the start and the end of a range of its bytes."""


def supported() -> bool:
    """Returns True if this system reports which pages are in memory."""
    return sys.platform == "linux" and os.path.exists("/proc/self/pagemap")


def in_memory(folder: Path) -> bool:
    """Returns True if the file system of a folder is in memory, so that its files are always resident."""
    found, longest = "", -1
    path = os.path.realpath(folder)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, source = line.partition(" - ")
        point = mount.split()[4].encode().decode("unicode_escape")
        if len(point) >= longest and os.path.commonpath([point, path]) == point:
            found, longest = source.split()[0], len(point)
    return found in _IN_MEMORY


def touched() -> int:
    """Returns the bytes of mapped files that are in memory, for the whole process. Takes some microseconds."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[2]) * _PAGE


def used(files: Iterable[MappedFile]) -> int:
    """Returns the used bytes of the files, in memory or not. O(parts)."""
    return sum(stop - start for file in files for start, stop in _spans(file))


def resident(files: Iterable[MappedFile]) -> int:
    """Returns the bytes of the files that are in memory, for all processes. O(used bytes), some 20 ms per GiB."""
    return _counted([(file, *span) for file in files for span in _spans(file)])


def trim(files: Sequence[MappedFile], limit: int, hand: int = 0) -> int:
    """Drops pages of the files until less than ``limit`` bytes are in memory. Returns the dropped bytes.

    ``hand``: where the clock hand starts among recently touched pages; pass another number each time. Other threads may
    use the files meanwhile. Pages that another process has mapped stay. Pages that the system reads ahead around a
    touched page return: see ``expect``. Cost: ``resident``, and writing changed pages.
    """
    if used(files) <= limit:
        return 0
    spans = [(file, *_widened(file, *span)) for file in files for span in _spans(file)]
    before = left = _counted(spans)
    recent = [_mapped(*span) for span in spans]
    for pages in _PIECES:
        if left <= limit:
            break
        _drop(spans, recent, left - int(_LEFT * limit), hand, pages)
        left = _counted(spans)
    return max(before - left, 0)


def _drop(spans: Sequence[_Span], recent: Sequence[np.ndarray], excess: int, hand: int, size: int) -> None:
    """Drops ``excess`` bytes, in pieces of ``size`` pages. Drops pieces without ``recent`` pages first."""
    pages = np.concatenate([_pieces(_in_core(*span), size).sum(axis=1) for span in spans])
    late = np.concatenate([_pieces(mapped, size).any(axis=1) for mapped in recent])
    hand %= len(late)
    order = (np.argsort(np.roll(late, -hand), kind="stable") + hand) % len(late)  # from the clock hand
    enough = np.searchsorted(np.cumsum(pages[order]), excess // _PAGE) + 1
    going = np.zeros(len(pages), bool)
    going[order[:enough]] = True
    going &= pages > 0
    for file, start, stop in spans:
        file.advise(mmap.MADV_DONTNEED, start, stop - start)
    for descriptor in {file.descriptor for file, _, _ in spans}:
        os.fdatasync(descriptor)
    at = 0
    for file, start, stop in spans:
        count = -(-(stop - start) // (size * _PAGE))
        for first, last in _runs(going[at : at + count]):
            begin, end = start + first * size * _PAGE, min(start + last * size * _PAGE, stop)
            os.posix_fadvise(file.descriptor, begin, end - begin, os.POSIX_FADV_DONTNEED)
        at += count


def expect(files: Iterable[MappedFile], in_order: bool) -> None:
    """Tells the system how this process will read the files: from beginning to end, or at random.

    Reading ahead around touched pages would evict pages that are in use.
    """
    for file in files:
        file.advise(mmap.MADV_NORMAL if in_order else mmap.MADV_RANDOM)


def unmap(file: MappedFile) -> None:
    """Unmaps the used pages of a file from this process, which maps them again when it touches them."""
    for start, stop in _spans(file):
        file.advise(mmap.MADV_DONTNEED, start, stop - start)


def _spans(file: MappedFile) -> Iterator[tuple[int, int]]:
    """Yields the start and the end of the used bytes of each part in the file, in whole pages."""
    base = file.words.ctypes.data
    for part in file.parts:
        start = (part.ctypes.data - base) // _PAGE * _PAGE
        stop = part.ctypes.data - base + 8 * min(int(part[A.H_TOP]), len(part))
        stop += -stop % _PAGE
        if part[A.H_TOP] > 0:
            yield start, stop


def _in_core(file: MappedFile, start: int, stop: int) -> np.ndarray:
    """Returns bool per page, True if the page is in memory."""
    found = np.zeros((stop - start) // _PAGE, np.uint8)
    address = ctypes.c_void_p(file.words.ctypes.data + start)
    if _libc().mincore(address, ctypes.c_size_t(stop - start), ctypes.c_void_p(found.ctypes.data)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return (found & 1).astype(bool)


def _mapped(file: MappedFile, start: int, stop: int) -> np.ndarray:
    """Returns bool per page, True if this process has touched the page since it was unmapped."""
    first, pages = (file.words.ctypes.data + start) // _PAGE, (stop - start) // _PAGE
    with open("/proc/self/pagemap", "rb", buffering=0) as table:
        words = np.frombuffer(os.pread(table.fileno(), 8 * pages, 8 * first), np.uint64)
    return (words >> np.uint64(63)).astype(bool)


def _counted(spans: Iterable[_Span]) -> int:
    return _PAGE * sum(int(np.count_nonzero(_in_core(*span))) for span in spans)


def _widened(file: MappedFile, start: int, stop: int) -> tuple[int, int]:
    """Returns the start and the end of the folios that contain these bytes of the file, as far as they are mapped."""
    size, (first, last) = _FOLIO * _PAGE, file.extent(start)
    return max(start // size * size, first), min(-(-stop // size) * size, last // _PAGE * _PAGE)


def _pieces(pages: np.ndarray, size: int) -> np.ndarray:
    """Returns the pages as rows of one piece each."""
    return np.pad(pages, (0, -len(pages) % size)).reshape(-1, size)


def _runs(chosen: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yields the start and the end of each run in which ``chosen`` is True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]]).astype(np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
