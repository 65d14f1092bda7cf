"""The parsers of the SQL dialects: sqlglot's parsers, extended to record positions of nodes and to reject more errors.

`spark` and `ansi` are Spark's SQL, in which double quotes enclose text or names; `flink` is read as `ansi`, and
`plans.frontends.sql.text.flink` has what differs. All other dialects are sqlglot's, and
`plans.frontends.sql.text.translate` translates their functions to Spark's.

Some tokens of FROM clauses are rewritten before the text is parsed. Flink's call of a table function,
`TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' MINUTES))`, is read as `TUMBLE(orders, at, INTERVAL '10'
MINUTES)`: some words are dropped, the others keep their positions. `TABLE(SESSION(TABLE orders PARTITION BY shop,
...))` is `SESSION(orders, shop, ...)`. Snowflake's MATCH_CONDITION is a keyword before a parenthesis, and otherwise a
name. SESSION is a name, and so is WINDOW unless it begins a clause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot import Dialects, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.tokens import TokenType

from plans.errors import PlanError, Position
from plans.expressions.names import NAMES
from plans.frontends.sql.relations.windows import CALLS
from plans.frontends.sql.scalars.interval import SESSION
from plans.frontends.sql.text.arguments import complete
from plans.frontends.sql.text.meanings.patterns import DIALECTS as PATTERNED
from plans.frontends.sql.text.meanings.patterns import FUNCTIONS
from plans.stack import MAX_NESTING, with_room

if TYPE_CHECKING:
    _Base = Any  # one of sqlglot's parsers
else:
    _Base = object


class Fault(ParseError):
    """A syntax error, and the token at which it was found."""

    def __init__(self, message: str, token: Any, last: bool) -> None:
        super().__init__(message, [{}])  # sqlglot adds to the first one
        self.token = token
        self.last = last  # the text ends after the token


class Noting(_Base):
    """Additions to all parsers: they record positions, and limit the depth of recursion."""

    PADS: ClassVar[bool] = True
    """An ASOF JOIN with MATCH_CONDITION keeps the left rows without a partner."""

    def reset(self) -> None:
        """Resets the parser for a new text."""
        super().reset()
        self._levels = 0

    def _inside(self, levels: int, parse: Any, *args: Any, **kwargs: Any) -> Any:
        """Parses some levels deeper, and records the extent of the result."""
        first = self._curr
        self._levels += levels
        if self._levels > MAX_NESTING:
            raise PlanError(
                f"the query is nested too deeply here: more than {MAX_NESTING} levels",
                hint="remove parentheses: chains of AND, OR and + do not need them",
                position=Position.of(self.sql, first.start, first.end + 1) if first else None,
                text=self.sql,
            )
        try:
            node = with_room(lambda: parse(*args, **kwargs))
        finally:
            self._levels -= levels
        if node is not None and first and self._prev and self._prev.end >= first.start:
            node.meta.setdefault("span", (first.start, self._prev.end + 1))
        return node

    def _parse_statement(self) -> Any:
        return self._inside(0, super()._parse_statement)

    def _parse_unary(self) -> Any:
        return self._inside(1, super()._parse_unary)

    def _parse_select(self, *args: Any, **kwargs: Any) -> Any:
        return self._inside(0, super()._parse_select, *args, **kwargs)

    def _parse_table(self, *args: Any, **kwargs: Any) -> Any:
        return self._inside(1, super()._parse_table, *args, **kwargs)

    def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
        comma = self._curr if self._curr and self._curr.token_type == TokenType.COMMA else None
        node = self._inside(0, super()._parse_join, *args, **kwargs)
        if comma is not None and node is None:
            self.raise_error("there is no table after this comma", comma)
        if self.PADS and node is not None and node.args.get("match_condition") is not None and not node.side:
            node.set("side", "LEFT")
        return node

    def expression(self, *args: Any, **kwargs: Any) -> Any:
        """Creates a node, and records how far the text has been read."""
        node = super().expression(*args, **kwargs)
        if self._prev:
            node.meta["until"] = self._prev.end + 1
        return node

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
        first = self._curr
        try:
            return super()._parse_function_call(*args, **kwargs)
        except PlanError as error:
            if error.position is not None:
                raise
            raise error.at(self.sql, Position.of(self.sql, first.start, self._curr.end + 1)) from None

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
        """Parses an interval, whose parts follow one another: INTERVAL 1 DAY 2 HOURS. sqlglot also takes a number after
        + for a part, as in INTERVAL '1 day' + 2 * INTERVAL '1 hour'."""
        start = self._index
        if not self._match(TokenType.INTERVAL) and require_interval:
            return None
        value = self._parse_primary() if self._match(TokenType.STRING, advance=False) else self._parse_term()
        named = isinstance(value, exp.Column) and not value.table and not value.this.quoted
        after = self._curr.text.upper() if self._curr else ""
        if not value or (named and after and after not in self.dialect.VALID_INTERVAL_UNITS):
            self._retreat(start)
            return None
        length = self._parse_interval_span(value, parse_function_unit=parse_function_unit)
        if not self._match_set((TokenType.STRING, TokenType.NUMBER), advance=False):
            return length
        rest = self._parse_interval(False, parse_function_unit=parse_function_unit)
        return self.expression(exp.Add(this=length, expression=rest))

    def _parse_interval_span(self, this: Any, *args: Any, **kwargs: Any) -> Any:
        """Parses an interval. sqlglot ignores what stands before and after the number in a text such as '- 2 hours'."""
        given = this.name if isinstance(this, exp.Literal) and this.is_string else ""
        node = super()._parse_interval_span(this, *args, **kwargs)
        if exp.INTERVAL_STRING_RE.sub("", given).strip() and node.this.name != given:
            node.set("this", exp.Literal.string(given))
            node.set("unit", None)
        return node

    def _parse_distinct_arg_function(self, func: Any, distinct_index: int = 0) -> Any:
        build = complete(self._tokens[self._index - 2].text.upper(), func.from_arg_list)
        return super()._parse_distinct_arg_function(SimpleNamespace(from_arg_list=build), distinct_index)

    def _parse_initcap(self) -> Any:
        node = complete("INITCAP", exp.Initcap.from_arg_list)(self._parse_function_args())
        if node.args.get("expression") is None:
            node.set("expression", exp.Literal.string(self.dialect.INITCAP_DEFAULT_DELIMITER_CHARS))
        return node

    def _parse_between(self, this: Any) -> Any:
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            self.raise_error("BETWEEN needs AND")
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise()))

    def _parse_wrapped(self, parse_method: Any, optional: bool = False) -> Any:
        """Parses an expression in parentheses. MATCH_CONDITION accepts any condition; `asof` checks it."""
        matches = self._prev and self._prev.token_type == TokenType.MATCH_CONDITION
        return super()._parse_wrapped(self._parse_disjunction if matches else parse_method, optional)

    def _parse_wrapped_id_vars(self, optional: bool = False) -> Any:
        """Parses names in parentheses. The key of a recursive CTE also takes MIN and MAX."""
        if self._index > 1 and [token.text.upper() for token in self._tokens[self._index - 2 : self._index]] == [
            "USING",
            "KEY",
        ]:
            return self._parse_wrapped_csv(lambda: self._parse_function() or self._parse_id_var())
        return super()._parse_wrapped_id_vars(optional)

    def _parse_with(self, skip_with_token: bool = False) -> Any:
        """Parses WITH, and WITH MUTUALLY RECURSIVE of Materialize, whose columns have types."""
        mutually = not skip_with_token and self._next is not None and self._next.text.upper() == "MUTUALLY"
        if mutually and self._match(TokenType.WITH) and self._tokens[self._index + 1].token_type == TokenType.RECURSIVE:
            self._advance()
            skip_with_token = True
            if self._next is not None and self._next.token_type == TokenType.L_PAREN:
                self.raise_error("options of MUTUALLY RECURSIVE are not supported", self._next)
        return super()._parse_with(skip_with_token)

    def _parse_in(self, this: Any, alias: bool = False) -> Any:
        if self._curr is None or self._curr.token_type not in (TokenType.L_PAREN, TokenType.UNNEST):
            self.raise_error("IN takes a list or a query in parentheses")
        return super()._parse_in(this, alias)

    def _parse_case(self) -> Any:
        if self._match(TokenType.DOT, advance=False):
            return super()._parse_case()  # a name
        value, ifs = self._parse_disjunction(), []
        while self._match(TokenType.WHEN):
            condition = self._parse_disjunction()
            if not self._match(TokenType.THEN):
                self.raise_error("WHEN needs THEN")
            ifs.append(self.expression(exp.If(this=condition, true=self._parse_disjunction())))
        default = self._parse_disjunction() if self._match(TokenType.ELSE) else None
        if not self._match(TokenType.END):
            self.raise_error("CASE needs END")
        return self.expression(exp.Case(this=value, ifs=ifs, default=default))

    def _warn_unsupported(self) -> None:
        """Does nothing: statements other than SELECT are rejected later."""

    def raise_error(self, message: str, token: Any = None) -> None:
        """Raises Fault at the token."""
        raise Fault(message, token or self._curr or self._prev, not token and not self._curr)


class SparkSQL(Spark):
    """Spark's SQL as in Spark 4: a doubled quote in a string is a quote."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens, with doubled quotes."""

        STRING_ESCAPES: ClassVar[list[str]] = ["'", "\\", '"']

    class Parser(Noting, Spark.Parser):  # type: ignore[misc, valid-type]
        """Spark's parser. It keeps the names of functions, and the unary plus, which converts a string to a number."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {  # scalar functions keep their names and the order of their arguments
            name: complete(name, build)
            for name, build in Spark.Parser.FUNCTIONS.items()
            if name not in NAMES or name in ("ARRAY", "BOOLEAN", "DATE")
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {  # Spark has no functions of these names
            name: parse
            for name, parse in Spark.Parser.FUNCTION_PARSERS.items()
            if name not in ("AND", "OR", "CHAR", "CHR", "DECODE", "INITCAP")
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {  # TRANSFORM is a function here, no call of a script
            name: parse for name, parse in Spark.Parser.NO_PAREN_FUNCTION_PARSERS.items() if name != "TRANSFORM"
        }
        UNARY_PARSERS: ClassVar[dict[Any, Any]] = {
            **Spark.Parser.UNARY_PARSERS,
            TokenType.PLUS: lambda self: self._parse_plus(),
        }

        PADS: ClassVar[bool] = False

        def _parse_join_parts(self) -> Any:
            method, side, kind = super()._parse_join_parts()
            return self._prev if self._match(TokenType.ASOF) else method, side, kind

        def _parse_plus(self) -> Any:
            value = self._parse_unary()
            if value is None:
                self.raise_error("there is no value after +", self._prev)
            return self.expression(exp.Anonymous(this="+", expressions=[value]))

        def _parse_position(self, haystack_first: bool = False) -> Any:
            args = self._parse_csv(self._parse_bitwise)
            if len(args) == 1 and self._match(TokenType.IN):
                return self.expression(exp.StrPosition(this=self._parse_bitwise(), substr=args[0]))
            return self.expression(exp.Anonymous(this="POSITION", expressions=args))


class AnsiSQL(SparkSQL):
    """Spark's SQL with names in double quotes."""

    class Tokenizer(SparkSQL.Tokenizer):
        """Spark's tokens. Only single quotes enclose text."""

        QUOTES: ClassVar[list[Any]] = ["'"]
        IDENTIFIERS: ClassVar[list[Any]] = ["`", '"']
        STRING_ESCAPES: ClassVar[list[str]] = ["'", "\\"]


