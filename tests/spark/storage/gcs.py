"""A strict server of Google Cloud Storage's XML API on loopback, of our own: no emulator that can be had honours the
precondition of a write in that API, which obstore speaks.

It serves what object stores are asked for here: writes with ``x-goog-if-generation-match``, copies, uploads in parts,
reads of ranges, listings in pages, deletes; each as Google's reference of the API describes it. What it does not know
(a query, a header of Google's) it refuses, so no precondition is passed over. Everything is in memory.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

PAGE = 7
"""Entries of a listing's page, at most; Google gives up to 1,000, or fewer as it likes."""
SMALLEST_PART = 5 << 20
_HEADERS = {"x-goog-if-generation-match", "x-goog-copy-source", "x-goog-user-project"}
_LISTING = {"list-type", "prefix", "delimiter", "continuation-token", "start-after", "max-keys", "encoding-type"}
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True)
class Object:
    """A generation of an object."""

    data: bytes
    generation: int
    written: datetime

    @property
    def etag(self) -> str:
        """Its entity tag."""
        return f'"{hashlib.md5(self.data).hexdigest()}"'


@dataclass
class Store:
    """Buckets, and uploads in parts that are under way. ``lock`` is held by every request that looks or writes."""

    buckets: dict[str, dict[str, Object]]
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    count: int = 1_700_000_000_000_000

    def write(self, bucket: str, name: str, data: bytes, condition: str | None) -> Object:
        """Writes an object, if the precondition holds."""
        with self.lock:
            there = self.buckets[bucket].get(name)
            if condition is not None and int(condition) != (there.generation if there else 0):
                raise Refusal(412, "PreconditionFailed", "At least one of the pre-conditions did not hold.")
            self.count += 1
            made = self.buckets[bucket][name] = Object(data, self.count, datetime.now(UTC))
            return made


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


