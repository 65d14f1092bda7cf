"""Parses the statements of the shell. Queries inside them are left to the planner."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from crown.errors import CrownError
from plans.nested import split

Value = str | None
"""A literal as text, to be read as the type of its column; None for NULL."""


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE: ``columns`` as in a schema, and ``key``, the columns of the primary key."""

    name: str
    columns: dict[str, str]
    key: tuple[str, ...]
    unless_there: bool


@dataclass(frozen=True)
class CreateView:
    """CREATE MATERIALIZED VIEW."""

    name: str
    query: str
    replace: bool
    unless_there: bool


@dataclass(frozen=True)
class Drop:
    """DROP TABLE, DROP MATERIALIZED VIEW."""

    name: str
    table: bool
    if_there: bool


@dataclass(frozen=True)
class Insert:
    """INSERT INTO: the ``rows``, or the rows of ``query``. ``columns``: the order of the values; () is the order of the
    table."""

    table: str
    columns: tuple[str, ...]
    rows: list[list[Value]]
    query: str


@dataclass(frozen=True)
class Delete:
    """DELETE FROM: deletes the rows of ``query``."""

    table: str
    query: str


@dataclass(frozen=True)
class Copy:
    """COPY table FROM 'file'."""

    table: str
    path: str


@dataclass(frozen=True)
class Select:
    """A query. ``whole``: the view or table of which all rows are selected, up to ``limit``."""

    query: str
    whole: str = ""
    limit: int | None = None


@dataclass(frozen=True)
class Explain:
    """EXPLAIN: a query, or the name of a view."""

    query: str


@dataclass(frozen=True)
class Subscribe:
    """SUBSCRIBE and UNSUBSCRIBE."""

    view: str
    on: bool


Statement = CreateTable | CreateView | Drop | Insert | Delete | Copy | Select | Explain | Subscribe
FORMS = {
    "CREATE TABLE": "CREATE TABLE [IF NOT EXISTS] name (column type [NOT NULL] [ROUNDED] [PRIMARY KEY], ..., "
    "[PRIMARY KEY (column, ...)])",
    "CREATE MATERIALIZED VIEW": "CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name AS SELECT ...",
    "DROP": "DROP TABLE | MATERIALIZED VIEW [IF EXISTS] name",
    "INSERT": "INSERT INTO table [(column, ...)] VALUES (value, ...), ... | SELECT ...",
    "DELETE": "DELETE FROM table [WHERE condition]",
    "COPY": "COPY table FROM 'file'",
    "SELECT": "SELECT ...",
    "EXPLAIN": "EXPLAIN view | SELECT ...",
    "SUBSCRIBE": "SUBSCRIBE view",
    "UNSUBSCRIBE": "UNSUBSCRIBE view",
}
"""The statements, by the words that they begin with."""


def statement(text: str) -> Statement:
    """Returns the parsed statement. Raises CrownError if the shell does not have it."""
    words = text.upper().split()
    if (words and words[0] in ("SELECT", "WITH", "(", "VALUES")) or text.startswith("("):
        return _select(text)
    for begin, words_of, form, made in _STATEMENTS:
        if begin.match(text):
            given = form.fullmatch(text.strip())
            if given is None:
                raise CrownError(f"{words_of} is not complete; write {FORMS[words_of]}")
            return made(given)
    found = f"{' '.join(text.split()[:2])!r} is not a statement of this shell"
    begins = {form.split()[0] for form in FORMS}
    near = get_close_matches(words[0], begins, 1) if words and words[0] not in begins else []
    if words and words[0] in _INSTEAD:
        raise CrownError(f"{found}: {_INSTEAD[words[0]]}")
    raise CrownError(f"{found}: did you mean {near[0]}?" if near else f"{found}, which has {', '.join(FORMS)}")


_INSTEAD = {
    "UPDATE": "DELETE the old rows, and INSERT the new ones",
    "TRUNCATE": "write DELETE FROM table",
    "ALTER": "CREATE another TABLE with these columns, and INSERT INTO it SELECT ...",
    **dict.fromkeys(("SHOW", "DESCRIBE", "DESC"), ".tables lists the tables and views with their columns"),
    **dict.fromkeys(("BEGIN", "START", "COMMIT", "ROLLBACK"), "each statement is a transaction by itself"),
}
"""What to do instead of a statement that begins with this word."""
_NAME = r'(?:\w+|`[^`]+`|"[^"]+")'


def _form(pattern: str) -> re.Pattern[str]:
    """Returns a regular expression in which NAME matches a name, and a blank matches any whitespace."""
    return re.compile(pattern.replace("NAME", _NAME).replace(" ", r"\s+"), re.IGNORECASE | re.DOTALL)


def _plain(name: str) -> str:
    """Returns a name without its quotes."""
    return name[1:-1] if name[0] in '`"' else name


_KEY = _form(r"\s*PRIMARY KEY\s*\((?P<columns>[^()]*)\)\s*")
_COLUMN = _form(r"\s*(?P<name>NAME) (?P<type>.+?)(?P<required> NOT NULL)?(?P<key> PRIMARY KEY)?(?: NOT NULL)?\s*")


