"""Views whose batches are one native call: one of each kind of program that has it, and random ones."""

from __future__ import annotations

from random import Random

from tests.engine.stopping.subjects import NEAREST, PAIR, RECURSION, Subject, Tables, mapped, memory

_C = {"columns": {"ck": "int64", "seg": "string", "name": "string"}, "key": ["ck"]}
_O = {"columns": {"ok": "int64", "ck": "int64", "day": "date", "prio": "string"}, "key": ["ok"]}
_L = {
    "columns": {
        "ok": "int64", "num": "int64", "n": "int64", "price": "decimal(12,2)", "off": "decimal(4,2)", "mode": "string",
        "sent": "date", "got": "date",
    },
    "key": ["ok", "num"],
}  # fmt: skip
_SNB = {
    "person": {"columns": {"p": "int64", "first": "string", "last": "string"}, "key": ["p"]},
    "message": {"columns": {"m": "int64", "creator": "int64"}, "key": ["m"]},
    "knows": {"columns": {"one": "int64", "two": "int64"}, "key": ["one", "two"]},
}
LINES: Tables = {"l": _L}
ORDERS: Tables = {"o": _O, "l": _L}
ALL: Tables = {"c": _C, "o": _O, "l": _L}
_JOINED = "FROM c, o, l WHERE c.ck = o.ck AND l.ok = o.ok"

Q1 = (
    "SELECT mode, off, SUM(n) AS q, SUM(price * (1 - off)) AS s, AVG(n) AS a, COUNT(*) AS c FROM l "
    "WHERE sent <= DATE '2024-01-07' GROUP BY mode, off"
)
Q3 = (
    f"SELECT l.ok, day, SUM(price * (1 - off)) AS s {_JOINED} AND seg <> 'tag 1' AND sent > DATE '2024-01-03' "
    "GROUP BY l.ok, day"
)
Q6 = "SELECT SUM(price * off) AS s FROM l WHERE off BETWEEN 0.05 AND 0.9 AND sent >= DATE '2024-01-02' AND n < 6"
Q10 = f"SELECT c.ck, name, seg, SUM(price * (1 - off)) AS s {_JOINED} AND mode <> 'tag 2' GROUP BY c.ck, name, seg"
Q12 = (
    "SELECT mode, SUM(CASE WHEN prio = 'tag 1' OR prio = 'tag 2' THEN 1 ELSE 0 END) AS high, COUNT(*) AS n FROM o, l "
    "WHERE o.ok = l.ok AND sent < got GROUP BY mode"
)
UNION = "SELECT ok, prio FROM o UNION SELECT ok, mode FROM l"
SETS = "SELECT ok, prio FROM o UNION ALL (SELECT ok, mode FROM l WHERE n < 6 EXCEPT SELECT ok, prio FROM o)"
OUTER = "SELECT prio, num, mode FROM o LEFT JOIN l ON o.ok = l.ok AND n < 6"
COUNTED = "SELECT prio, COUNT(mode) AS m, SUM(n) AS s FROM o LEFT JOIN l ON o.ok = l.ok GROUP BY prio"
Q14 = (
    "SELECT prio LIKE 'tag%' AS t, SUM(CASE WHEN mode LIKE '%1' THEN n ELSE 0 END) AS p, SUM(LENGTH(mode)) AS s "
    "FROM o, l WHERE o.ok = l.ok GROUP BY 1"
)
FIRST = "SELECT prio, mode, l.ok, num FROM o, l WHERE o.ok = l.ok ORDER BY n DESC, mode, prio, l.ok, num LIMIT 3"
LAST = "SELECT prio, mode, num, LAG(n) OVER (PARTITION BY mode ORDER BY num, o.ok, n) AS m FROM o, l WHERE o.ok = l.ok"
RUN = "SELECT ok, num, mode, SUM(n) OVER (PARTITION BY mode ORDER BY sent) AS s FROM l"
FRAMES = (
    "SELECT ok, num, mode, AVG(n) OVER (PARTITION BY mode ORDER BY sent) AS a, MAX(n) OVER (PARTITION BY mode ORDER BY "
    "sent, ok, num ROWS 2 PRECEDING) AS b FROM l"
)
SNB4 = "SELECT last, COUNT(DISTINCT m) AS n FROM person, message, knows WHERE p = creator AND two = p GROUP BY last"
SNB = "SELECT p, first, last, m, one FROM person, message, knows WHERE p = creator AND two = p"


