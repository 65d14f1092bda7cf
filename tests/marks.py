"""Marks of single cases."""

from __future__ import annotations

import inspect
from itertools import product

import pytest
from hypothesis import settings

from tests import campaign


def slow(*values):
    """A case that goes the way of another one: part of the slow campaign only."""
    return pytest.param(*values, marks=pytest.mark.slow)


def by_turns(many, *others, share=None):
    """All combinations of cases: in every run each of ``many`` with one of each of the ``others``, which take turns.

    For tests in which a fault of one of ``many`` shows whatever it is combined with, and so does one of the others.
    ``share``: each is combined with so few of one list of others, every second one if it is 2.
    """
    cases = []
    for number, one in enumerate(many):
        for rest in product(*map(enumerate, others)):
            now = all((place - number) % (share or len(of)) == 0 for (place, _), of in zip(rest, others, strict=True))
            case = (one, *(value for _, value in rest))
            cases.append(case if now else slow(*case))
    return cases


def draws(few, more):
    """Decorates a property of Hypothesis, so that it has ``few`` examples in every run and ``more`` in the campaign."""
    return settings(max_examples=more if campaign.is_running() else few)


def seeds(few, more, first=0):
    """Seeds of random cases: ``few`` in every run; in the campaign, ``more`` others if it has its default size."""
    start = first + few + campaign.first_seed()
    others = range(start, start + campaign.rounds(more)) if campaign.is_running() else ()
    return [*range(first, first + few), *(slow(seed) for seed in others)]


def turns(few, more):
    """Batches of a random stream: numbers below ``few`` in every run, below ``more`` in the campaign."""
    return range(more if campaign.is_running() else few)


def every(cases):
    """Decorates a test of one case, its first parameter, so that it is one test of all cases.

    A case that fails does not hide the others: the first failure is raised, and names all cases that fail. For laws
    that take a moment; where a case takes longer, ``pytest.mark.parametrize`` lets cases run side by side.
    """
    given = list(cases)
    assert given, "a law about nothing"

    def decorated(test):
        first, *fixtures = inspect.signature(test).parameters.values()
        parts = given if isinstance(given[0], tuple) else [(case,) for case in given]
        taken = len(parts[0])

        def test_of_all(**values):
            failed = []
            for case in parts:
                try:
                    test(*case, **values)
                except Exception as error:
                    failed.append((case, error))
            if failed:
                _, error = failed[0]
                names = "\n".join(f"  {', '.join(map(repr, case))}" for case, _ in failed)
                error.add_note(f"{len(failed)} of {len(parts)} cases fail, this is the first:\n{names}")
                raise error

        test_of_all.__name__, test_of_all.__doc__ = test.__name__, test.__doc__
        test_of_all.__module__, test_of_all.__qualname__ = test.__module__, test.__qualname__
        test_of_all.__signature__ = inspect.Signature([first, *fixtures][taken:])
        return test_of_all

    return decorated
