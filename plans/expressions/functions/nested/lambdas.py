"""Higher-order functions: the elements of all arrays are one column, over which the body is evaluated at once.

Values of the row that the body reads are repeated for each of its elements. There is no per-row Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.coercion import INTEGERS
from plans.expressions.columns import intervals
from plans.expressions.columns.arrays import on_arrays, validity
from plans.expressions.columns.packed import BY_KEY, elements_of, listed, mapped, places_of
from plans.expressions.functions.function import KINDS, HigherOrder, place, same_type
from plans.expressions.functions.nested.collections import kept, keyed, of_kind, rows_of, where
from plans.nested import ARRAY, MAP, array_of, map_of


def _over(body: Any, parameters: Sequence[pa.Array], outer: Sequence[pa.Array], rows: np.ndarray) -> pa.Array:
    """Returns the values of a body, one per element. `parameters` are its parameters, and `rows` is the row of each
    element."""
    columns = {place(number): values for number, values in enumerate(parameters)}
    taken = pa.array(rows)
    for number, values in enumerate(outer, len(parameters)):
        if place(number) in body.columns:
            columns[place(number)] = values.take(taken)
    return intervals.carried(body.evaluate(columns, len(rows)), body.type)


def _arrays(evaluate: Callable[..., pa.Array]) -> Callable[..., Any]:
    """Returns an evaluator that receives all arguments as arrays."""
    return lambda type_, body, *values: on_arrays(lambda *arrays: evaluate(type_, body, *arrays), *values)


def _of_elements(body: Any, value: pa.Array, outer: Sequence[pa.Array]) -> pa.Array:
    """Returns the values of a body over the elements of arrays and their positions."""
    sizes, elements = elements_of(value)
    given = [elements, pa.array(places_of(sizes).astype(np.int32))]
    return _over(body, given, outer, rows_of(sizes))


def _true(values: pa.Array) -> np.ndarray:
    found: np.ndarray = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return found


def _transform(type_: pa.DataType, body: Any, value: pa.Array, *outer: pa.Array) -> pa.Array:
    return listed(elements_of(value)[0], _of_elements(body, value, outer), type_, validity(value))


def _filter(type_: pa.DataType, body: Any, value: pa.Array, *outer: pa.Array) -> pa.Array:
    return kept(value, _true(_of_elements(body, value, outer)), type_, validity(value))


def _quantified(truth: bool) -> Callable[..., Any]:
    """Returns an evaluator of whether the condition is `truth` for any element; NULL if only NULLs could be."""

    def evaluate(type_: pa.DataType, body: Any, value: pa.Array, *outer: pa.Array) -> pa.Array:
        sizes, _ = elements_of(value)
        elements = rows_of(sizes)
        met = _over(body, [elements_of(value)[1]], outer, elements)
        hits = _true(met if truth else pc.invert(met))
        found, doubt = np.zeros(len(sizes), bool), np.zeros(len(sizes), bool)
        found[elements[hits]] = True
        doubt[elements[~validity(met)]] = True
        return where(validity(value) & (found | ~doubt), pa.array(found if truth else ~found))

    return _arrays(evaluate)


def _zip(type_: pa.DataType, body: Any, left: pa.Array, right: pa.Array, *outer: pa.Array) -> pa.Array:
    there = validity(left) & validity(right)
    sides = [elements_of(side) for side in (left, right)]
    sizes = np.where(there, np.maximum(sides[0][0], sides[1][0]), 0)
    rows, places = rows_of(sizes), places_of(sizes)
    given = []
    for counts, elements in sides:
        inside = places < counts[rows]
        at = np.where(inside, (np.cumsum(counts) - counts)[rows] + places, 0)
        given.append(elements.take(pa.array(at, mask=~inside)))
    return listed(sizes, _over(body, given, outer, rows), type_, there)


def _reduce(type_: pa.DataType, body: Any, value: pa.Array, start: pa.Array, *outer: pa.Array) -> pa.Array:
    """Reduces all arrays at once, one element of each per step, the longest first, so that finished arrays follow
    unfinished ones. O(elements), and one step per element of the longest array."""
    sizes, elements = elements_of(value)
    firsts, order = np.cumsum(sizes) - sizes, np.argsort(-sizes, kind="stable")
    longer = np.searchsorted(-sizes[order], -np.arange(int(sizes.max(initial=0))), "left")  # those left at each step
    state, ended = start.take(pa.array(order)), []
    for step, count in enumerate(longer.tolist()):
        ended.append(state[count:])
        going = order[:count]
        state = _over(body, [state[:count], elements.take(pa.array(firsts[going] + step))], outer, going)
    found = pa.concat_arrays([state, *reversed(ended)]).take(pa.array(np.argsort(order)))
    return where(validity(value), found)


def _sort(type_: pa.DataType, body: Any, value: pa.Array, *outer: pa.Array) -> pa.Array:
    """Returns arrays sorted by a comparator: the body is below 0, 0 or above 0 for two elements. The sort is stable.

    One step of Batcher's odd-even merge sort compares the pairs of all arrays at once: O(n log^2 n) comparisons, in
    O(log^2 n) steps of the longest array. The result is NULL where a comparison is NULL.
    """
    sizes, elements = elements_of(value)
    firsts, longest = np.cumsum(sizes) - sizes, int(sizes.max(initial=0))
    order, there = np.arange(len(elements)), validity(value)
    for low, high in _merges(longest):
        inside = high[None, :] < sizes[:, None]
        rows, pair = np.nonzero(inside)
        one, two = firsts[rows] + low[pair], firsts[rows] + high[pair]
        given = [elements.take(pa.array(order[one])), elements.take(pa.array(order[two]))]
        compared = _over(body, given, outer, rows)
        there[rows[~validity(compared)]] = False
        way = pc.fill_null(compared, 0).to_numpy(zero_copy_only=False)
        swap = (way > 0) | ((way == 0) & (order[one] > order[two]))
        order[one[swap]], order[two[swap]] = order[two[swap]], order[one[swap]]
    made = listed(sizes, elements.take(pa.array(order)), type_, np.ones(len(sizes), bool))
    return where(there, made)


def _merges(count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the positions that each step of the sort compares, the lower and the higher ones."""
    block = 1
    while block < count:
        apart = block
        while apart:
            starts = np.arange(apart % block, max(count - apart, 0), 2 * apart)
            low = (starts[:, None] + np.arange(apart)[None, :]).reshape(-1)
            low = low[low + apart < count]
            low = low[low // (2 * block) == (low + apart) // (2 * block)]
            if len(low):
                yield low, low + apart
            apart //= 2
        block *= 2


def _entries(value: pa.Array) -> tuple[np.ndarray, pa.Array, pa.Array]:
    sizes, entries = elements_of(value)
    return sizes, *entries.flatten()


def _with_keys(type_: pa.DataType, body: Any, value: pa.Array, *outer: pa.Array) -> pa.Array:
    sizes, keys, items = _entries(value)
    return mapped(sizes, _over(body, [keys, items], outer, rows_of(sizes)), items, type_, validity(value))


def _with_values(type_: pa.DataType, body: Any, value: pa.Array, *outer: pa.Array) -> pa.Array:
    sizes, keys, items = _entries(value)
    made = pa.StructArray.from_arrays([keys, _over(body, [keys, items], outer, rows_of(sizes))], ["key", "value"])
    return listed(sizes, made, type_, validity(value))


def _map_filter(type_: pa.DataType, body: Any, value: pa.Array, *outer: pa.Array) -> pa.Array:
    sizes, keys, items = _entries(value)
    return kept(value, _true(_over(body, [keys, items], outer, rows_of(sizes))), type_, validity(value))


def _map_zip(type_: pa.DataType, body: Any, left: pa.Array, right: pa.Array, *outer: pa.Array) -> pa.Array:
    """Sorts the entries of both maps together. The entries of a common key are adjacent."""
    there = validity(left) & validity(right)
    sides = [_entries(where(there, side)) for side in (left, right)]
    rows = np.concatenate([rows_of(sizes) for sizes, _, _ in sides])
    keys = pa.concat_arrays([keys for _, keys, _ in sides])
    order = pc.sort_indices(pa.table({"of": rows, "key": keys}), BY_KEY).to_numpy().astype(np.int64)
    keys, rows, count = keys.take(pa.array(order)), rows[order], len(sides[0][1])
    first = np.ones(len(order), bool)
    if len(order) > 1:
        same = pc.equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
        first[1:] = ~(same & (rows[1:] == rows[:-1]))
    entry, given = np.cumsum(first) - 1, [keys.filter(pa.array(first))]
    for (_, _, items), mine, before in zip(sides, (order < count, order >= count), (0, count), strict=True):
        at = np.full(int(first.sum()), -1)
        at[entry[mine]] = order[mine] - before
        given.append(items.take(pa.array(at, mask=at < 0)))
    rows = rows[first]
    made = pa.StructArray.from_arrays([given[0], _over(body, given, outer, rows)], ["key", "value"])
    return listed(np.bincount(rows, minlength=len(there)), made, type_, there)


# -- the types of parameters and results -------------------------------------------------------------------------------


def _element(name: str, *more: str) -> Callable[[Sequence[str]], Sequence[str]]:
    return lambda types: (*of_kind(ARRAY, types[0], name).types, *more)


def _entry(name: str) -> Callable[[Sequence[str]], Sequence[str]]:
    return lambda types: of_kind(MAP, types[0], name).types


def _sorted(types: Sequence[str], values: Sequence[Any]) -> str:
    if types[1] not in INTEGERS:
        raise PlanError(f"the function of ARRAY_SORT returns a whole number, not {types[1]}")
    return types[0]


def _reduced(types: Sequence[str], values: Sequence[Any]) -> str:
    _, start, made = types
    if start != made:
        raise PlanError(
            f"REDUCE starts with a value of type {start}, and its function returns a value of type {made}",
            hint=f"start with CAST(... AS {KINDS.get(made, made.upper())})",
        )
    return made


def _new_keys(types: Sequence[str], values: Sequence[Any]) -> str:
    (_, value), made = of_kind(MAP, types[0], "TRANSFORM_KEYS").types, types[1]
    return keyed(made, value)


def _new_values(types: Sequence[str], values: Sequence[Any]) -> str:
    return map_of(of_kind(MAP, types[0], "TRANSFORM_VALUES").types[0], types[1])


def _array(types: Sequence[str], values: Sequence[Any]) -> str:
    return array_of(types[-1])


def _three(types: Sequence[str]) -> Sequence[str]:
    (key, value), (other, second) = (of_kind(MAP, type_, "MAP_ZIP_WITH").types for type_ in types)
    if key != other:
        raise PlanError(f"MAP_ZIP_WITH takes maps with keys of one type, not {key} and {other}", hint="use CAST")
    return key, value, second


def _zipped(types: Sequence[str], values: Sequence[Any]) -> str:
    return map_of(_three(types[:2])[0], types[2])


TABLE = (
    HigherOrder(name="transform", takes=("any",), names=("x", "i"), least=1, parameters=_element("TRANSFORM", "int32"),
                gives=_array, evaluate=_arrays(_transform), also=("list_transform", "list_apply", "array_transform"),
                note="In `(x, i) -> ...`, `i` is the position of the element, counted from 0; under the names of "
                     "DuckDB from 1."),
    HigherOrder(name="filter", takes=("any",), names=("x", "i"), least=1, parameters=_element("FILTER", "int32"),
                gives=same_type, evaluate=_arrays(_filter), condition=True, also=("list_filter", "array_filter"),
                note="In `(x, i) -> ...`, `i` is the position of the element, counted from 0; under the names of "
                     "DuckDB from 1."),
    HigherOrder(name="exists", takes=("any",), names=("x",), least=1, parameters=_element("EXISTS"), gives="bool",
                evaluate=_quantified(True), condition=True, also=("any_match",)),
    HigherOrder(name="forall", takes=("any",), names=("x",), least=1, parameters=_element("FORALL"), gives="bool",
                evaluate=_quantified(False), condition=True, also=("all_match",)),
    HigherOrder(name="reduce", takes=("any", "any"), names=("x", "y"), least=2,
                parameters=lambda types: (types[1], of_kind(ARRAY, types[0], "REDUCE").types[0]), gives=_reduced,
                evaluate=_arrays(_reduce), also=("aggregate", "list_reduce", "array_reduce"),
                note="The start is the second argument. LIST_REDUCE is DuckDB's: in `LIST_REDUCE(a, (sum, x) -> sum + "
                     "x)`, the start is the first element, or the third argument. A function of the result may follow: "
                     "`REDUCE(a, 0, (sum, x) -> sum + x, sum -> sum * 2)`."),
    HigherOrder(name="array_sort", takes=("any",), names=("x", "y"), least=2,
                parameters=lambda types: of_kind(ARRAY, types[0], "ARRAY_SORT").types * 2, gives=_sorted,
                evaluate=_arrays(_sort), null="a comparison that is NULL",
                note="The function returns a number below 0, 0 or above 0 if its first argument is before, equal to or "
                     "after the second."),
    HigherOrder(name="zip_with", takes=("any", "any"), names=("x", "y"), least=2,
                parameters=lambda types: [of_kind(ARRAY, one, "ZIP_WITH").types[0] for one in types], gives=_array,
                evaluate=_arrays(_zip), note="The shorter array is filled with NULLs."),
    HigherOrder(name="transform_keys", takes=("any",), names=("k", "v"), least=2, parameters=_entry("TRANSFORM_KEYS"),
                gives=_new_keys, evaluate=_arrays(_with_keys), null="a key that is NULL or occurs twice"),
    HigherOrder(name="transform_values", takes=("any",), names=("k", "v"), least=2,
                parameters=_entry("TRANSFORM_VALUES"), gives=_new_values, evaluate=_arrays(_with_values)),
    HigherOrder(name="map_zip_with", takes=("any", "any"), names=("k", "x", "y"), least=3, parameters=_three,
                gives=_zipped, evaluate=_arrays(_map_zip),
                note="For all keys of both maps; the value in a map without the key is NULL."),
    HigherOrder(name="map_filter", takes=("any",), names=("k", "v"), least=2, parameters=_entry("MAP_FILTER"),
                gives=same_type, evaluate=_arrays(_map_filter), condition=True),
)  # fmt: skip