class FlinkSQL(AnsiSQL):
    """Flink's SQL, in which a quotient of whole numbers is a whole number."""

    TYPED_DIVISION = True


SPARK: dict[str, type[Dialect]] = {"spark": SparkSQL, "ansi": AnsiSQL, "flink": FlinkSQL}
"""The variants of Spark's SQL, whose functions keep their names."""
DIALECTS = (*SPARK, *sorted(one.value for one in Dialects if one.value not in ("", "dax", "prql", *SPARK)))
"""The names of all dialects."""


_OWN = {"duckdb": ("EPOCH", "EPOCH_MS"), "clickhouse": ("ARRAYSUM", "ARRAYMIN", "ARRAYMAX", "ARRAYAVG")}
"""Functions that keep their names, because sqlglot would read them as other functions."""


def _as_called(name: str, build: Any) -> Any:
    """Returns the builder of a function that keeps its name.

    A function with a pattern is built by sqlglot.
    """
    patterned = name in FUNCTIONS

    def made(args: list[Any], dialect: Any) -> Any:
        if not patterned or build is None or len(args) == 2 or name in ("TO_CHAR", "TO_VARCHAR"):
            return exp.Anonymous(this=name, expressions=args)
        return build(args, dialect=dialect) if "dialect" in build.__code__.co_varnames else build(args)

    return made


