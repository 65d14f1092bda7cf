"""A stream in pieces: nothing is lost, no row is cut, and each piece knows its first line."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from plans.files.delimited import texts
from plans.files.layout import Layout
from plans.files.unpacked import Place, pieces
from tests.marks import every

FIELDS = st.text('ab",\n ', max_size=6)


@given(
    st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=12), st.integers(1, 40), st.sampled_from(["\n", "\r\n"])
)
def test_rows_of_pieces_are_those_of_the_whole(rows: list[tuple[str, str]], size: int, end: str) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    data = "".join(f"{quoted(a)},{quoted(b)}{end}" for a, b in rows).encode()
    found = list(pieces(io.BytesIO(data), Place("r", 5), size))
    assert b"".join(piece for _, piece in found) == data
    layout = Layout(",", 0, ("a", "b"), False)
    assert [tuple(row.values()) for place, piece in found for row in texts(piece, layout, place).to_pylist()] == rows
    assert [place.first for place, _ in found] == [
        Place("r", 5).line(data, sum(len(piece) for _, piece in found[:i])) for i in range(len(found))
    ]


@every([b"", b"a", b"a\nb", b"a\r\nb\r\n", b"a\rb\r", b'"a\nb', b"\n\n"])
def test_what_has_no_end_is_a_piece_too(data: bytes) -> None:
    for size in (1, 2, 100):
        assert b"".join(piece for _, piece in pieces(io.BytesIO(data), Place("r"), size)) == data
