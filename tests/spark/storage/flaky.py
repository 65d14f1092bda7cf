"""Something between a client and a server that refuses requests, drops them, or answers too late, now and then."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LATE = 3.0


@contextmanager
def flaky_proxy(url: str, seed: int) -> Iterator[tuple[str, Counter[str]]]:
    """Yields where the server can be reached with trouble, and what has been done to requests."""
    host, rng, done = url.removeprefix("http://"), random.Random(seed), Counter[str]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Says nothing."""

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kind = rng.choice(["passed"] * 8 + ["refused", "dropped", "answer dropped", "late"])
            done[kind] += 1
            if kind == "refused":
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if kind == "dropped":
                self.close_connection = True
                return
            if kind == "late":
                time.sleep(LATE)
            server = http.client.HTTPConnection(host, timeout=30)
            server.request(self.command, self.path, body, dict(self.headers))
            found = server.getresponse()
            data = found.read()
            server.close()
            if kind == "answer dropped":
                self.close_connection = True
                return
            self.send_response(found.status)
            for name, value in found.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "server", "date"):
                    self.send_header(name, value)
            if not found.getheader("Content-Length"):
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass_on

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Says nothing: clients that hang up are what this is for."""

    proxy = Quiet(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}", done
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
