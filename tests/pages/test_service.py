"""The web service of docs/howto/embed.md, served on a port and used over HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pages import blocks

pytest.importorskip("fastapi", reason="the service of the page needs fastapi")
httpx = pytest.importorskip("httpx")
uvicorn = pytest.importorskip("uvicorn")


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the service, which runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    page = (blocks.ROOT / "docs" / "howto" / "embed.md").read_text()
    code = next(part["code"] for part in blocks.parts(page) if part["kind"] == "python" and "FastAPI" in part["code"])
    names: dict[str, Any] = {"__name__": "service"}
    exec(compile(code, "service.py", "exec"), names)
    server = uvicorn.Server(uvicorn.Config(names["app"], port=0, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
    assert not thread.is_alive()


def next_event(lines: Iterator[str]) -> tuple[str, Any]:
    """The next event of a stream: its name and its data."""
    name = next(line for line in lines if line.startswith("event: ")).removeprefix("event: ")
    return name, json.loads(next(lines).removeprefix("data: "))


def test_orders_change_the_totals_and_browsers_are_told(address: str) -> None:
    with httpx.Client(base_url=address, timeout=30) as client:
        assert client.post("/orders", json=[{"id": 1, "shop": "a", "amount": 5}]).status_code == 204
        assert client.get("/totals/a").json() == {"shop": "a", "total": 5}
        assert client.get("/totals/b").json() == {"shop": "b", "total": 0}
        with client.stream("GET", "/totals") as stream:
            lines = stream.iter_lines()
            assert next_event(lines) == ("result", [{"shop": "a", "total": 5}])
            client.post("/orders", json=[{"id": 2, "shop": "a", "amount": 1}, {"id": 3, "shop": "b", "amount": 2}])
            name, delta = next_event(lines)
            assert name == "delta"
            assert sorted((row["shop"], row["total"], row["_weight"]) for row in delta) == [
                ("a", 5, -1), ("a", 6, 1), ("b", 2, 1),
            ]  # fmt: skip
        refused = client.post("/orders", json=[{"id": 4, "shop": "a", "amount": "x"}])
        assert refused.status_code == 422
        assert "column 'amount': 'x' does not fit int64" in refused.json()["detail"]
        assert 'crown_batches_total{view="totals"} 2' in client.get("/metrics").text.splitlines()


def test_the_page_says_how_to_build_an_image() -> None:
    page = (blocks.ROOT / "docs" / "howto" / "embed.md").read_text()
    recipe = page.partition("FROM docker.io/")[2].partition("```")[0]
    assert "USER crown" in recipe
    assert "service:app" in recipe
