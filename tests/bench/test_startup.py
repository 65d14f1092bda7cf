"""What is measured of a fresh process."""

from __future__ import annotations

from bench.report.tables import started
from bench.subjects import startup


def test_the_memory_of_a_fresh_process_holds_its_libraries_and_its_state() -> None:
    loaded, resident, state = startup._once(startup._RESIDENT, {})
    assert 2**20 < state < resident - loaded
    assert resident < 2 * loaded + state + 2**27


def test_results_without_sizes_still_have_a_table() -> None:
    seconds = {"import_s": 0.01, "load_s": 1.0, "first_apply_s": 0.5, "first_apply_cold_s": 20.0}
    times = {"engine": "crown-startup", **seconds}
    row = started([times]).rows[0]
    assert row[:4] == ("10 ms", "1.00 s", "0.50 s", "20.0 s")
    assert set(row[4:]) == {"–"}
    assert started([times | {"resident_bytes": 220 << 20}]).rows[0][5] == "220 MiB"
