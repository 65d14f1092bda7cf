"""What state asks of a storage holds on local files and on stores: files appear whole, once, and are found again."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from spark_jobs.errors import FolderError
from spark_jobs.storage.address import Address, address, masked
from spark_jobs.storage.objects import Bucket, ObjectFolder
from spark_jobs.storage.opening import ensure_writable, folder_at
from tests.spark.storage.server import SECRET, options


def test_a_file_is_created_once_whoever_is_first(folder):
    assert folder.create("0.delta", b"one")
    assert not folder.create("0.delta", b"two")
    assert folder.read("0.delta") == b"one"
    won, start = Counter(), threading.Barrier(8)

    def write(number):
        start.wait()
        won[folder.create("1.delta", b"%d" % number)] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == {True: 1, False: 7}


def test_what_is_written_is_read_in_whole_and_in_parts(folder):
    data = bytes(range(256)) * 40
    folder.create("f", data)
    assert folder.read("f") == data
    assert folder.read("f", 10, 20) == data[10:20]
    assert folder.read("f", 10_000) == data[10_000:]
    assert folder.read("f", 0, 1 << 20) == data
    assert folder.tail("f", 16) == data[-16:]
    assert (folder.size("f"), folder.has("f"), folder.has("g")) == (len(data), True, False)
    folder.replace("f", b"another")
    assert folder.read("f") == b"another"


def test_large_files_go_through_this_host_and_leave_nothing_there(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spool"))
    (tmp_path / "spool").mkdir()
    data = bytes(range(256)) * (6 << 12)  # more than a part of a multipart upload
    folder.publish("7.snapshot", lambda path: path.write_bytes(data))
    with folder.local("7.snapshot") as path:
        assert path.read_bytes() == data
    assert folder.files() == {"7.snapshot": len(data)}
    assert not list((tmp_path / "spool").iterdir())


def test_a_folder_lists_its_own_files_and_folders(folder):
    assert (folder.files(), folder.folders()) == ({}, [])
    for below in ("a", "a/b", "ab"):
        (folder / below).make()
        (folder / below).create("x", b"123")
    folder.create("a.json", b"{}")
    assert folder.files() == {"a.json": 2}
    assert sorted(folder.folders()) == ["a", "ab"]
    assert (folder / "a").files() == {"x": 3}
    assert (folder / "a").folders() == ["b"]
    assert (folder / "a" / "b").parent == folder / "a"
    assert str(folder / "a" / "b") == f"{folder}/a/b"
    assert (folder / "a" / "b").at("x") == f"{folder}/a/b/x"


def test_a_listing_of_several_pages_is_whole(folder):
    names = [f"{number:04d}" for number in range(40)]
    for name in names:
        (folder / f"below {name}").make()
        (folder / f"below {name}").create("x", b"1")
        folder.create(name, name.encode())
    assert folder.files() == dict.fromkeys(names, 4)
    assert sorted(folder.folders()) == [f"below {name}" for name in names]


def test_deleting_what_is_not_there_is_no_trouble(folder):
    for name in ("a", "b", "c"):
        folder.create(name, b"1")
    folder.delete(["a", "nothing", "b"])
    folder.delete(["nothing"])
    folder.delete([])
    assert list(folder.files()) == ["c"]


def test_a_store_that_stops_at_what_is_not_there_still_deletes_the_rest(tmp_path, monkeypatch):
    obstore = pytest.importorskip("obstore")
    monkeypatch.setattr(Bucket, "store", lambda _: obstore.store.LocalStore(tmp_path))
    folder = ObjectFolder(Bucket("s3://bucket"), "x")
    for name in ("a", "b"):
        folder.create(name, b"1")
    folder.delete(["nothing", "a", "nothing else", "b"])
    folder.delete(["nothing"])
    assert folder.files() == {}


def test_no_delete_is_under_way_when_delete_returns(tmp_path, monkeypatch):
    obstore = pytest.importorskip("obstore")
    monkeypatch.setattr(Bucket, "store", lambda _: obstore.store.LocalStore(tmp_path))
    folder, real, ended = ObjectFolder(Bucket("gs://bucket"), "x"), obstore.delete, []

    def slow(store, path):
        assert isinstance(path, str), "several in one request are given up at the first that is not there"
        time.sleep(0.05 if path.endswith("there") else 0.0)
        try:
            real(store, path)
        finally:
            ended.append(path)

    monkeypatch.setattr(obstore, "delete", slow)
    names = [f"{i} {where}" for i in range(12) for where in ("not here", "there")]
    for name in names[1::2]:
        folder.create(name, b"1")
    folder.delete(names)
    assert sorted(ended) == sorted(f"x/{name}" for name in names)
    for name in names:  # what is written to the names afterwards stays
        folder.create(name, b"2")
    time.sleep(0.1)
    assert len(folder.files()) == len(names)


def test_only_what_is_surely_not_there_is_reported_as_missing(folder):
    for ask in (folder.read, folder.size, lambda name: folder.tail(name, 16)):
        with pytest.raises(FileNotFoundError):
            ask("nothing")
    gone = ObjectFolder(Bucket("s3://nowhere", {**options("http://127.0.0.1:9"), "max_retries": "0"}), "x")
    for ask in (gone.files, gone.folders, lambda: gone.read("f"), lambda: gone.has("f"), lambda: gone.create("f", b"")):
        with pytest.raises(OSError, match="error") as error:
            ask()
        assert not isinstance(error.value, FileNotFoundError)
        assert error.value.strerror
        assert "\n" not in error.value.strerror


@pytest.mark.parametrize(("store", "scheme"), [("s3", "s3"), ("gcs", "gs")])
def test_a_bucket_that_is_not_there_is_not_taken_for_an_empty_one(request, store, scheme):
    folder = folder_at(f"{scheme}://nobucket/x", "state", request.getfixturevalue(store))
    for ask in (folder.files, lambda: folder.read("f"), lambda: folder.tail("f", 16)):
        with pytest.raises(OSError, match="bucket") as error:
            ask()
        assert not isinstance(error.value, FileNotFoundError)
    with pytest.raises(FolderError, match=rf"state {scheme}://nobucket/x cannot be written \(there is no bucket"):
        ensure_writable(folder, "state")


def test_a_store_that_writes_over_what_is_there_is_refused(folder, monkeypatch):
    ensure_writable(folder, "state")
    assert folder.files() == {}
    if isinstance(folder, ObjectFolder):
        monkeypatch.setattr(ObjectFolder, "create", lambda *_: True)
        with pytest.raises(FolderError, match="overwrites an object that must be created only once"):
            ensure_writable(folder, "state")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("s3a://b/x/y/", Address("s3://b", "x/y")),
        ("S3://b/a%20b", Address("s3://b", "a b")),
        ("gs://b", Address("gs://b", "")),
        ("az://container//x", Address("az://container", "x")),
        ("abfss://c@a.dfs.core.windows.net/x", Address("abfss://c@a.dfs.core.windows.net", "x")),
        ("file:///data/a%20b", Path("/data/a b")),
        ("/data/s3a:x", Path("/data/s3a:x")),
    ],
)
def test_a_place_is_a_path_or_an_address(given, found):
    assert address(given, "state") == found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("hdfs://host/x", "do not offer"),
        ("s3a:/bucket/x", "names no bucket; write s3a://bucket"),
        ("s3:bucket", "names no bucket"),
        ("s3:///x", "names no bucket"),
        ("s3://b/../x", "not folders of a bucket"),
        ("http://host/x", "is not supported"),
        (f"s3://user:{SECRET}@bucket/x", r"state s3://\.\.\.@bucket/x: credentials"),
        (f"s3://bucket/x?secret={SECRET}", r"state s3://bucket/x\?\.\.\.: credentials"),
    ],
)
def test_any_other_place_is_refused_with_the_reason_and_without_credentials(given, said):
    with pytest.raises(FolderError, match=said) as error:
        folder_at(given, "state")
    assert SECRET not in str(error.value)


def test_credentials_are_in_no_text(s3):
    wrong = {**options("http://127.0.0.1:9"), "max_retries": "0"}
    folder = folder_at("s3://bucket/x", "state", wrong)
    with pytest.raises(FolderError) as error:
        ensure_writable(folder, "state")
    unknown = folder_at("s3://bucket/x", "state", {**wrong, "no_such_option": SECRET})
    with pytest.raises(FolderError, match="storage_options") as other:
        ensure_writable(unknown, "state")
    texts = [str(error.value), str(other.value), repr(folder), str(folder), repr(folder.bucket)]
    assert not any(SECRET in text for text in texts)
    assert masked(f"PUT http://u:{SECRET}@h/p?X-Amz-Signature={SECRET} failed") == "PUT http://...@h/p?... failed"


def test_without_the_package_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    with pytest.raises(FolderError, match=r"obstore is not installed: pip install 'crown-ivm\[spark\]'"):
        folder_at("s3://bucket/x", "state", {"aws_region": "none-yet"}).files()
