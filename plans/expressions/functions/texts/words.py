"""Functions of words: phonetic codes, edit distance, parts between delimiters."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.functions.distinct import by_distinct, each
from plans.expressions.functions.function import function
from plans.expressions.functions.texts.strings import part_at, sliced, splits_alike

_SOUNDS = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623010202", strict=True)) | {"H": "7", "W": "7"}


def _soundex(text: str) -> str:
    """Returns the first letter of a word and up to three sounds. Returns a word that does not begin with a letter
    unchanged."""
    if not text or not text[0].isascii() or not text[0].isalpha():
        return text
    code, last = text[0].upper(), _SOUNDS[text[0].upper()]
    for sign in text[1:].upper() if text.isascii() else map(_upper, text[1:]):
        sound = _SOUNDS.get(sign)
        if sound is None:
            last = "0"
        elif sound == "7":
            continue
        else:
            if sound not in ("0", last):
                code += sound
                if len(code) == 4:
                    break
            last = sound
    return code.ljust(4, "0")


def _upper(character: str) -> str:
    return character.upper() if character.isascii() else character


def _distance(left: str, right: str, limit: int | None = None) -> int:
    """Returns the least number of insertions, deletions and replacements of characters, or -1 if it is more than
    `limit`."""
    row = list(range(len(right) + 1))
    for place, sign in enumerate(left, 1):
        before, row[0] = row[0], place
        for at, other in enumerate(right, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (sign != other))
    return row[-1] if limit is None or row[-1] <= limit else -1


def _titled(text: str) -> str:
    return " ".join(word[:1].title() + word.lower()[len(word[:1].lower()) :] for word in text.split(" "))


def _titled_words(text: str, delimiters: str | None = None) -> str:
    """Returns the text with words capitalized. Words end at the characters in `delimiters`, by default at all but
    letters and digits."""
    pattern = f"[^{re.escape(delimiters)}]+" if delimiters else ".+"
    words = _WORD if delimiters is None else re.compile(pattern, re.DOTALL)
    return words.sub(lambda word: word[0][:1].upper() + word[0][1:].lower(), text)


_WORD = re.compile(r"[^\W_]+")


def _overlaid(text: str, new: str, start: int, count: int = -1) -> str:
    """Returns OVERLAY: replaces `count` characters from `start` by `new`; if `count` < 0, as many as `new` has."""
    behind = start + (len(new) if count < 0 else count)
    return sliced(text, 1, start - 1) + new + sliced(text, behind)


def _before(text: str, delimiter: str, count: int) -> str:
    """Returns SUBSTRING_INDEX: the text before the count-th mark, or, for a negative count, the text after it from the
    end."""
    if not delimiter or not count:
        return ""
    parts = text.split(delimiter)
    return delimiter.join(parts[:count] if count > 0 else parts[count:])


def _in_set(text: str, listed: str) -> int:
    if "," in text:
        return 0
    parts = listed.split(",")
    return parts.index(text) + 1 if text in parts else 0


def _nth(text: str, delimiter: str, position: int) -> str | None:
    """Returns Flink's SPLIT_INDEX: the part at a position that counts from 0, or None if there is none."""
    parts = text.split(delimiter) if delimiter else [text]
    return parts[position] if 0 <= position < len(parts) else None


def _nths(type_: pa.DataType, value: Any, delimiter: Any, position: Any) -> Any:
    if splits_alike(value, delimiter, position) and position.as_py() >= 0:
        return part_at(value, delimiter.as_py(), position.as_py())
    return by_distinct(_nth, type_, value, delimiter, position)


def _luhn(text: str) -> bool:
    if not text or not text.isascii() or not text.isdigit():
        return False
    digits = [int(sign) for sign in reversed(text)]
    return sum(d if i % 2 == 0 else sum(divmod(2 * d, 10)) for i, d in enumerate(digits)) % 10 == 0


def _chosen(type_: pa.DataType, number: Any, *values: Any) -> Any:
    """Returns ELT: the value at a position, or NULL if there is none."""
    found: Any = pa.scalar(None, type_)
    for place, value in enumerate(values, 1):
        found = pc.if_else(pc.fill_null(pc.equal(number, place), False), value, found)
    return found


TABLE = (
    function("soundex", "string", "string", each(_soundex)),
    function("levenshtein", "string string [int32]", "int32", each(_distance),
             note="-1 if the distance is greater than the third argument."),
    function("initcap", "string", "string", each(_titled), note="Words begin after spaces."),
    function("initcap_words", "string [=string]", "string", each(_titled_words),
             note="INITCAP of other systems: words end at the characters of the second argument, or at all characters "
                  "except letters and digits.", internal=True),
    function("overlay", "string string int32 [int32]", "string", each(_overlaid),
             note="Also `OVERLAY(x PLACING y FROM 2 FOR 3)`."),
    function("substring_index", "string string int32", "string", each(_before)),
    function("find_in_set", "string string", "int32", each(_in_set),
             note="The position in a list that is separated by commas; 0 means not found."),
    function("split_index", "string string int32", "string", _nths,
             note="Flink's function: counts from 0; NULL for a part that does not exist."),
    function("characters", "string", lambda types, values: "array<string>", each(list),
             note="SPLIT by the empty text in other systems.", internal=True),
    function("bit_length", "bytes", "int32", lambda type_, value: pc.multiply(pc.binary_length(value), 8).cast(type_)),
    function("luhn_check", "string", "bool", each(_luhn)),
    function("elt", "int32 string ...", "string", _chosen, null="a position without an argument"),
)  # fmt: skip