def _create_table(found: re.Match[str]) -> CreateTable:
    columns: dict[str, str] = {}
    key: list[str] = []
    for part in split(found["columns"]):
        together = _KEY.fullmatch(part)
        if together is not None:
            key += [_plain(name.strip()) for name in together["columns"].split(",") if name.strip()]
            continue
        column = _COLUMN.fullmatch(part)
        if column is None:
            raise CrownError(f"{part.strip()!r} is not a column; write {FORMS['CREATE TABLE']}")
        name = _plain(column["name"])
        if name in columns:
            raise CrownError(f"the table has two columns called {name}; rename one")
        required = column["required"] or re.search(r"NOT\s+NULL\s*$", part, re.IGNORECASE)
        columns[name] = column["type"] + (" not null" if required else "")
        key += [name] if column["key"] else []
    return CreateTable(_plain(found["name"]), columns, tuple(key), found[1] is not None)


def _insert(found: re.Match[str]) -> Insert:
    columns = tuple(_plain(name.strip()) for name in (found["columns"] or "").split(",") if name.strip())
    rows = found["rows"]
    if rows[:6].upper() != "VALUES":
        return Insert(_plain(found["table"]), columns, [], rows)
    return Insert(_plain(found["table"]), columns, list(_rows(rows[6:])), "")


_LITERAL = re.compile(
    r"\s*(?:(?P<null>NULL\b)|(?P<word>TRUE\b|FALSE\b)|(?:(?:DATE|TIMESTAMP|TIMESTAMP_NTZ)\s*)?'(?P<text>(?:[^']|'')*)'"
    r"|(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))\s*",
    re.IGNORECASE,
)
_MARK = re.compile(r"\s*([(),])")


def _rows(text: str) -> Iterator[list[Value]]:
    """Yields the rows of VALUES."""
    at = 0

    def mark(wanted: str) -> str:
        nonlocal at
        found = _MARK.match(text, at)
        if found is None or found[1] not in wanted:
            near = text[at:].strip()[:20] or "the end"
            raise CrownError(
                f"VALUES takes rows of literals, such as (1, 'a', NULL); there is something else near {near!r}"
            )
        at = found.end()
        return found[1]

    while True:
        mark("(")
        row: list[Value] = []
        while True:
            found = _LITERAL.match(text, at)
            if found is None:
                near = text[at:].strip()[:20] or "the end"
                raise CrownError(f"VALUES takes numbers, texts in quotes, TRUE, FALSE and NULL, not {near!r}")
            at = found.end()
            quoted = (found["text"] or "").replace("''", "'")
            row.append(None if found["null"] else found["word"] or found["number"] or quoted)
            if mark(",)") == ")":
                break
        yield row
        if not text[at:].strip():
            return
        mark(",")


_WHOLE = _form(r"SELECT \* FROM (?P<name>NAME)(?: LIMIT (?P<limit>\d+))?")


def _select(text: str) -> Select:
    found = _WHOLE.fullmatch(text)
    if found is None:
        return Select(text)
    return Select(text, _plain(found["name"]), None if found["limit"] is None else int(found["limit"]))


_STATEMENTS: tuple[tuple[re.Pattern[str], str, re.Pattern[str], Callable[[re.Match[str]], Statement]], ...] = (
    (
        _form(r"CREATE TABLE\b"), "CREATE TABLE",
        _form(r"CREATE TABLE( IF NOT EXISTS)? (?P<name>NAME)\s*\((?P<columns>.*)\)"), _create_table,
    ),
    (
        _form(r"CREATE\b.*\bVIEW\b"), "CREATE MATERIALIZED VIEW",
        _form(r"CREATE( OR REPLACE)?(?: MATERIALIZED)? VIEW( IF NOT EXISTS)? (?P<name>NAME) AS (?P<query>.+)"),
        lambda found: CreateView(_plain(found["name"]), found["query"], found[1] is not None, found[2] is not None),
    ),
    (
        _form(r"DROP\b"), "DROP", _form(r"DROP (TABLE|(?:MATERIALIZED )?VIEW)( IF EXISTS)? (?P<name>NAME)"),
        lambda found: Drop(_plain(found["name"]), found[1].upper() == "TABLE", found[2] is not None),
    ),
    (
        _form(r"INSERT\b"), "INSERT",
        _form(
            r"INSERT INTO (?P<table>NAME)\s*(?:\((?P<columns>[^()]*)\))?\s*(?P<rows>(?:VALUES|SELECT|WITH)\b.+)"
        ), _insert,
    ),
    (
        _form(r"DELETE\b"), "DELETE", _form(r"DELETE FROM (?P<table>NAME)(?P<where>\s+WHERE\b.+)?"),
        lambda found: Delete(_plain(found["table"]), f"SELECT * FROM {found['table']}{found['where'] or ''}"),
    ),
    (
        _form(r"COPY\b"), "COPY", _form(r"COPY (?P<table>NAME) FROM '(?P<path>[^']+)'"),
        lambda found: Copy(_plain(found["table"]), found["path"]),
    ),
    (_form(r"EXPLAIN\b"), "EXPLAIN", _form(r"EXPLAIN (?P<query>.+)"), lambda found: Explain(found["query"])),
    (
        _form(r"(UN)?SUBSCRIBE\b"), "SUBSCRIBE", _form(r"(UN)?SUBSCRIBE (?P<view>NAME)"),
        lambda found: Subscribe(_plain(found["view"]), found[1] is None),
    ),
)  # fmt: skip
"""The statements: how the text begins, its name in ``FORMS``, its whole form, and what it becomes."""
