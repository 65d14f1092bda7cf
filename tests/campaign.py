"""The size of the slow campaign, and which seeds it draws: both are said in the environment.

Hypothesis draws its own examples. Tests that count seeds or rounds count in proportion (``rounds``), from a first seed
that is another one in each campaign (``first_seed``).
"""

from __future__ import annotations

import os

EXAMPLES = "CROWN_TEST_EXAMPLES"
SEED = "CROWN_TEST_SEED"
DEFAULT = 300


def examples() -> int:
    """Returns how many examples Hypothesis draws for each property. Raises ``ValueError`` with a sentence."""
    size = _number(EXAMPLES, f"{EXAMPLES}={DEFAULT}, or `make test-slow EXAMPLES={DEFAULT}`")
    if size == 0:
        raise ValueError(f"{EXAMPLES} is 0, and a campaign without examples shows nothing: say a number from 1 up")
    return DEFAULT if size is None else size


def rounds(count: int) -> int:
    """Returns what takes the place of ``count``, which goes with the default size, in a campaign of this size."""
    return max(1, count * examples() // DEFAULT)


def first_seed() -> int:
    """Returns the first seed of this campaign, 0 in any other run. Raises ``ValueError`` with a sentence."""
    return _number(SEED, f"{SEED}=5000, the number that the last line of a campaign names") or 0


def is_running() -> bool:
    """Returns True iff this run of pytest is a campaign."""
    return bool(os.environ.get(SEED, "").strip())


def _number(variable: str, example: str) -> int | None:
    """Returns the number that a variable of the environment holds, None if it holds nothing."""
    said = os.environ.get(variable, "").strip()
    if not said:
        return None
    if not (said.isascii() and said.isdigit() and len(said) < 10):
        raise ValueError(f"{variable} is {said!r}, which is no whole number below a billion: say for example {example}")
    return int(said)
