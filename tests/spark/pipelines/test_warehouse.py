"""Thirty views over twelve tables, after each round of random changes and commands. ``campaign`` has longer runs."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.spark.pipelines.warehouse import Warehouse


@pytest.mark.parametrize("rounds", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_every_table_of_a_warehouse_is_what_duckdb_says_it_is(spark, tmp_path, rounds: int) -> None:
    warehouse = Warehouse(spark, tmp_path, rounds)
    warehouse.run()
    done: Counter[str] = Counter()
    for number in range(rounds):
        warehouse.change()
        if number % 7 == 3:
            warehouse = Warehouse(spark, tmp_path, number)  # as another process has it
        done[warehouse.command()] += 1
    warehouse.run()
    assert done.total() == rounds