_POSTGRES = ("postgres", "redshift", "materialize", "risingwave")
_AT_MOST = {"IFNULL": 2, "NVL": 2}
"""The greatest number of arguments of functions that sqlglot reads as others with more arguments. Redshift's NVL is
COALESCE."""


@cache
def reader(dialect: str) -> Dialect:
    """Returns the tokenizer and parser of a dialect."""
    if dialect in SPARK:
        return SPARK[dialect]()
    base: Any = Dialect.get_or_raise(dialect).__class__
    kept = (*_OWN.get(dialect, ()), *(FUNCTIONS if dialect in PATTERNED else ()))
    functions = {name: build for name, build in base.Parser.FUNCTIONS.items() if name not in kept}
    functions |= {name: _as_called(name, base.Parser.FUNCTIONS.get(name)) for name in kept}
    most = {} if dialect == "redshift" else _AT_MOST
    functions = {name: complete(name, build, most.get(name)) for name, build in functions.items()}
    forms = dict(base.Parser.FUNCTION_PARSERS)
    if dialect in _POSTGRES:  # where "position"(text, part) is a function beside POSITION(part IN text)
        forms["POSITION"] = lambda parser: parser._parse_position(haystack_first=True)
    parser = type("Parser", (Noting, base.Parser), {"FUNCTIONS": functions, "FUNCTION_PARSERS": forms})
    own = {"Parser": parser, "INDEX_OFFSET": 0}  # the parser would change only some indexes
    made: Dialect = type(base)(f"Noting{base.__name__}", (base,), own)()
    return made


