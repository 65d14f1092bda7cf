"""Random Datalog, each program with the SQL that means the same: what DuckDB makes of it is the oracle."""

from __future__ import annotations

from random import Random

TABLES: dict[str, object] = {
    "g": {"a": "int64", "b": "int64"},
    "h": {"b": "int64", "c": "int64"},
    "p": {"a": "int64"},
}
COLUMNS = {"g": ("a", "b"), "h": ("b", "c"), "p": ("a",)}
AGGREGATES = (
    *("count()", "count({})", "count(distinct {})", "sum({})", "min({})", "max({})", "avg({})", "sum({} + 1)"),
    *("min_by({0} + 1, 2 - {0})", "max_by({0}, {0})"),  # without rows with equal values, of which DuckDB takes any
)


class Rules:
    """Writes a program of one to three rules."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        width = self.random.randint(1, 3)
        pairs = [self.rule(width) for _ in range(self.random.choice((1, 1, 2, 3)))]
        self.datalog = " ".join(rule for rule, _ in pairs)
        self.sql = " UNION ".join(sql for _, sql in pairs)

    def rule(self, width: int) -> tuple[str, str]:
        """A rule whose head has `width` integers, and its SQL."""
        pick = self.random
        body, tables, where, bound = [], [], [], dict[str, str]()
        for i in range(pick.choice((1, 1, 2, 2, 3))):
            name = pick.choice(sorted(COLUMNS))
            tables.append(f"{name} t{i}")
            words = []
            for j, column in enumerate(COLUMNS[name]):
                word = "x" if i == j == 0 else pick.choice(("x", "y", "z", "y", "z", "_", "1"))
                words.append(word)
                if word == "1" or word in bound:
                    where.append(f"t{i}.{column} = {bound.get(word, word)}")
                elif word != "_":
                    bound[word] = f"t{i}.{column}"
            body.append(f"{name}({', '.join(words)})")
        for i in range(pick.choice((0, 0, 1, 1, 2))):
            name = pick.choice(sorted(COLUMNS))
            words, own, ties = [], dict[str, str](), ["TRUE"]
            for column in COLUMNS[name]:
                word = pick.choice((*bound, *bound, "_", f"e{i}", "2"))
                words.append(word)
                known = bound | own
                if word == "2" or word in known:
                    ties.append(f"n.{column} = {known.get(word, word)}")
                elif word != "_":
                    own[word] = f"n.{column}"
            body.insert(pick.randint(0, len(body)), f"{pick.choice(('not ', '!'))}{name}({', '.join(words)})")
            where.append(f"NOT EXISTS (SELECT * FROM {name} n WHERE {' AND '.join(ties)})")
        if pick.random() < 0.3:
            left, right = pick.choice(sorted(bound)), pick.choice((*sorted(bound), "2"))
            body.append(f"{left} <= {right}")
            where.append(f"{bound[left]} <= {bound.get(right, right)}")
        rows = f"FROM {', '.join(tables)} WHERE {' AND '.join(where or ['TRUE'])}"
        valuations = f"SELECT DISTINCT {', '.join(f'{column} AS {word}' for word, column in bound.items())} {rows}"
        grouped = pick.random() < 0.5
        head, keys = [], []
        for _ in range(width):
            word = pick.choice(sorted(bound))
            if grouped and pick.random() < 0.6:
                word = pick.choice(AGGREGATES).format(word)
            else:
                keys.append(word)
            head.append(word)
        shown = ", ".join(f"{w.replace('count()', 'COUNT(*)')} AS o{i}" for i, w in enumerate(head))
        sql = f"SELECT {shown} FROM ({valuations}) AS v"
        if len(keys) == width:
            sql = sql.replace("SELECT", "SELECT DISTINCT", 1)
        elif keys:
            sql += f" GROUP BY {', '.join(dict.fromkeys(keys))}"
        return f"Q({', '.join(f'{word} as o{i}' for i, word in enumerate(head))}) :- {', '.join(body)}.", sql
