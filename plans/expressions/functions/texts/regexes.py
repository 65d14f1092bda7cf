"""Translates Java's regular expressions to RE2 (Arrow's), as far as RE2 gives them the same meaning.

A construct with the same meaning in both is passed on. A construct that only Java has (look-around, back-references,
possessive quantifiers and atomic groups, set operations in classes), or that has another meaning in RE2, is rejected by
name. RE2 takes time linear in the text for every pattern.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from plans.errors import PlanError

_CLASSES = {
    **{c: c for c in "dDwW"},
    "s": r"[\t\n\v\f\r ]",
    "S": r"[^\t\n\v\f\r ]",
    "h": r"[ \t\x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}]",
}
_IN_CLASS = {**{c: "\\" + c for c in "dDwW"}, "s": r"\t\n\v\f\r "}
_SIGNS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f", "a": r"\a", "e": r"\x{1B}"}
_PLACES = {"A": r"\A", "z": r"\z"}
_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
LINE_END = rf"(?:\r\n|[{_LINE_ENDS}])?"
"""The line end that may follow the position matched by $."""
_END = rf"(?:{LINE_END}\z)"
_COUNT = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}")
_BEHIND_END = re.compile(r"\)*(?:\||\Z)")
_MOST = 1000  # RE2's bound on {n,m}
_BACKREFERENCE = re.compile(r"[1-9k]")
_PROPERTY = re.compile(r"\{(Lu|Ll|L|N|Nd|P|S|Z)\}|(L|N|P|S|Z)")
_POSIX = {
    "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9", "Upper": "A-Z", "Lower": "a-z", "XDigit": "0-9a-fA-F",
    "Space": r"\t\n\v\f\r ", "Blank": r"\t ", "Punct": r"!-/:-@\[-`{-~",
}  # fmt: skip


@dataclass(frozen=True)
class Regex:
    """A pattern in RE2's syntax.

    `groups`: the positions at which its groups open in the text. `tail`: it ended in $, which is removed from the text.
    `inner`: it has a $ elsewhere, which also consumes the line end. `empty`: it matches the empty text.
    """

    text: str
    groups: tuple[int, ...]
    tail: bool
    inner: bool
    empty: bool

    @property
    def whole(self) -> str:
        """Returns the pattern with its $."""
        return f"(?:{self.text}){_END}" if self.tail else self.text

    def capturing(self, group: int) -> str:
        """Returns the pattern with only that group captured, under the name `g`. Group 0 is the whole pattern."""
        out, last = [], 0
        for number, place in enumerate(self.groups, start=1):
            out.append(self.text[last : place + 1] + ("?P<g>" if number == group else "?:"))
            last = place + 1
        text = "".join(out) + self.text[last:]
        text = f"(?P<g>{text})" if group == 0 else f"(?:{text})"
        return text + (_END if self.tail else "")


@cache
def translated(pattern: str) -> Regex:
    """Returns the pattern for RE2. Raises PlanError if Java and RE2 may read it differently."""
    return _Reader(pattern).regex()


class _Reader:
    """A parser of Java's patterns, from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.out: list[str] = []
        self.groups: list[int] = []
        self.flags = ""
        self.tail = self.inner = False

    def regex(self) -> Regex:
        flags = re.match(r"\(\?([is]+)\)", self.pattern)
        if flags:
            self.flags, self.at = flags[1], flags.end()
        empty = self.alternatives(0)
        if self.at < len(self.pattern):
            raise self.refused("a ) without its (")
        return Regex("".join(self.out), tuple(self.groups), self.tail, self.inner, empty)

    def refused(self, construct: str) -> PlanError:
        return PlanError(
            f"the regular expression {self.pattern!r} has {construct} at its character {self.at + 1}: not supported",
            hint="use a regular expression of Java that can be matched in linear time",
        )

    def emit(self, text: str) -> None:
        self.out.append(text)

    def size(self) -> int:
        return sum(map(len, self.out))

    def alternatives(self, depth: int) -> bool:
        """Parses up to the end or a closing parenthesis. Returns whether the pattern may match the empty text."""
        if depth > 50:
            raise self.refused("more than 50 nested groups")
        some, this, branches = False, True, False
        while self.at < len(self.pattern) and self.pattern[self.at] != ")":
            if self.pattern[self.at] == "|":
                self.at += 1
                self.emit("|")
                some, this = some or this, True
                branches = True
            elif self.pattern[self.at] == "$" and self.at + 1 == len(self.pattern) and not depth and not branches:
                self.at += 1
                self.tail = True
            else:
                this &= self.repeated(depth)
        return some or this

    def repeated(self, depth: int) -> bool:
        """Parses one element and its quantifier. Returns whether it may match the empty text."""
        fixed = self.pattern[self.at] in "^$" or self.pattern.startswith(("\\b", "\\B", "\\A", "\\z", "\\Z"), self.at)
        empty = self.element(depth)
        sign = self.pattern[self.at : self.at + 1]
        if sign in ("*", "+", "?"):
            self.at += 1
            empty |= sign != "+"
        elif sign == "{":
            count = _COUNT.match(self.pattern, self.at)
            if count is None:
                raise self.refused("a { that opens no count")
            least, most = int(count[1]), int(count[3] or count[1])
            if max(least, most) > _MOST or most < least:
                raise self.refused(f"a count above {_MOST}, or one that falls")
            self.at = count.end()
            sign, empty = count[0], empty or least == 0
        else:
            return empty
        if fixed:
            raise self.refused("a quantifier after an assertion")
        self.emit(sign)
        follows = self.pattern[self.at : self.at + 1]
        if follows == "?":
            self.at += 1
            self.emit("?")
        elif follows == "+":
            raise self.refused("a possessive quantifier")
        if self.pattern[self.at : self.at + 1] in ("*", "+", "?", "{"):
            raise self.refused("a quantifier after a quantifier")
        return empty

    def element(self, depth: int) -> bool:
        """Parses one element. Returns whether it matches the empty text."""
        sign = self.pattern[self.at]
        if sign == "(":
            return self.group(depth)
        if sign == "[":
            self.emit(self.set())
            return False
        if sign == "\\":
            return self.escaped()
        if sign in "*+?{":
            raise self.refused(f"a {sign} with nothing before it")
        self.at += 1
        if sign == "^":
            self.emit(r"\A")
            return True
        if sign == "$":
            if not _BEHIND_END.match(self.pattern, self.at):
                self.at -= 1
                raise self.refused("a $ that is not at the end")
            self.inner = True
            self.emit(_END)
            return True
        if sign == ".":
            self.emit("(?s:.)" if "s" in self.flags else f"[^{_LINE_ENDS}]")
        else:
            self.emit(self.either_case(sign))
        return False

    def either_case(self, character: str) -> str:
        """Returns a character, in both cases with (?i), which affects only ASCII letters in Java."""
        if "i" in self.flags and character.isascii() and character.isalpha():
            return f"[{character.lower()}{character.upper()}]"
        return _plain(character)

    def group(self, depth: int) -> bool:
        opened = self.pattern[self.at : self.at + 4]
        if opened.startswith("(?:"):
            self.at += 3
            self.emit("(?:")
        elif opened.startswith("(?"):
            kinds = {"(?=": "look-ahead", "(?!": "look-ahead", "(?>": "an atomic group", "(?<": "a named group"}
            what = "look-behind" if opened in ("(?<=", "(?<!") else kinds.get(opened[:3], "flags inside the pattern")
            raise self.refused(what)
        else:
            self.at += 1
            self.groups.append(self.size())
            self.emit("(")
        ends, self.inner = self.inner, False
        empty = self.alternatives(depth + 1)
        if self.inner and not _BEHIND_END.match(self.pattern, self.at + 1):
            raise self.refused("a $ that is not at the end")
        self.inner |= ends
        if self.at >= len(self.pattern):
            raise self.refused("a ( without its )")
        self.at += 1
        self.emit(")")
        return empty

    def escaped(self) -> bool:
        sign = self.pattern[self.at + 1 : self.at + 2]
        if not sign:
            raise self.refused("a backslash at the end")
        if _BACKREFERENCE.match(sign):
            raise self.refused("a back-reference")
        if sign in _PLACES or sign == "b":
            if sign == "b" and not self.pattern.isascii():
                raise self.refused("\\b with letters beyond ASCII")
            self.at += 2
            self.emit(_PLACES.get(sign, r"\b"))
            return True
        if sign in _CLASSES:
            self.at += 2
            self.emit("\\" + sign if sign in "dDwW" else _CLASSES[sign])
            return False
        if sign in "pP":
            self.emit(f"[{self.property()}]")
            return False
        self.emit(self.sign())
        return False

    def sign(self) -> str:
        """Returns the escaped character at the current position, in RE2's syntax."""
        sign = self.pattern[self.at + 1 : self.at + 2]
        code = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})").match(self.pattern, self.at + 1)
        if code is not None:
            self.at = code.end()
            return f"\\x{{{code[1] or code[2]}}}"
        if sign in _SIGNS:
            self.at += 2
            return _SIGNS[sign]
        if not sign or sign.isalnum():
            raise self.refused(f"\\{sign}")
        self.at += 2
        return _plain(sign)

    def property(self) -> str:
        negated = self.pattern[self.at + 1] == "P"
        name = re.compile(r"\{(?:Is|java)?(\w+)\}").match(self.pattern, self.at + 2)
        if name is not None and name[0][1:-1] in _POSIX and not negated:
            self.at = name.end()
            return _POSIX[name[0][1:-1]]
        found = _PROPERTY.match(self.pattern, self.at + 2)
        if found is None:
            raise self.refused("a class of characters that is not known")
        self.at = found.end()
        return f"\\{'P' if negated else 'p'}{{{found[1] or found[2]}}}"

    def set(self) -> str:
        """Returns a class in brackets, without set operations."""
        self.at += 1
        out = "["
        if self.pattern.startswith("^", self.at):
            self.at += 1
            out += "^"
        first = True
        while first or not self.pattern.startswith("]", self.at):
            if first and self.pattern.startswith("]", self.at):
                raise self.refused("a ] that a class begins with")
            text, sign = self.member()
            behind = self.pattern[self.at + 1 : self.at + 2]
            if sign and self.pattern.startswith("-", self.at) and behind not in ("", "]"):
                self.at += 1
                _, last = self.member()
                if not last or last < sign:
                    raise self.refused("a range that ends before it begins")
                text = f"{_plain(sign)}-{_plain(last)}"
                text += self.other_case(sign, last)
            elif sign:
                text += self.other_case(sign, sign)
            out += text
            first = False
        self.at += 1
        return out + "]"

    def other_case(self, first: str, last: str) -> str:
        """Returns the letters of a range in the other case, which (?i) adds."""
        if "i" not in self.flags:
            return ""
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
        return "".join(letter.swapcase() for letter in letters if first <= letter <= last)

    def member(self) -> tuple[str, str]:
        """Returns the next member of a class: its text, and the character if it is a single one."""
        sign = self.pattern[self.at : self.at + 1]
        if not sign:
            raise self.refused("a [ without its ]")
        if sign == "[" or self.pattern.startswith("&&", self.at):
            raise self.refused("a class inside a class, or &&")
        if sign != "\\":
            self.at += 1
            return _plain(sign), sign
        after = self.pattern[self.at + 1 : self.at + 2]
        if after in _IN_CLASS:
            self.at += 2
            return _IN_CLASS[after], ""
        if after in ("p", "P"):
            return self.property(), ""
        start = self.at
        text = self.sign()
        return text, self.pattern[start + 1] if self.at == start + 2 and not after.isalpha() else ""


def _plain(character: str) -> str:
    """Returns a literal character."""
    if character.isalnum() or ord(character) > 0x7F or character in " _'\"":
        return character
    return f"\\x{{{ord(character):02X}}}"