def first_index(dialect: str) -> int:
    """Returns the index of the first element of an array."""
    if dialect in SPARK:
        return int(dialect == "flink")
    return int(Dialect.get_or_raise(dialect).INDEX_OFFSET)


_PARTITION = "PARTITION BY"
_QUOTED = (TokenType.STRING, TokenType.RAW_STRING, TokenType.NATIONAL_STRING, TokenType.IDENTIFIER)
"""Tokens of string literals and quoted names, which are not keywords."""


_TEXT_TYPES = (TokenType.TEXT, TokenType.VARCHAR, TokenType.BPCHAR)
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
"""What begins the length of a text, or makes its type an array."""


def plain(tokens: Sequence[Any], dialect: str) -> list[Any]:
    """Returns the tokens of a text without the words that only Flink writes around arguments, and without the types
    that PostgreSQL writes after the texts of a stored view: `js ->> 'name'::text`.

    Snowflake's keywords get tokens of their own.
    """
    words = ["" if token.token_type in _QUOTED else " ".join(token.text.upper().split()) for token in tokens]
    dropped: set[int] = set()
    for i in range(len(words)):
        if words[i] == "MATCH_CONDITION":
            tokens[i].token_type = TokenType.MATCH_CONDITION if words[i + 1 : i + 2] == ["("] else TokenType.VAR
        elif words[i] == "SESSION" or (words[i] == "WINDOW" and words[i + 2 : i + 3] != ["AS"]):
            tokens[i].token_type = TokenType.VAR
    for i in range(len(words) - 3):
        if words[i : i + 2] == ["TABLE", "("] and words[i + 2] in (*CALLS, SESSION) and words[i + 3] == "(":
            dropped |= {i, i + 1, *_closing(words, i + 1), *_inside(words, i + 3)}
            for at in _partitions(words, i + 3):
                tokens[at].token_type = TokenType.COMMA
    for i in range(1, len(tokens) - 1) if dialect in _POSTGRES else ():
        literal, cast, type_, *after = tokens[i - 1 : i + 3]
        typed = literal.token_type == TokenType.STRING and cast.token_type == TokenType.DCOLON
        if typed and type_.token_type in _TEXT_TYPES and not (after and after[0].token_type in _OPENING):
            dropped |= {i, i + 1}
        elif typed and i > 1 and words[i - 2] in ("#>", "#>>"):  # '{a,b}'::text[], a path
            dropped |= {i, i + 1, i + 2, i + 3}
    return [token for i, token in enumerate(tokens) if i not in dropped]


def _closing(words: Sequence[str], start: int) -> Iterator[int]:
    """Yields the position of the parenthesis that closes the one at `start`, if there is one."""
    depth = 0
    for i in range(start, len(words)):
        depth += (words[i] == "(") - (words[i] == ")")
        if depth == 0:
            yield i
            return


def _inside(words: Sequence[str], start: int) -> Iterator[int]:
    """Yields the positions of the words to drop between the parentheses at `start`."""
    end = next(_closing(words, start), len(words))
    for i in range(start, end - 1):
        if words[i] == "TABLE" and words[i + 1] not in ("(", ","):
            yield i
        elif words[i : i + 2] == ["DESCRIPTOR", "("]:
            yield from (i, i + 1, *_closing(words, i + 1))
        elif words[i] == _PARTITION and words[i + 1] == "(":
            yield from (i + 1, *_closing(words, i + 1))


def _partitions(words: Sequence[str], start: int) -> Iterator[int]:
    """Yields the positions of PARTITION BY between the parentheses at `start`. Each one begins another argument."""
    end = next(_closing(words, start), len(words))
    return (i for i in range(start, end) if words[i] == _PARTITION)
