"""Mutation campaign: break one rule at a time and see which oracle notices.

Two kinds. A mutant of the *program* loses a step, takes a wrong part, scans the wrong side's mask, or leaves out a
write; its results are compared with brute force and its
views with their definitions. A mutant of the
*twin* gets the rules of rebalancing and enumeration wrong, in the ways in which the literature got them wrong.

    python -m tests.triangle.mutants            # all mutants of all programs
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import replace

from ivm_triangle.contents import Contents, IndexedSet
from ivm_triangle.terms import ANY, LOOKUP, Program, Thresholds, program
from tests.models.triangle.enumerate import Hop, HopUnion, enumerate_results
from tests.models.triangle.triangle import Reference
from tests.triangle.oracles import brute_force, hubs, project, store

PROGRAMS = {
    "Delta0 single": ("", "single", "eps"),
    "Delta0 double": ("", "double", "eps"),
    "set intersection": ("", "single", "sit"),
    "Delta1": ("a", "single", "eps"),
    "Delta2": ("ab", "single", "eps"),
    "Delta3": ("abc", "single", "eps"),
}


def program_mutants(plan: Program) -> Iterator[tuple[str, Program]]:
    """Every program that differs from `plan` in one rule."""

    def changed(i: int, **fields: object) -> Program:
        step = replace(plan.steps[i], **fields)  # type: ignore[arg-type]
        return replace(plan, steps=(*plan.steps[:i], step, *plan.steps[i + 1 :]))

    for i, step in enumerate(plan.steps):
        name = f"step {i} ({'RST'[step.updated]})"
        yield f"{name} missing", replace(plan, steps=plan.steps[:i] + plan.steps[i + 1 :])
        if step.mask0 != ANY:
            yield f"{name} for the wrong part", changed(i, mask0=ANY ^ step.mask0)
            yield f"{name} for every part", changed(i, mask0=ANY)
        for field in ("mask1", "mask2"):
            mask = getattr(step, field)
            walked = step.hit >= 0 or (field == "mask1") == (step.scan == 1)
            if mask != ANY and step.scan != LOOKUP and walked:
                yield f"{name} sees other {field}", changed(i, **{field: ANY ^ mask})
        if step.write >= 0 and step.scan != LOOKUP:
            yield f"{name} does not write", changed(i, write=-1)


def survives(plan: Program) -> bool:
    """True if no oracle notices that the twin runs `plan` where the right program was asked for.

    The twin and not the kernels: a wrong program may take out what is not there, which no kernel checks.
    """
    load, stream = hubs(28, 60)
    state = Reference(plan=plan)
    rows: list[dict] = [{}, {}, {}]
    try:
        state.load(load)
        for update in load:
            store(rows, *update)
        for i, update in enumerate(stream):
            store(rows, *update)
            state.update(*update)
            if i % 20 == 0 and not agrees(state, rows):
                return False
        return agrees(state, rows)
    except (AssertionError, LookupError, TypeError):
        return False


def agrees(state: Reference, rows: list[dict]) -> bool:
    """True if the result equals brute force; raises if an invariant is broken."""
    state.check_invariants()
    return sorted(enumerate_results(state)) == sorted(project(brute_force(rows), state.plan.outputs).items())


# -- mutants of the twin -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def patched(owner: object, name: str, value: object) -> Iterator[None]:
    """Replace an attribute for a while."""
    old = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, old)


def exclude_current(self: HopUnion) -> object:
    """The published NEXT: the bucket under the pointer is excluded too."""
    if self.at is None:
        return None
    t = self._open(self.at).next()
    if t is None:
        self.at = self.order.next()
        if self.at is None:
            return None
        t = self._open(self.at).next()
    for i in self.candidates(t):
        if self._open(i).exclude(t) and self._open(i).empty():
            self.order.exclude(i)
    return t


def exclude_twice(self: Hop, x: object) -> bool:
    """Exclusion that does not join ranges."""
    if x not in self.listing:
        return False
    self.skip_to[x] = self.listing.after(x)
    return True


def never_demote(self: Reference, k: int, column: int, value: int) -> None:
    """Minor rebalancing that only promotes."""
    node = self.nodes[k][column].get(value)
    if node is None:
        return
    if self.plan.partitioned[2 * k + column] and not node.heavy and node.degree >= self.thresholds[k].hi:
        self._move(k, column, value, True)
    if not node.degree:
        del self.nodes[k][column][value]


def flag_without_views(self: Reference, k: int, column: int, value: int, heavy: bool) -> None:
    """Rebalancing that moves tuples but not what they feed."""
    self._flag(k, column, value, heavy)


def stale_limits(self: Reference) -> None:
    """Thresholds that a major rebalancing forgets."""
    self.thresholds = [Thresholds.of(1, eps) for eps in self.eps]


def one_sided(first_heavy: bool, second_heavy: bool) -> int:
    """Parts by the first letter only."""
    return 1 << (2 * (not first_heavy))


TWIN_MUTANTS = {
    "the bucket under the pointer is excluded": (HopUnion, "next", exclude_current),
    "excluded ranges are not joined": (Hop, "exclude", exclude_twice),
    "heavy values stay heavy": (Reference, "_minor", never_demote),
    "views are not moved": (Reference, "_move", flag_without_views),
    "thresholds of an old N": (Reference, "_rebase", stale_limits),
    "double partition by one letter": (sys.modules[Contents.__module__], "part", one_sided),
    "nothing is rebalanced": (Reference, "_minor", lambda *_: None),
    "after_update never halves": (
        sys.modules[Reference.__module__],
        "after_update",
        lambda base, size: 2 * base if size == base else base,
    ),
}


def twin_survives() -> bool:
    """True if neither invariants nor brute force notice a mutant of the twin, on streams made for that."""
    for outputs, partition, strategy in PROGRAMS.values():
        state = Reference(outputs, 0.5, partition, strategy)
        rows: list[dict] = [{}, {}, {}]
        load, stream = hubs(28, 60)
        undo = [(k, x, y, -m) for k, x, y, m in reversed(load + stream)]
        try:
            for i, (k, x, y, m) in enumerate(load + stream + undo):
                store(rows, k, x, y, m)
                state.update(k, x, y, m)
                if i % 40 == 0 and not agrees(state, rows):
                    return False
        except (AssertionError, LookupError, TypeError):
            return False
    return not hop_unions_break()


def hop_unions_break() -> bool:
    """True if a hop union over random buckets loses or repeats an element."""
    import random

    for seed in range(400):
        rng = random.Random(seed)
        ids, buckets = IndexedSet(), {}
        for i in range(rng.randint(1, 6)):
            buckets[i] = IndexedSet()
            for x in rng.sample(range(8), rng.randint(1, 8)):
                buckets[i].add(x)
            ids.add(i)
        hops = HopUnion(ids, buckets.__getitem__, lambda t, of=buckets: [i for i in of if t in of[i]])
        seen = []
        while (t := hops.next()) is not None and len(seen) < 100:
            seen.append(t)
        if sorted(seen) != sorted({x for bucket in buckets.values() for x in bucket}):
            return True
    return False


def main() -> int:
    """Run every mutant; the exit code is the number of survivors."""
    survivors, total = [], 0
    for name, key in PROGRAMS.items():
        assert survives(program(*key)), "the campaign needs a program that is right"
        for what, mutant in program_mutants(program(*key)):
            total += 1
            if survives(mutant):
                survivors.append(f"{name}: {what}")
    assert twin_survives(), "the campaign needs a twin that is right"
    for what, (owner, attribute, value) in TWIN_MUTANTS.items():
        total += 1
        with patched(owner, attribute, value):
            if twin_survives():
                survivors.append(what)
    print(f"{total - len(survivors)} of {total} mutants killed", *survivors, sep="\n  ")
    return len(survivors)


if __name__ == "__main__":
    sys.exit(main())
