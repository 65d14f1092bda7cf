"""What texts of JSON hold that no value of SQL is: halves of characters, and keys that become one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from plans.expressions.build import call, col, lit


@pytest.mark.parametrize(
    ("name", "said", "text", "found"),
    [
        ("from_json", "a STRING", r'{"a":"x\ud800y"}', {"a": "x?y"}),
        ("from_json", "a STRING", r'{"a":["x\ud800y", "\ud83d\ude00"]}', {"a": r'["x\uD800y","😀"]'}),
        ("from_json", "MAP<STRING,STRING>", r'{"\ud800":"a","\udc00":"b","c":null}', [("?", "b"), ("c", None)]),
        ("get_json_object", "$.a", r'{"a":"x\ud800y"}', None),
        ("get_json_object", "$.a", r'{"a":["x\udc00y"]}', r'["x\uDC00y"]'),
        ("get_json_object", "$.a", r'{"a":"\ud83d\ude00"}', "😀"),
    ],
)
def test_halves_of_characters_are_written_as_spark_writes_them(name: str, said: str, text: str, found: object) -> None:
    expr = call(name, col("s", "string"), lit(said))
    assert expr.evaluate({"s": pa.array([text, None])}).to_pylist() == [found, None]
