"""Builds the plan of a native call: a head of words, the words that it points to, and the bytes of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from crown.programs.kernels import pipeline as kernels
from plans.expressions.expr import Expr


class PlanPart(Protocol):
    """A part of a program that is described in a plan."""

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""


class Plan:
    """A plan while words are added (see ``crown.programs.kernels.pipeline``). ``head``: the words ``P_...``."""

    def __init__(self) -> None:
        self.head = np.zeros(kernels.PLAN_WORDS, np.int64)
        self._pieces = [self.head]
        self._length = len(self.head)
        self._bytes = bytearray()
        self._texts = list[int]()
        self.offsets = dict[PlanPart, int]()  # of the parts that were added
        self.lookups = dict[int, Expr]()  # by text number

    def add(self, words: Sequence[int] | np.ndarray) -> int:
        """Adds words. Returns their offset."""
        offset = self._length
        self._pieces.append(np.array(words, np.int64).reshape(-1))
        self._length += len(self._pieces[-1])
        return offset

    def add_part(self, part: PlanPart) -> int:
        """Adds the words of a part. Returns their offset."""
        offset = self.offsets[part] = self.add(part.plan_words(self))
        return offset

    def add_bytes(self, data: bytes) -> int:
        """Adds bytes to those of texts. Returns the position of the first."""
        offset = len(self._bytes)
        self._bytes += data
        return offset

    def add_texts(self, texts: Sequence[bytes | Expr]) -> int:
        """Adds texts, whose codes each call looks up, and lookups, whose tables each call reads.

        Returns the text number of the first.
        """
        first = self.text_count
        for text in texts:
            if isinstance(text, Expr):
                self.lookups[self.text_count] = text
                self._texts += [0, -1]
            else:
                self._texts += [self.add_bytes(text), len(text)]
        return first

    @property
    def text_count(self) -> int:
        """Returns the number of texts and lookups."""
        return len(self._texts) // 2

    def build(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns all words, int64[n], and the bytes of texts."""
        self.head[kernels.P_TEXT_COUNT] = self.text_count
        self.head[kernels.P_TEXTS_AT] = self.add(self._texts)
        return np.concatenate(self._pieces), np.frombuffer(bytes(self._bytes) or b"\0", np.uint8)
