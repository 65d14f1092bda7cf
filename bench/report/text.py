"""Numbers and cells as text."""

from __future__ import annotations

from typing import Any


def quantity(value: float | None, digits: int = 3) -> str:
    """A number for people: 1.06 M, 554 K, 12.3; a dash for None."""
    if value is None:
        return "–"
    for unit, size in (("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if abs(value) >= size * 0.9995:
            return f"{_digits(value / size, digits)} {unit}"
    return _digits(value, digits)


def _digits(value: float, digits: int) -> str:
    if value == int(value) and abs(value) < 10**digits:
        return str(int(value))
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e" in text else text


def engine(cell: dict[str, Any]) -> str:
    """Its name as a table has room for it."""
    return str(cell["engine_title"]).replace(" (this project)", "")


def size(value: float | None) -> str:
    """Bytes for people."""
    if value is None:
        return "–"
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= factor:
            return f"{_digits(value / factor, 3)} {unit}"
    return f"{value:.0f} B"


def line_of(cell: dict[str, Any]) -> str:
    """A cell in one line of the terminal."""
    head = f"{cell['title'][:26]:26} {cell['engine_title'][:34]:34} {cell['mode']:6}"
    if "x" in cell:
        head += f" {cell['law']} {quantity(cell['x']):>7}"
    if "import_s" in cell:
        return (
            f"{head} import {1000 * cell['import_s']:.0f} ms, libraries {cell['load_s']:.2f} s, "
            f"first apply {cell['first_apply_s']:.2f} s, "
            f"with nothing compiled {cell['first_apply_cold_s']:.1f} s"
        )
    if "updates_per_s" not in cell:
        return f"{head} {cell['status']}: {cell['reason']}"
    text = f"{head} {quantity(cell['updates_per_s']):>7} updates/s"
    if cell.get("deltas_per_s"):
        text += f" {quantity(cell['deltas_per_s']):>7} deltas/s"
    if cell.get("enumerated_per_s"):
        text += f" {quantity(cell['enumerated_per_s']):>7} rows/s enumerated"
    if cell.get("bytes_per_row"):
        text += f" {cell['bytes_per_row']:4.0f} B/row"
    if cell.get("rss_peak"):
        text += f" {size(cell['rss_peak'])} RSS"
    if cell["status"] != "ok":
        text += f"  {cell['status']}: {cell['reason']}"
    return f"{text}  [{cell['check']['status']}]" if cell.get("check", {}).get("status") != "not asked for" else text
