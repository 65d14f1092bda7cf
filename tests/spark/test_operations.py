"""docs/operations.md has every sentence that a job on Spark can end in, and each says what to do."""

from __future__ import annotations

import re

from spark_jobs.errors import ANEW
from tests.spark.operations import PAGE, SPARK, classes, filled, messages, sections

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_has_every_sentence_as_it_is():
    assert filled(TEXT) == TEXT, "run python -m tests.spark.operations, read the diff"


def test_every_class_that_has_sentences_has_a_section_with_its_cause_and_remedy():
    known = {name for name, rows in messages().items() if rows}
    assert known <= {*classes(), SPARK}
    assert sorted(sections(TEXT)) == sorted(known)
    for part in TEXT.split("\n## ")[1:]:
        if "<!-- end -->" in part:
            assert "*Cause.*" in part, part[:60]
            assert "*Remedy.*" in part, part[:60]


def test_a_sentence_is_one_line_that_says_what_to_do_or_what_is_wanted():
    for rows in messages().values():
        for text, place in rows:
            assert "\n" not in text, place
            assert not text.endswith("."), text
            assert len(text) > 12, text


def test_a_sentence_that_ends_a_checkpoint_says_how_to_start_again_and_what_is_read():
    said = [(text, place) for rows in messages().values() for text, place in rows]
    assert sum(ANEW in text for text, _ in said) > 40
    for text, place in said:
        assert not re.search(r"\{\w+\}", text), (place, text)
        rest = text.replace(ANEW, "")
        assert not re.search(r"new checkpoint|output and checkpoint|checkpoint and output", rest), (place, text)
