"""Compiles expressions to programs for ``crown.expressions.kernels.evaluate``, if they have a native form.

A value is one word, the code of its type; a decimal with more than 18 digits has two words. A text in a query is looked
up in the dictionary when the program runs; a text that no row has gets a code that equals no other. These have no
native form: texts, except comparisons for equality; most functions; casts that read, write or round doubles. Arrow
evaluates them (``plans.expressions.evaluate``), with the same results. Arrow evaluates an expression of a single text
column once per distinct text, and the program looks up the result by the code of the text (``crown.store.lookups``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from crown.expressions.kernels import decimals as D
from crown.expressions.kernels import evaluate as E
from crown.expressions.literals import NotNative, is_text, is_wide, literal_words, pair
from crown.expressions.rewrites import MOMENTS, rewritten
from crown.store.arrow_buffers import encoded
from crown.store.codec import uses_dictionary
from crown.store.dictionary import Dictionary
from plans.expressions.build import places
from plans.expressions.coercion import INTEGERS
from plans.expressions.columns.decimals import shifts
from plans.expressions.expr import Expr
from plans.expressions.functions.user import USER
from plans.types import MOST_DIGITS, decimal_parts

_ON_WHOLE = {"add": E.ADD, "sub": E.SUB, "mul": E.MUL, "mod": E.MOD}
_ON_DOUBLES = {"add": E.ADD_DOUBLES, "sub": E.SUB_DOUBLES, "mul": E.MUL_DOUBLES, "div": E.DIV_DOUBLES}
_ON_SCALED = {"add": E.ADD_SCALED, "sub": E.SUB_SCALED, "mul": E.MUL_SCALED}
_ON_DECIMALS = {"add": D.ADD, "sub": D.SUB, "mul": D.MUL, "div": D.DIV, "mod": D.MOD}
_MICROS = ("micros_of", "months_of", "unix_micros", "timestamp_micros")
_PARTS = {"year": E.YEAR, "month": E.MONTH, "day": E.DAY}
_OF_DOUBLES, _OF_WIDE = E.EQUAL_DOUBLES - E.EQUAL, E.EQUAL_WIDE - E.EQUAL
_EQUALITIES = {"eq": E.EQUAL, "ne": E.EQUAL, "nseq": E.SAME}  # equality of two words; all other comparisons are LESS
_MAX_LISTED = 32  # values of IN; there is one instruction per value
_MAX_POWER = 18  # exponent of the largest power of ten that fits in a word
_NO_TEXTS = np.empty(0, np.int64)


class Program:
    """Several expressions in native form. Common subexpressions are evaluated once.

    - ``reads``: the columns that the program reads, and whether each is a wide decimal.
    - ``types``: the types of the outputs. ``output_words``: words of the outputs, per row.
    - ``plan``: the plan for the kernel. ``register_words``: room for its registers.
    - ``texts``: the texts whose codes the kernel needs, then the expressions whose lookup tables it needs.
    """

    def __init__(self, expressions: Sequence[Expr], looks_up: bool = True) -> None:
        if looks_up:
            expressions = [_with_lookups(expr) for expr in expressions]
        expressions = [expr.fold(rewritten) for expr in expressions]
        self._registers: dict[Any, int] = {}
        self._constants: list[int] = []
        self._texts: dict[str, int] = {}  # text of a comparison -> register of its code
        self._lookups: dict[Expr, int] = {}
        self._instructions: list[int] = []
        self._register_count = 0
        columns = {c.value: c.type for e in expressions for c in e.postorder() if c.op == "col"}
        self.reads = [(name, is_wide(type_)) for name, type_ in columns.items()]
        for name, type_ in columns.items():
            self._registers["col", type_, name] = self._new_register()
        self.types = [expr.type for expr in expressions]
        outputs = []
        for expr in expressions:
            outputs += [self._register_of(expr), int(is_wide(expr.type))]
        registers = [*self._texts.values(), *self._lookups.values()]
        head = [
            len(columns),
            len(self._constants) // 3,
            len(registers),
            len(self._instructions) // E.INSTRUCTION_WORDS,
            len(expressions),
        ]
        self.texts: list[bytes | Expr] = [*(text.encode() for text in self._texts), *self._lookups]
        self._encoded_texts = encoded(list(self._texts))
        self.plan = np.array([*head, *self._constants, *registers, *self._instructions, *outputs], np.int64)
        self.output_words = sum(2 if is_wide(type_) else 1 for type_ in self.types)
        self.register_words = 2 * E.BLOCK_ROWS * self._register_count

    def run(self, inputs: np.ndarray, forms: np.ndarray, pairs: np.ndarray, dictionary: Dictionary) -> np.ndarray:
        """Returns the outputs, one after the other (see ``crown.expressions.kernels.evaluate``). O(rows)."""
        out = np.empty(self.output_words * inputs.shape[1], np.int64)
        registers, scratch = np.empty(self.register_words, np.int64), np.empty(D.SCRATCH, np.int64)
        arguments = dictionary.memory[0], self.plan, inputs, forms, pairs
        if not self.texts:
            E.evaluate(*arguments, _NO_TEXTS, registers, scratch, out)
            return out
        with dictionary.lock:
            unknown = True
            while unknown:
                dictionary.learn()  # may enter a text of the program
                codes = dictionary.interned(self._encoded_texts, False)
                texts = np.where(codes == 0, E.UNKNOWN - np.arange(len(codes)), codes)
                tables = [dictionary.lookup(expr).address for expr in self._lookups]
                text_codes = np.array([*texts, *tables], np.int64) if tables else texts
                unknown = E.evaluate(*arguments, text_codes, registers, scratch, out) > 0
        return out

    def _new_register(self) -> int:
        self._register_count += 1
        return 2 * E.BLOCK_ROWS * (self._register_count - 1)

    def _register_of(self, expr: Expr) -> int:
        """Returns the register of an expression."""
        registers: list[int] = []
        if is_text(expr):
            raise NotNative("a text")
        for node in expr.postorder():
            if node.op not in _EQUALITIES and node.op != "in" and any(map(is_text, node.args)):
                raise NotNative("a text")
            first = len(registers) - len(node.args)
            registers[first:] = [self._node(node, registers[first:])]
        return registers[0]

    def _node(self, node: Expr, args: list[int]) -> int:
        if node.op == "col":
            return self._registers["col", node.type, node.value]
        if is_text(node):
            return self._text(node.value)
        if node.op == "literal":
            return self._constant(*literal_words(node))
        if node.op in _ON_DECIMALS and decimal_parts(node.type):
            return self._decimal(node, args)
        make = _NODES.get(node.op)
        if make is None:
            raise NotNative(node.op)
        return make(self, node, args)

    def _constant(self, low: int, high: int) -> int:
        key = ("constant", low, high)
        if key not in self._registers:
            self._registers[key] = self._new_register()
            self._constants += [self._registers[key], low, high]
        return self._registers[key]

    def _text(self, value: str) -> int:
        """Returns the register with the code of a text."""
        key = ("text", value)
        if key not in self._registers:
            self._texts[value] = self._registers[key] = self._new_register()
        return self._registers[key]

    def _instruction(
        self, op: int, args: Sequence[int], wide: int = 0, more: Sequence[int] = (), third: int = 0
    ) -> int:
        """Returns the register of the result of an instruction. Reuses the result of an equal instruction."""
        a, b, c = (*args, 0, 0, 0)[:3]
        c = third or c
        key = (op, a, b, c, wide, *more)
        if key not in self._registers:
            target = self._registers[key] = self._new_register()
            instruction = [op, target, a, b, c, wide, *more]
            self._instructions += instruction + [0] * (E.INSTRUCTION_WORDS - len(instruction))
        return self._registers[key]

    def _lookup(self, node: Expr, args: list[int]) -> int:
        """Returns the register of a value that is looked up by the code of a text."""
        key = ("lookup", node.value)
        if key not in self._registers:
            self._lookups[node.value] = self._registers[key] = self._new_register()
        return self._instruction(E.LOOKUP, [args[0], self._registers[key]])

    # -- numbers -------------------------------------------------------------------------------------------------------

    def _arithmetic(self, node: Expr, args: list[int]) -> int:
        if node.type == "float64" and node.op in _ON_DOUBLES:
            return self._instruction(_ON_DOUBLES[node.op], args)
        if node.type in INTEGERS and node.op in _ON_WHOLE:
            result = self._instruction(_ON_WHOLE[node.op], args)
            return self._instruction(E.NARROW, [result]) if node.type == "int32" else result
        raise NotNative(node.op)

    def _decimal(self, node: Expr, args: list[int]) -> int:
        left, right = map(places, node.args)
        parts = decimal_parts(node.type)
        assert parts is not None
        wide = [is_wide(arg.type) for arg in node.args]
        factors = shifts(node.op, left, right, parts)
        if factors is not None and not any(wide) and not is_wide(node.type):
            return self._instruction(_ON_SCALED[node.op], args, 0, [10**shift for shift in factors])
        (_, s), (_, t), (p, scale) = left, right, parts
        ups, exact_scale = (0, 0), s + t
        if node.op == "div":
            ups, exact_scale = (scale - s + t, 0), scale
        elif node.op != "mul":
            exact_scale = max(s, t)
            ups = (exact_scale - s, exact_scale - t)
        if exact_scale < scale or min(ups) < 0:
            raise NotNative("a scale that grows")
        wide.append(is_wide(node.type))
        return self._exact(_ON_DECIMALS[node.op], args, ups, exact_scale - scale, p, wide)

    def _exact(
        self, op: int, args: list[int], ups: tuple[int, int], drop: int, precision: int, wide: Sequence[bool]
    ) -> int:
        bound = 10**precision
        scales = [word for up in ups for word in (up // _MAX_POWER, 10 ** (up % _MAX_POWER))]
        parameters = [*scales, drop, *pair(bound)]
        flags = sum(1 << i for i, one in enumerate(wide) if one)
        a, b = (*args, args[0])[:2]
        return self._instruction(E.DECIMAL, [a, b], flags, parameters, third=op)

    def _cast(self, node: Expr, args: list[int]) -> int:
        (source,), target = node.args, node.type
        parts = decimal_parts(target)
        if source.type == target:
            return args[0]
        if source.type in INTEGERS and target == "int64":
            return args[0]
        if source.type in INTEGERS and target == "int32":
            return self._instruction(E.NARROW, args)
        if source.type in INTEGERS and target == "float64":
            return self._instruction(E.TO_DOUBLE, args)
        if parts is None or (source.type not in INTEGERS and decimal_parts(source.type) is None):
            raise NotNative("cast")
        scale = places(source)[1]
        up, drop = max(parts[1] - scale, 0), max(scale - parts[1], 0)
        wide = [is_wide(source.type), is_wide(source.type), is_wide(target)]
        return self._exact(D.KEEP, args, (up, 0), drop, parts[0], wide)

    def _sign(self, node: Expr, args: list[int]) -> int:
        if node.args[0].type != node.type:
            raise NotNative(node.op)
        whole, double, wide = {
            "neg": (E.NEGATE, E.NEGATE_DOUBLE, E.NEGATE_WIDE),
            "abs": (E.ABSOLUTE, E.ABSOLUTE_DOUBLE, E.ABSOLUTE_WIDE),
        }[node.op]
        if is_wide(node.type):
            return self._instruction(wide, args)
        if node.type == "float64":
            return self._instruction(double, args)
        result = self._instruction(whole, args)
        return self._instruction(E.NARROW, [result]) if node.type == "int32" else result

    # -- truth values --------------------------------------------------------------------------------------------------

    def _comparison(self, node: Expr, args: list[int]) -> int:
        left, right = node.args
        if left.type == "null" or right.type == "null":
            raise NotNative("an untyped NULL")
        if left.type != right.type:
            args = self._of_one_scale(left, right, args)
        variant = 0
        if left.type != right.type or is_wide(left.type):
            variant = _OF_WIDE
        elif left.type == "float64":
            variant = _OF_DOUBLES
        elif uses_dictionary(left.type) and node.op not in _EQUALITIES:
            raise NotNative("the order of texts")
        if node.op in ("gt", "le"):
            args = args[::-1]
        result = self._instruction(_EQUALITIES.get(node.op, E.LESS) + variant, args)
        return self._instruction(E.NOT, [result]) if node.op in ("ne", "le", "ge") else result

    def _of_one_scale(self, left: Expr, right: Expr, args: list[int]) -> list[int]:
        """Returns the registers of two numbers of different types as wide decimals of one scale."""
        if not all(one.type in INTEGERS or decimal_parts(one.type) for one in (left, right)):
            raise NotNative("values that are not decimals")
        shapes = [places(left), places(right)]
        scale = max(s for _, s in shapes)
        if max(p - s for p, s in shapes) + scale > MOST_DIGITS:
            raise NotNative("more digits than two words have")
        registers = []
        for one, (_, s), register in zip((left, right), shapes, args, strict=True):
            wide = is_wide(one.type)
            registers.append(self._exact(D.KEEP, [register], (scale - s, 0), 0, MOST_DIGITS, [wide, wide, True]))
        return registers

    def _connective(self, node: Expr, args: list[int]) -> int:
        result = args[0]
        for arg in args[1:]:
            result = self._instruction(E.AND if node.op == "and" else E.OR, [result, arg])
        return result

    def _not(self, node: Expr, args: list[int]) -> int:
        return self._instruction(E.NOT, args)

    def _is_null(self, node: Expr, args: list[int]) -> int:
        return self._instruction(E.IS_NULL_WIDE if is_wide(node.args[0].type) else E.IS_NULL, args)

    def _in(self, node: Expr, args: list[int]) -> int:
        value, *items = node.args
        if any(item.type != value.type for item in items) or value.type == "null":
            raise NotNative("a list of several types")
        if len(items) > _MAX_LISTED:
            raise NotNative("a long list, which Arrow hashes")
        matches = [
            self._comparison(Expr("eq", "bool", (value, item)), [args[0], register])
            for item, register in zip(items, args[1:], strict=True)
        ]
        return self._connective(Expr("or", "bool"), matches)

    # -- choices -------------------------------------------------------------------------------------------------------

    def _select(self, type_: str, condition: int, then: int, other: int) -> int:
        return self._instruction(E.SELECT, [condition, then, other], int(is_wide(type_)))

    def _case(self, node: Expr, args: list[int]) -> int:
        if any(arg.type != node.type for arg in (*node.args[1:-1:2], node.args[-1])):
            raise NotNative("branches of several types")
        result = args[-1]
        for condition, value in reversed(list(zip(args[:-1:2], args[1:-1:2], strict=True))):
            result = self._select(node.type, condition, value, result)
        return result

    def _coalesce(self, node: Expr, args: list[int]) -> int:
        if any(arg.type != node.type for arg in node.args):
            raise NotNative("values of several types")
        result = args[-1]
        for register in reversed(args[:-1]):
            is_null = self._instruction(E.IS_NULL_WIDE if is_wide(node.type) else E.IS_NULL, [register])
            result = self._select(node.type, is_null, result, register)
        return result

    def _part(self, node: Expr, args: list[int]) -> int:
        if node.args[0].type != "date" or node.type != "int32":
            raise NotNative(node.op)
        return self._instruction(_PARTS[node.op], args)

    def _plus_micros(self, node: Expr, args: list[int]) -> int:
        """Returns the register of a timestamp plus microseconds."""
        if node.type not in MOMENTS or node.args[0].type != node.type:
            raise NotNative(node.op)
        return self._instruction(E.ADD, args)

    def _window_start(self, node: Expr, args: list[int]) -> int:
        """Returns the register of the last multiple of a length that is not after a timestamp."""
        moment, length = node.args
        if moment.type not in MOMENTS or length.op != "literal" or length.value is None or length.value <= 0:
            raise NotNative(node.op)
        return self._instruction(E.SUB, [args[0], self._floor_modulo(node, args)])

    def _floor_modulo(self, node: Expr, args: list[int]) -> int:
        remainder = self._instruction(E.MOD, args)  # has the sign of the number
        return self._instruction(E.MOD, [self._instruction(E.ADD, [remainder, args[1]]), args[1]])


_NODES: Mapping[str, Callable[[Program, Expr, list[int]], int]] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "mod"), Program._arithmetic),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "nseq"), Program._comparison),
    **dict.fromkeys(("and", "or"), Program._connective),
    **dict.fromkeys(_PARTS, Program._part),
    "neg": Program._sign,
    "abs": Program._sign,
    "cast": Program._cast,
    **dict.fromkeys(_MICROS, lambda program, node, args: args[0]),  # the codes are these numbers
    "plus_micros": Program._plus_micros,
    "tumble_start": Program._window_start,
    "floor_divide": lambda program, node, args: program._instruction(E.FLOOR_DIVIDE, args),
    "floor_modulo": Program._floor_modulo,
    "not": Program._not,
    "isnull": Program._is_null,
    "in": Program._in,
    "case": Program._case,
    "coalesce": Program._coalesce,
    "looked_up": Program._lookup,
}


def _with_lookups(expr: Expr) -> Expr:
    """Replaces the largest parts of an expression that are looked up."""
    columns: dict[int, tuple[Expr, ...] | None] = {}

    def note(node: Expr, of_args: list[tuple[Expr, ...] | None]) -> tuple[Expr, ...] | None:
        columns[id(node)] = _text_columns(node, of_args)
        return columns[id(node)]

    expr.fold(note)
    stack, done = [(expr, False)], list[Expr]()
    while stack:
        node, visited = stack.pop()
        if visited:
            first = len(done) - len(node.args)
            done[first:] = [Expr(node.op, node.type, tuple(done[first:]), node.value)]
        elif (column := columns[id(node)]) and _is_lookup(node):
            done.append(Expr("looked_up", node.type, column, node))
        elif node.args:
            stack.append((node, True))
            stack += [(arg, False) for arg in reversed(node.args)]
        else:
            done.append(node)
    return done[0]


def _text_columns(node: Expr, of_args: list[tuple[Expr, ...] | None]) -> tuple[Expr, ...] | None:
    """Returns the text column that an expression depends on, or none, from those of its operands.

    Returns None if it depends on anything else, a user function or a lambda among others.
    """
    if node.op == "col":
        return (node,) if node.type == "string" else None
    if node.op == USER or node.body is not None:
        return None
    found: tuple[Expr, ...] = ()
    for one in of_args:
        if one is None or (one and found and one != found):
            return None
        found = one or found
    return found


def _is_lookup(expr: Expr) -> bool:
    """Returns True if an expression of a single text column has no native form and is one word."""
    if not expr.args or expr.type == "null" or (uses_dictionary(expr.type) and expr.type != "string"):
        return False
    return not needs_no_arrow(expr)


def is_native(expr: Expr) -> bool:
    """Returns True if an expression has a native form."""
    return native((expr,)) is not None


def needs_no_arrow(expr: Expr) -> bool:
    """Returns True if an expression has a native form without lookups, so that Arrow evaluates no part of it."""
    try:
        Program((expr,), looks_up=False)
    except NotNative:
        return False
    return True


@lru_cache(maxsize=1024)
def native(expressions: tuple[Expr, ...]) -> Program | None:
    """Returns expressions in native form; None if one of them has none."""
    try:
        return Program(expressions)
    except NotNative:
        return None
