"""docs/pictures: ``python -m tests.pages.pictures`` draws them: plans as EXPLAIN does, others by the lines below.

Every picture is light or dark as the reader's system is, like those of EXPLAIN.
"""

from __future__ import annotations

from html import escape

import crown
from tests.pages import blocks

FOLDER = blocks.ROOT / "docs" / "pictures"
_STYLE = (
    "svg.page{--ink:#0f172a;--dim:#5b6b80;--line:#94a3b8;--box:#f8fafc;--blue:#2563eb;--blue-box:#eff6ff;"
    "--green:#166534;--green-box:#dcfce7;--red:#9a3412;--red-box:#ffedd5}"
    "@media (prefers-color-scheme:dark){"
    "svg.page{--ink:#f1f5f9;--dim:#a3b1c4;--line:#64748b;--box:#1e293b;--blue:#60a5fa;"
    "--blue-box:#172554;--green:#86efac;--green-box:#14532d;--red:#fdba74;--red-box:#431407}}"
    "svg.page text{font:13px ui-sans-serif,system-ui,sans-serif;fill:var(--ink);text-anchor:middle}"
    "svg.page .code{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12px}"
    "svg.page .dim{fill:var(--dim);font-size:12px}svg.page .title{font-weight:600}"
    "svg.page rect{fill:var(--box);stroke:var(--line);stroke-width:1.5}"
    "svg.page .blue{fill:var(--blue-box);stroke:var(--blue)}svg.page .green{fill:var(--green-box);stroke:var(--green)}"
    "svg.page .red{fill:var(--red-box);stroke:var(--red)}svg.page .dashed{stroke-dasharray:5 3}"
    "svg.page text.green{fill:var(--green);stroke:none}svg.page text.red{fill:var(--red);stroke:none}"
    "svg.page path{fill:none;stroke:var(--line);stroke-width:1.8}svg.page path.blue{fill:none;stroke:var(--blue)}"
    "svg.page .tip{fill:var(--line);stroke:none}"
)

_TRIANGLES = "g(a, b), g(b, c), g(c, a), g(d, e), g(e, f), g(f, d)"