def chain(seed: int) -> Subject:
    """Returns a random query: a join of tables with conditions, GROUP BY columns, and sums of expressions."""
    random = Random(seed)
    tables, on = random.choice(((LINES, ""), (ORDERS, "o.ok = l.ok"), (ALL, "c.ck = o.ck AND l.ok = o.ok")))
    keys = ["mode", "num", "l.ok", "YEAR(sent)", "n % 3 = 1"]
    conditions = ["n < 6", "off * 2 < 1.5", "mode <> 'tag 1'", "sent < got", "price > 0.10 OR n = 1"]
    if "o" in tables:
        keys += ["prio", "day", "o.ck"]
        conditions += ["prio <> 'tag 0'", "day > DATE '2024-01-02'"]
    if "c" in tables:
        keys += ["seg", "name"]
    sums = ["SUM(price * (1 - off))", "SUM(n * num)", "COUNT(*)", "SUM(CASE WHEN mode = 'tag 2' THEN n ELSE 1 END)"]
    chosen = random.sample(keys, random.randrange(3))
    shown = [*chosen, "SUM(n)", *random.sample(sums, random.randrange(3))]
    where = [*([on] if on else []), *random.sample([f"({one})" for one in conditions], random.randrange(3))]
    query = f"SELECT {', '.join(f'{one} AS c{i}' for i, one in enumerate(shown))} FROM {', '.join(tables)}"
    query += f" WHERE {' AND '.join(where)}" if where else ""
    query += f" GROUP BY {', '.join(str(1 + i) for i in range(len(chosen)))}" if chosen else ""
    return Subject(f"chain {seed}", query, tables, memory)


CALLS = (
    Subject("Q1", Q1, LINES, memory),
    Subject("Q3", Q3, ALL, memory),
    Subject("Q6", Q6, LINES, memory),
    Subject("Q10", Q10, ALL, memory),
    Subject("Q12", Q12, ORDERS, memory),
    Subject("SNB Q1", SNB, _SNB, memory),
    Subject("UNION", UNION, ORDERS, memory),
    Subject("a left join", OUTER, ORDERS, memory),
    Subject("groups of a left join", COUNTED, ORDERS, memory),
    Subject("Q14", Q14, ORDERS, memory),
    Subject("set operations", SETS, ORDERS, memory),
    Subject("SNB Q4", SNB4, _SNB, memory),
    Subject("first rows", FIRST, ORDERS, memory),
    Subject("the row before", LAST, ORDERS, memory),
    Subject("running sums", RUN, LINES, memory),
    Subject("frames", FRAMES, LINES, memory),
    Subject("recursion with min", NEAREST, {"G": PAIR}, memory),
    Subject("recursion", RECURSION, {"G": PAIR}, memory),
    Subject("set operations that raise", SETS, ORDERS, memory, on_missing="raise"),
    Subject("mapped UNION", UNION, ORDERS, mapped),
    Subject("Q1 that trusts", Q1, LINES, memory, on_missing="trust"),
    Subject("Q3 that raises", Q3, ALL, memory, on_missing="raise"),
    Subject("Q10 that trusts", Q10, ALL, memory, on_missing="trust"),
    Subject("Q12 that raises", Q12, ORDERS, memory, on_missing="raise"),
    Subject("SNB Q1 that raises", SNB, _SNB, memory, on_missing="raise"),
    Subject("mapped recursion", RECURSION, {"G": PAIR}, mapped),
    Subject("mapped Q3", Q3, ALL, mapped),
    Subject("mapped Q6", Q6, LINES, mapped),
    Subject("mapped SNB Q1", SNB, _SNB, mapped),
    *(chain(seed) for seed in range(5)),
)
