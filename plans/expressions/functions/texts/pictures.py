"""Number pictures of PostgreSQL and Oracle, which format and parse numbers: `FM999,990.00`.

`9` is a digit, or a leading space; zeros are written from the first `0` on. FM omits the spaces, and the trailing zeros
of a `9` after the decimal point.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cache
from typing import Any, NamedTuple

from plans.errors import PlanError
from plans.expressions.functions.distinct import each
from plans.expressions.functions.function import function

_EXACT = Context(prec=1_200)
_PICTURE = re.compile(r"(FM)?(S)?(\$)?([09][09,G]*)?(?:[.D]([09]*))?(S|MI|PR)?", re.IGNORECASE)
_MOST = 100


class Picture(NamedTuple):
    """`sign`: the position of the sign: `S` in front, `s` or `MI` at the end, `PR` in angle brackets, '' in front of
    negative numbers; `places`: the digits after the decimal point, None if there is none."""

    bare: bool
    dollar: bool
    whole: str
    places: str | None
    sign: str


@cache
def picture(pattern: str) -> Picture:
    """Parses a picture. Raises PlanError if the pattern is not supported."""
    found = _PICTURE.fullmatch(pattern.strip())
    if found is None or not (found[4] or found[5]) or (found[2] and found[6]) or len(pattern) > _MOST:
        raise PlanError(
            f"{pattern!r} is not a supported pattern of numbers",
            hint="a pattern consists of FM, $, the digits 9 and 0, ',' or G, one . or D, and S, MI or PR",
        )
    suffix = (found[6] or "").upper()
    sign = "S" if found[2] else "s" if suffix == "S" else suffix
    whole = (found[4] or "").upper().replace("G", ",")
    return Picture(found[1] is not None, found[3] is not None, whole, found[5], sign)


def _written(value: Any, pattern: str) -> str | None:
    shape = picture(pattern)
    if isinstance(value, float):
        if value != value or abs(value) == float("inf"):
            return None
        value = Decimal(repr(value))
    places = shape.places or ""
    exact = Decimal(value).quantize(Decimal(1).scaleb(-len(places)), ROUND_HALF_UP, _EXACT)
    digits, _, decimals = f"{abs(exact):f}".partition(".")
    digits, room = digits.lstrip("0"), sum(sign != "," for sign in shape.whole)
    if len(digits) > room:
        digits, decimals = "#" * room, "#" * len(places)
    whole = _whole(shape, digits, room)
    if shape.bare:
        kept = max(places.rfind("0") + 1, len(decimals.rstrip("0")))
        decimals = decimals[:kept]
    text = whole.lstrip() + ("." + decimals if shape.places is not None else "")
    return _signed(shape, "$" * shape.dollar + text, exact < 0, " " * (len(whole) - len(whole.lstrip())))


def _whole(shape: Picture, digits: str, room: int) -> str:
    """Returns the digits before the decimal point, with leading spaces."""
    made, at, begun = "", 0, False
    for sign in shape.whole:
        if sign == ",":
            made += "," if begun else " "
            continue
        there = at - (room - len(digits))
        begun |= there >= 0 or sign == "0" or (at == room - 1 and shape.places is None)
        made += digits[there] if there >= 0 else "0" if begun else " "
        at += 1
    return made


def _signed(shape: Picture, text: str, below: bool, pad: str) -> str:
    before, after = {
        "": ("-" if below else " ", ""),
        "S": ("-" if below else "+", ""),
        "s": ("", "-" if below else "+"),
        "MI": ("", "-" if below else " "),
        "PR": ("<", ">") if below else (" ", " "),
    }[shape.sign]
    made = before + text + after
    return made.strip() if shape.bare else pad + made


def _read(text: str, pattern: str) -> Decimal | None:
    """Returns the number in a text by a picture, or None if the text does not match, or has more digits."""
    shape = picture(pattern)
    match = _NUMBER.fullmatch(text.strip())
    if match is None or bool(match[2]) > shape.dollar:
        return None
    signs, whole, places = (match[1], match[5]), match[3].replace(",", ""), match[4] or ""
    if signs not in _SIGNS[shape.sign] or ("," in match[3] and "," not in shape.whole) or not whole + places:
        return None
    if len(whole.lstrip("0")) > sum(sign != "," for sign in shape.whole) or len(places) > len(shape.places or ""):
        return None
    found = Decimal(f"{whole or '0'}.{places or '0'}")
    return -found if signs in _BELOW else found


_BELOW = (("-", ""), ("", "-"), ("<", ">"))
_SIGNS = {
    "": (("", ""), ("-", "")), "S": (("", ""), ("-", ""), ("+", "")), "PR": (("", ""), ("<", ">")),
    **dict.fromkeys(("s", "MI"), (("", ""), ("", "-"), ("", "+"))),
}  # fmt: skip
"""The texts that may precede and follow the digits."""


_NUMBER = re.compile(r"([-+<]?)(\$?)([0-9,]*)(?:\.([0-9]*))?([-+>]?)")


def _digits(types: Sequence[str], values: Sequence[Any]) -> str:
    shape = picture("9" if values[1] is None else values[1])
    places = len(shape.places or "")
    precision = sum(sign != "," for sign in shape.whole) + places
    if precision > _WIDEST:
        raise PlanError(f"NUMBER_OF: the pattern {values[1]!r} has {precision} digits, and a decimal at most {_WIDEST}")
    return f"decimal({precision},{places})"


_WIDEST = 38


def _picture(types: Sequence[str], values: Sequence[Any]) -> str:
    if values[1] is not None:
        picture(values[1])
    return "string"


TABLE = (
    function("number_of", "string =string", _digits, each(_read), null="text that does not match the pattern",
             note="TO_NUMBER with a pattern of other systems than Spark: a DECIMAL with the digits of the pattern, "
                  "which is written as that of NUMBER_TO_CHAR.", internal=True),
    function("number_to_char", "number =string", _picture, each(_written), null="NaN and infinities",
             note="TO_CHAR of numbers in PostgreSQL, Redshift, Oracle and Snowflake: `FM999,990.00`. The pattern "
                  "consists of FM, `$`, 9 and 0, `,` or G, `.` or D, and S, MI or PR.", internal=True),
)  # fmt: skip
