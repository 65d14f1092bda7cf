"""Converts a double to a word with the same bits, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from crown.kernels.jit import instruction

double_of: Any = instruction(lambda word: float(np.int64(word).view(np.float64)), "double_of")
word_of: Any = instruction(lambda value: np.float64(value).view(np.int64), "word_of")