class Handler(BaseHTTPRequestHandler):
    """StageReader one connection. ``store`` and ``token`` are set by ``serve``."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer is one packet, or the client waits for the second
    store: Store
    token: str

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self._dispatched(body)
        except Refusal as refusal:
            said = f"<Code>{refusal.code}</Code><Message>{escape(refusal.message)}</Message>"
            self._send(refusal.status, f"<?xml version='1.0' encoding='UTF-8'?><Error>{said}</Error>".encode())

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _answer

    def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        length = headers.pop("length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status != 204:
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _dispatched(self, body: bytes) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        bucket, _, name = unquote(parts.path.lstrip("/")).partition("/")
        if self.headers.get("Authorization", "Bearer").strip() not in ("Bearer", f"Bearer {self.token}"):
            raise Refusal(401, "AuthenticationRequired", "Authentication required.")
        for header in self.headers:
            if header.lower().startswith("x-goog-") and header.lower() not in _HEADERS:
                raise Refusal(501, "NotImplemented", f"This server does not know the header {header}.")
        if self.command in ("PUT", "POST") and self.headers.get("Content-Length") is None:
            raise Refusal(411, "MissingContentLength", "You must provide the Content-Length header.")
        if bucket not in self.store.buckets:
            raise Refusal(404, "NoSuchBucket", "The specified bucket does not exist.")
        if not name:
            self._only(query, _LISTING, "GET")
            self._list(bucket, query)
        elif self.command == "PUT" and "uploadId" in query:
            self._only(query, {"uploadId", "partNumber"})
            self._part(query, body)
        elif self.command == "PUT":
            self._only(query, set())
            self._put(bucket, name, body)
        elif self.command == "POST":
            self._only(query, {"uploads", "uploadId"})
            self._upload(bucket, name, query, body)
        elif self.command == "DELETE":
            self._only(query, {"uploadId"})
            self._delete(bucket, name, query)
        else:
            self._only(query, set(), "GET", "HEAD")
            self._get(self._there(bucket, name))

    def _only(self, query: dict[str, str], known: set[str], *methods: str) -> None:
        if methods and self.command not in methods:
            raise Refusal(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")
        if unknown := sorted(set(query) - known):
            raise Refusal(501, "NotImplemented", f"This server does not know the query {unknown[0]}.")

    def _there(self, bucket: str, name: str) -> Object:
        with self.store.lock:
            found = self.store.buckets.get(bucket, {}).get(name)
        if found is None:
            raise Refusal(404, "NoSuchKey", "The specified key does not exist.")
        return found

    def _get(self, found: Object) -> None:
        size, status, more, data = len(found.data), 200, {}, found.data
        asked = _RANGE.fullmatch(self.headers.get("Range") or "")
        if asked and any(asked.groups()):
            first = int(asked[1]) if asked[1] else max(size - int(asked[2]), 0)
            last = min(int(asked[2]), size - 1) if asked[1] and asked[2] else size - 1
            if first > last:
                raise Refusal(416, "InvalidRange", "The requested range cannot be satisfied.")
            status, data, more = 206, data[first : last + 1], {"Content_Range": f"bytes {first}-{last}/{size}"}
        self._send(
            status,
            data,
            ETag=found.etag,
            Last_Modified=format_datetime(found.written, usegmt=True),
            x_goog_generation=str(found.generation),
            **more,
        )

    def _put(self, bucket: str, name: str, body: bytes) -> None:
        if len(name.encode()) > 1024 or re.search(r"[\r\n]", name):
            raise Refusal(400, "InvalidObjectName", "The specified object name is not valid.")
        proof = self.headers.get("Content-MD5")
        if proof and proof != base64.b64encode(hashlib.md5(body).digest()).decode():
            raise Refusal(400, "BadDigest", "The Content-MD5 you specified did not match what was received.")
        source = self.headers.get("x-goog-copy-source")
        if source is not None:
            body = self._there(*unquote(source).lstrip("/").split("/", 1)).data
        made = self.store.write(bucket, name, body, self.headers.get("x-goog-if-generation-match"))
        copied = f"<CopyObjectResult><ETag>{escape(made.etag)}</ETag></CopyObjectResult>" if source else ""
        self._send(200, copied.encode(), ETag=made.etag, x_goog_generation=str(made.generation))

    def _part(self, query: dict[str, str], body: bytes) -> None:
        with self.store.lock:
            if query["uploadId"] not in self.store.uploads:
                raise Refusal(404, "NoSuchUpload", "The specified upload does not exist.")
            self.store.uploads[query["uploadId"]][int(query["partNumber"])] = body
        self._send(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')

    def _upload(self, bucket: str, name: str, query: dict[str, str], body: bytes) -> None:
        with self.store.lock:
            if "uploads" in query:
                self.store.count += 1
                self.store.uploads[str(self.store.count)] = {}
                said = f"<Bucket>{bucket}</Bucket><Key>{escape(name)}</Key><UploadId>{self.store.count}</UploadId>"
                self._send(200, f"<InitiateMultipartUploadResult>{said}</InitiateMultipartUploadResult>".encode())
                return
            parts = self.store.uploads.get(query["uploadId"])
            if parts is None:
                raise Refusal(404, "NoSuchUpload", "The specified upload does not exist.")
            wanted = [int(one.text or 0) for one in ElementTree.fromstring(body).iter() if one.tag.endswith("Number")]
            if any(number not in parts for number in wanted) or wanted != sorted(wanted):
                raise Refusal(400, "InvalidPart", "One or more of the specified parts could not be found.")
            if any(len(parts[number]) < SMALLEST_PART for number in wanted[:-1]):
                raise Refusal(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed.")
            whole = b"".join(parts[number] for number in wanted)
            made = self.store.write(bucket, name, whole, self.headers.get("x-goog-if-generation-match"))
            del self.store.uploads[query["uploadId"]]
        said = f"<Bucket>{bucket}</Bucket><Key>{escape(name)}</Key><ETag>{escape(made.etag)}</ETag>"
        done = f"<CompleteMultipartUploadResult>{said}</CompleteMultipartUploadResult>"
        self._send(200, done.encode(), x_goog_generation=str(made.generation))

    def _delete(self, bucket: str, name: str, query: dict[str, str]) -> None:
        with self.store.lock:
            if "uploadId" in query:
                self.store.uploads.pop(query["uploadId"], None)
            else:
                self._there(bucket, name)
                del self.store.buckets[bucket][name]
        self._send(204)

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = base64.b64decode(query.get("continuation-token", "")).decode() or query.get("start-after", "")
        most = min(int(query.get("max-keys", PAGE)), PAGE)
        with self.store.lock:
            names = sorted(name for name in self.store.buckets[bucket] if name.startswith(prefix) and name > after)
            entries: dict[str, str] = {}
            last = ""
            for name in names:
                head, found, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
                below = prefix + head + delimiter if found else ""
                if below and after.startswith(below):
                    continue
                if (below or name) not in entries and len(entries) == most:
                    break
                last = name
                if below:
                    entries[below] = f"<CommonPrefixes><Prefix>{escape(below)}</Prefix></CommonPrefixes>"
                    continue
                one = self.store.buckets[bucket][name]
                when = one.written.isoformat(timespec="milliseconds").replace("+00:00", "Z")
                entries[name] = (
                    f"<Contents><Key>{escape(name)}</Key><Generation>{one.generation}</Generation>"
                    f"<LastModified>{when}</LastModified><ETag>{escape(one.etag)}</ETag><Size>{len(one.data)}</Size>"
                    "</Contents>"
                )
        more = bool(names) and last < names[-1]
        token = base64.b64encode(last.encode()).decode()
        said = f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><IsTruncated>{str(more).lower()}</IsTruncated>"
        said += f"<NextContinuationToken>{token}</NextContinuationToken>" if more else ""
        said = f"<ListBucketResult>{said}{''.join(entries.values())}</ListBucketResult>"
        self._send(200, f"<?xml version='1.0' encoding='UTF-8'?>{said}".encode(), Content_Type="application/xml")


def serve(port: int, token: str, bucket: str) -> None:
    """Serves one empty bucket on loopback until the process ends.

    A request has the token, or none: so it comes from a service account with ``disable_oauth``.
    """
    answering = type("Answering", (Handler,), {"store": Store({bucket: {}}), "token": token})
    server = ThreadingHTTPServer(("127.0.0.1", port), answering)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], sys.argv[3])
