"""Infers undeclared relations of Datalog queries and motifs from the query.

A Datalog atom has its columns by position, so their number is known. They are named as the variables of the atom if
these are all different, and have the type int64 unless a schema says otherwise. The edges of a motif are `edges(src,
dst)`, int64. The columns of SQL relations cannot be inferred.
"""

from __future__ import annotations

from plans.frontends.datalog.tokens import Tokens
from plans.frontends.datalog.tokens import looks_like as are_rules
from plans.frontends.motif import patterns
from plans.schema import Column, Schema, Table
from plans.types import why_untyped

TYPE = "int64"


def completed(query: str, schema: Schema) -> Schema:
    """Returns the schema with the missing relations of a Datalog text or motif.

    Raises PlanError if the text is not valid Datalog.
    """
    if are_rules(query):
        return Schema((*schema.values(), *_of_rules(query, schema)))
    if patterns.looks_like(query) and not len(schema):
        return Schema((Table("edges", (Column("src", TYPE), Column("dst", TYPE))),))
    return schema


def _of_rules(query: str, schema: Schema) -> list[Table]:
    words = Tokens(query)
    found: dict[str, Table] = {}
    head = True
    while words.here.kind != "end":
        if words.take(":-"):
            head = False
        elif words.take("."):
            head = True
        elif not head and words.is_atom(words.index) and words.here.text.lower() not in ("not", "and", "or"):
            name, arguments = words.name("a relation").text, _arguments(words)
            if name not in schema and name.lower() not in found:
                found[name.lower()] = Table(name, tuple(Column(column, TYPE) for column in _columns(arguments)))
        else:
            words.index += 1
    return list(found.values())


def _arguments(words: Tokens) -> list[str]:
    """Returns the text of each argument of the atom whose parenthesis is the current token."""
    words.want("(")
    found = []
    while words.here.kind != "end" and not words.take(")"):
        start = words.skip()
        found.append(words.text[words.tokens[start].start : words.tokens[words.index - 1].end])
        words.take(",", ".")
    return found


def _columns(arguments: list[str]) -> list[str]:
    plain = all(argument.isidentifier() and argument.strip("_") for argument in arguments)
    if plain and len({argument.lower() for argument in arguments}) == len(arguments):
        return arguments
    return [f"c{i}" for i in range(1, len(arguments) + 1)]


def declaration(table: Table) -> str:
    """Returns a table in the syntax of `--schema`, without the columns that have no type."""
    typed = (column for column in table.columns if why_untyped(column.type) is None)
    return f"{table.name}({', '.join(f'{column.name} {column.type}' for column in typed)})"
