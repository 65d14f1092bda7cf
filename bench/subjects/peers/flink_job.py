"""A Flink SQL job: run by a Python that has ``apache-flink``, which need not be the one that has this project.

Reads a JSON specification on standard input: ``tables`` (name -> columns and a changelog file in Debezium's JSON),
``sql``, ``settings``, ``bound_s``, ``aggregate`` (run the query as the last value of an aggregate and return it,
instead of into the blackhole sink), and ``restart`` (the job keeps checkpoints: say what the last one takes, and how
long it takes another job to run from it). Writes JSON lines like ``bench.harness.cell``. Time counts from the first
look at which the sources have emitted ``warm`` updates, the warm-up, to the end of the job or the time bound; updates
done are what the sources have emitted by then, as Flink's own metrics say.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import time
import urllib.request
from typing import Any

KINDS = {"int64": "BIGINT", "string": "STRING", "date": "DATE"}


def main() -> int:
    """Runs the job that standard input describes."""
    spec = json.load(sys.stdin)
    out, sys.stdout = sys.stdout, sys.stderr

    def say(**message: Any) -> None:
        print(json.dumps(message), file=out, flush=True)

    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    port = _free_port()
    configuration = Configuration()
    settings = {
        "rest.port": str(port),
        "rest.bind-port": str(port),
        "parallelism.default": "1",
        "taskmanager.numberOfTaskSlots": "1",
        "taskmanager.memory.managed.size": "512m",
        "table.exec.resource.default-parallelism": "1",
    }
    for key, value in {**settings, **spec["settings"]}.items():
        configuration.set_string(key, value)
    environment = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    )
    for name, table in spec["tables"].items():
        columns = ", ".join(f"{column} {KINDS[kind]}" for column, kind in table["columns"].items())
        environment.execute_sql(
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{table['path']}', "
            "'format' = 'debezium-json')"
        )
    if spec.get("aggregate"):
        last: list[Any] = []
        with environment.execute_sql(spec["sql"]).collect() as rows:
            for row in rows:
                if row.get_row_kind().name in ("INSERT", "UPDATE_AFTER"):
                    last = list(row)
        say(result={"row": [int(v) for v in last]})
        return 0
    schema = environment.sql_query(spec["sql"]).get_schema()
    names = schema.get_field_names()
    declared = ", ".join(
        f"c{i} {str(kind).split('(')[0].replace('VARCHAR', 'STRING')}"
        for i, kind in enumerate(schema.get_field_data_types())
    )
    environment.execute_sql(f"CREATE TABLE dropped ({declared}) WITH ('connector' = 'blackhole')")
    del names
    insert = f"INSERT INTO dropped {spec['sql']}"
    result = environment.execute_sql(insert)
    job = str(result.get_job_client().get_job_id())
    kept: dict[str, Any] = {}  # the last checkpoint
    started = _wait_running(port, job)
    emitted = warm = 0
    while True:
        time.sleep(0.25)
        status = _get(port, f"/jobs/{job}")
        if status is None or status["state"] in ("FINISHED", "FAILED", "CANCELED"):
            break
        emitted = max(emitted, _emitted(port, job, status))
        if spec.get("restart"):
            kept = checkpoint(_get(port, f"/jobs/{job}/checkpoints")) or kept
        say(progress=[emitted, spec["updates"]])
        if not warm and emitted >= spec["warm"]:
            started, warm = time.time(), emitted
        if time.time() - started > spec["bound_s"]:
            seconds = time.time() - started
            result.get_job_client().cancel().result()
            again = _again(environment, insert, kept)
            say(result={"state": "RUNNING", "seconds": seconds, "emitted": emitted, "warm": warm, **again})
            return 0
    if status is None:
        say(result={"state": "UNKNOWN", "seconds": time.time() - started, "emitted": emitted, "warm": warm})
        return 0
    ended = status["end-time"] / 1000 if status["end-time"] > 0 else time.time()
    again = _again(environment, insert, kept)
    seconds = ended - started
    say(result={"state": status["state"], "seconds": seconds, "emitted": spec["updates"], "warm": warm, **again})
    return 0


def checkpoint(answer: Any) -> dict[str, Any]:
    """Returns the path, the bytes and the state's bytes of the last checkpoint that Flink's answer says is complete;
    {} if there is none."""
    last = ((answer or {}).get("latest") or {}).get("completed")
    if not last or not last.get("external_path"):
        return {}
    written = last.get("checkpointed_size", last["state_size"])
    return {"path": last["external_path"], "state_bytes": last["state_size"], "checkpoint_bytes": written}


def _again(environment: Any, insert: str, kept: dict[str, Any]) -> dict[str, Any]:
    """Starts the job once more, from its last checkpoint. Returns the checkpoint's sizes and the seconds it took.

    Nothing if there was no checkpoint: a job that has finished has none that is kept.
    """
    if not kept:
        return {}
    environment.get_config().set("execution.state-recovery.path", kept["path"])
    started = time.time()
    client = environment.execute_sql(insert).get_job_client()
    while client.get_job_status().result().name not in ("RUNNING", "FINISHED", "FAILED", "CANCELED"):
        time.sleep(0.02)
    running, status = time.time() - started, client.get_job_status().result().name
    if status == "RUNNING":
        client.cancel().result()
    sizes = {name: kept[name] for name in ("state_bytes", "checkpoint_bytes")}
    return sizes if status in ("FAILED", "CANCELED") else {**sizes, "restart_s": running}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _get(port: int, path: str) -> Any:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return json.load(answer)
    except OSError:
        return None


def _wait_running(port: int, job: str) -> float:
    until = time.time() + 60
    while time.time() < until:
        status = _get(port, f"/jobs/{job}")
        if status is not None and status["state"] not in ("CREATED", "INITIALIZING"):
            return time.time()
        time.sleep(0.05)
    return time.time()


def _emitted(port: int, job: str, status: Any) -> int:
    """Records that the slowest source operator has emitted so far; a table read by two scans has two of them."""
    found = []
    for vertex in status["vertices"]:
        path = f"/jobs/{job}/vertices/{vertex['id']}/metrics"
        names = [m["id"] for m in _get(port, path) or []]
        mine = [name for name in names if re.fullmatch(r"\d+\.Source[^.]*\.numRecordsOut", name)]
        if mine:
            found.append(sum(int(m["value"]) for m in _get(port, f"{path}?get={','.join(mine)}") or []))
    return min(found, default=0)


if __name__ == "__main__":
    sys.exit(main())