class Drawing:
    """A picture that grows shape by shape; positions are pixels from the upper left corner."""

    def __init__(self, width: int, height: int, label: str) -> None:
        self._head = (
            f'<svg class="page" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="{escape(label)}"><style>{_STYLE}</style>'
        )
        self._shapes: list[str] = []

    def box(self, x: int, y: int, width: int, height: int, kind: str = "") -> None:
        """Adds a box."""
        self._shapes.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>')

    def text(self, x: int, y: int, text: str, kind: str = "") -> None:
        """Adds a line of text around x."""
        self._shapes.append(f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>')

    def card(self, x: int, y: int, width: int, lines: list[str], kind: str = "") -> None:
        """Adds a box with a title and lines of code below it."""
        self.box(x, y, width, 30 + 18 * (len(lines) - 1), kind)
        self.text(x + width // 2, y + 20, lines[0], "title")
        for i, line in enumerate(lines[1:]):
            self.text(x + width // 2, y + 39 + 18 * i, line, "code")

    def arrow(self, *points: tuple[int, int], tip: bool = True, kind: str = "") -> None:
        """Adds a line through points, with a tip at its end."""
        self._shapes.append(f'<path class="{kind}" d="M' + " L".join(f"{x},{y}" for x, y in points) + '"/>')
        if tip:
            (x0, y0), (x, y) = points[-2:]
            if abs(x - x0) >= abs(y - y0):
                d = 8 if x > x0 else -8
                corners = f"{x},{y} {x - d},{y - 4} {x - d},{y + 4}"
            else:
                d = 8 if y > y0 else -8
                corners = f"{x},{y} {x - 4},{y - d} {x + 4},{y - d}"
            self._shapes.append(f'<polygon class="tip" points="{corners}"/>')

    def svg(self) -> str:
        """The picture as a file."""
        return self._head + "".join(self._shapes) + "</svg>\n"


def overview() -> str:
    """What goes in and what comes out."""
    d = Drawing(760, 210, "batches of changes go into a view, exact changes of the result come out")
    d.card(10, 30, 190, ["a batch of changes", "+1 (Cy, Ann)", "−1 (Dee, Eve)"], "blue")
    d.arrow((200, 70), (270, 70))
    d.box(272, 14, 216, 182)
    d.text(380, 38, "view", "title")
    d.text(380, 62, "the tables", "code")
    d.text(380, 82, "and projections of them", "code")
    d.text(380, 122, "linear in the tables,", "dim")
    d.text(380, 140, "however large the result", "dim")
    d.text(380, 172, "no join is stored", "green")
    d.arrow((488, 55), (558, 55))
    d.card(560, 16, 190, ["the exact change", "+1 (Ann, Bob, Cy)"], "green")
    d.text(523, 45, "delta", "dim")
    d.arrow((488, 155), (558, 155))
    d.card(560, 118, 190, ["the whole result", "whenever you ask,", "row after row"])
    return d.svg()


def views_of_a_tree() -> str:
    """The rows of three tables and what each node's views hold."""
    d = Drawing(720, 330, "a join tree of three tables, with the S-view of each node and the P-view of each edge")
    d.card(255, 14, 210, ["r2(b, c)", "(2, 3)   live", "(2, 4)   waits for c = 4"], "blue")
    d.card(20, 190, 210, ["r1(a, b)", "(1, 2)   live", "(5, 2)   live"], "blue")
    d.card(490, 190, 210, ["r3(c, d)", "(3, 7)   live", "(9, 9)   no partner"], "blue")
    d.arrow((125, 190), (125, 140), (300, 140), (300, 80))
    d.arrow((595, 190), (595, 140), (420, 140), (420, 80))
    d.text(110, 130, "keys b = {2}", "code")
    d.text(610, 130, "keys c = {3, 9}", "code")
    d.text(125, 275, "its key 2 is in V_p", "dim")
    d.text(595, 275, "its keys 3 and 9 are in V_p", "dim")
    d.text(
        360,
        312,
        "Only keys travel up. Results: (1,2,3,7) and (5,2,3,7), found by walking down from (2, 3).",
        "dim",
    )
    return d.svg()


def free_connex() -> str:
    """The output columns form the top of one tree and not of another."""
    d = Drawing(720, 262, "a tree whose output columns are on top, and one where a bound column stands between them")
    d.text(175, 22, "SELECT DISTINCT a, b: free-connex", "title")
    d.card(80, 40, 190, ["r1(a, b)", "the output"], "blue")
    d.card(80, 150, 190, ["r2(b, c)", "only asked: any partner?"])
    d.arrow((175, 150), (175, 90))
    d.text(175, 232, "Enumerating reads the top alone.", "dim")
    d.text(545, 22, "SELECT DISTINCT a, c: not free-connex", "title")
    d.card(370, 150, 150, ["r1(a, b)", "output a"], "blue")
    d.card(560, 150, 150, ["r2(b, c)", "output c"], "blue")
    d.card(470, 40, 150, ["b", "not in the output"], "red dashed")
    d.arrow((445, 150), (445, 115), (520, 115), (520, 90))
    d.arrow((635, 150), (635, 115), (570, 115), (570, 90))
    d.text(545, 232, "b is enumerated, too, and rows are counted.", "dim")
    return d.svg()


def payloads() -> str:
    """Counts and sums travel up a tree; joined rows are never formed."""
    d = Drawing(720, 160, "counts and sums per key travel up the tree to the groups")
    d.card(5, 20, 160, ["sales(shop, amount)", "(1, 10)", "(1, 20)", "(2, 5)"], "blue")
    d.card(195, 20, 160, ["payload per shop", "1: count 2, sum 30", "2: count 1, sum 5"], "green")
    d.card(385, 20, 140, ["shops(id, city)", "(1, Porto)", "(2, Gent)"], "blue")
    d.card(555, 20, 160, ["groups", "Porto: 2, 30", "Gent: 1, 5"], "green")
    for x in (165, 355, 525):
        d.arrow((x, 55), (x + 28, 55))
    d.text(360, 140, "A new sale changes one payload and one group, whatever the number of joined rows.", "dim")
    return d.svg()


def enclosure() -> str:
    """A row that stays while rows around it are inserted and deleted."""
    d = Drawing(720, 190, "a row stays while the row below it is inserted and deleted")
    for y, name in ((50, "row above"), (110, "row below")):
        d.text(70, y + 5, name)
        d.arrow((130, y), (700, y), tip=False)
    d.box(150, 36, 530, 28, "blue")
    d.text(415, 55, "stays all the time", "code")
    for x in (170, 340, 510):
        d.box(x, 96, 120, 28, "green")
    d.text(230, 115, "1st", "code")
    d.text(400, 115, "2nd", "code")
    d.text(570, 115, "3rd stay", "code")
    d.text(415, 158, "The row below comes three times while the row above stays: three enclosures.", "dim")
    d.text(415, 178, "In a sliding window what came first leaves first, so there is at most one: λ = 1.", "dim")
    return d.svg()


def heavy_and_light() -> str:
    """The values of a relation by their degree."""
    d = Drawing(720, 220, "values with many partners are heavy, others light; each has its own strategy")
    d.card(20, 30, 310, ["light value: at most √N partners", "walk its list: at most √N steps"], "green")
    d.card(20, 120, 310, ["heavy value: more than √N partners", "there are at most √N of them"], "red")
    d.arrow((330, 54), (398, 54))
    d.arrow((330, 144), (398, 144))
    d.card(400, 30, 300, ["a change of a triangle's edge", "is answered by a short list"])
    d.card(400, 120, 300, ["both ends heavy", "the number of common partners", "is kept, and looked up"])
    d.text(360, 212, "Either way an update costs O(√N) amortized.", "dim")
    return d.svg()


def layers() -> str:
    """The packages and the way of data between them."""
    d = Drawing(720, 380, "query to plan to engine, alone or in cells on Spark")
    d.card(20, 20, 200, ["your query", "SQL, Datalog, a motif"], "blue")
    d.arrow((220, 45), (268, 45))
    d.card(270, 20, 430, ["plans: from text to a plan", "parse → lower → classify → search → plan or program"])
    d.arrow((485, 68), (485, 108))
    d.card(20, 110, 200, ["your changes", "frames, rows, files"], "blue")
    d.arrow((220, 145), (268, 145))
    d.card(270, 110, 430, ["crown: the engine", "check → code → net → kernels over one arena → decode"])
    d.arrow((365, 176), (365, 208))
    d.arrow((395, 208), (395, 176))
    d.text(555, 196, "changes of a cycle in, changes of the bag out", "dim")
    d.card(270, 210, 200, ["ivm_triangle: IVM^ε", "a bag, or alone"])
    d.arrow((240, 158), (240, 300), (268, 300))
    d.card(
        270,
        278,
        430,
        ["spark_jobs: the same engine per cell", "check → copy to cells → log → apply; exactly once"],
    )
    d.arrow((485, 326), (485, 346))
    d.text(485, 366, "bench: this engine, other algorithms, other systems side by side", "dim")
    return d.svg()


def _plan(query: str, **tables: object) -> str:
    return crown.view(query, tables).explain(format="svg") + "\n"


def drawn() -> dict[str, str]:
    """Every picture by its name."""
    edges = {"a": "int64", "b": "int64"}
    return {
        "overview": overview(),
        "views_of_a_tree": views_of_a_tree(),
        "free_connex": free_connex(),
        "payloads": payloads(),
        "enclosure": enclosure(),
        "heavy_and_light": heavy_and_light(),
        "layers": layers(),
        "three_hops": _plan("Q(a, b, c, d) :- g(a, b), g(b, c), g(c, d).", g=edges),
        "dumbbell": _plan(f"Q(a, b, c, d, e, f) :- g(a, d), {_TRIANGLES}.", g=edges),
        "program": _plan(
            "SELECT c.region, COUNT(*) AS n FROM customers c LEFT JOIN orders o ON o.customer = c.id GROUP BY c.region",
            customers={"columns": {"id": "int64", "region": "string"}, "key": ["id"]},
            orders={"id": "int64", "customer": "int64"},
        ),
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, picture in drawn().items():
        (FOLDER / f"{name}.svg").write_text(picture)
