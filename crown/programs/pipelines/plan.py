"""The plan of a native call while it is written: a head of words, what they point to, and texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from crown.programs.kernels import pipeline as kernels
from plans.expressions.expr import Expr


class Written(Protocol):
    """A part of a program that has words in a plan."""

    def words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan, to which it adds what they point to."""


class Plan:
    """Words for ``crown.programs.kernels.pipeline``; ``head``: its first words, which say where the others are."""

    def __init__(self) -> None:
        self.head = np.zeros(kernels.PLAN, np.int64)
        self._pieces = [self.head]
        self._length = len(self.head)
        self._octets = bytearray()
        self._named = list[int]()
        self.places = dict[Written, int]()  # of parts that are written
        self.lookups = dict[int, Expr]()  # by their numbers among the texts

    def add(self, words: Sequence[int] | np.ndarray) -> int:
        """Adds words; returns where they are."""
        at = self._length
        self._pieces.append(np.array(words, np.int64).reshape(-1))
        self._length += len(self._pieces[-1])
        return at

    def write(self, part: Written) -> int:
        """Adds a part; returns where it is."""
        found = self.places[part] = self.add(part.words(self))
        return found

    def add_octets(self, octets: bytes) -> int:
        """Adds bytes to those that texts are made of; returns where they are."""
        at = len(self._octets)
        self._octets += octets
        return at

    def name_texts(self, texts: Sequence[bytes | Expr]) -> int:
        """Adds texts whose codes are looked up in each call, and expressions whose tables are; returns the number of
        the first."""
        first = self.named
        for text in texts:
            if isinstance(text, Expr):
                self.lookups[self.named] = text
                self._named += [0, -1]
            else:
                self._named += [self.add_octets(text), len(text)]
        return first

    @property
    def named(self) -> int:
        """Returns how many texts are looked up."""
        return len(self._named) // 2

    def written(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the words, int64[n], and the bytes of texts."""
        self.head[kernels.P_TEXTS] = self.named
        self.head[kernels.P_TEXT0] = self.add(self._named)
        return np.concatenate(self._pieces), np.frombuffer(bytes(self._octets) or b"\0", np.uint8)
