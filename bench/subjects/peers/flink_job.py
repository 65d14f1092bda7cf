"""A Flink SQL job, run by a Python that has ``apache-flink``, which need not be the one that has this project.

Reads a JSON specification on standard input: ``tables`` (name -> columns and a changelog file in Debezium's JSON),
``sql``, ``settings``, ``bound_s``, ``aggregate`` (run the query as the last value of an aggregate and return it,
instead of writing to the blackhole sink), and ``restart`` (the job writes checkpoints: report the size of the last one,
and the time until another job runs from it). Writes JSON lines like ``bench.harness.cell``. Time counts from the first
poll at which the sources have emitted ``warm`` updates, the warm-up, to the end of the job or the time bound. The
updates done are those that the sources have emitted by then, by Flink's own metrics.

Flink deletes the checkpoints of a job that has ended. So a job that is to be restarted watches its files for more and
does not end: its time ends when the sources have emitted everything, and the checkpoint is the next complete one.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import time
import urllib.request
from typing import Any

KINDS = {"int64": "BIGINT", "string": "STRING", "date": "DATE", "timestamp_ntz": "TIMESTAMP(6)"}
ENDED = ("FINISHED", "FAILED", "CANCELED")
SOURCE = re.compile(r"\d+\.Source[_: ]*(\w+?)(?:\[\d+\])?\.numRecordsOut")
"""A metric of a source operator, by its table."""


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
        **_rest(port),
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
        options = {"connector": "filesystem", "path": table["path"], "format": "debezium-json"}
        if spec.get("restart") and not spec.get("aggregate"):
            options["source.monitor-interval"] = "1 h"
        given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        environment.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({given})")
    if spec.get("aggregate"):
        last: list[Any] = []
        with environment.execute_sql(spec["sql"]).collect() as rows:
            for row in rows:
                if row.get_row_kind().name in ("INSERT", "UPDATE_AFTER"):
                    last = list(row)
        say(result={"row": [int(v) for v in last]})
        return 0
    declared = ", ".join(
        f"c{i} {str(kind).split('(')[0].replace('VARCHAR', 'STRING')}"
        for i, kind in enumerate(environment.sql_query(spec["sql"]).get_schema().get_field_data_types())
    )
    environment.execute_sql(f"CREATE TABLE dropped ({declared}) WITH ('connector' = 'blackhole')")
    insert = f"INSERT INTO dropped {spec['sql']}"
    client = environment.execute_sql(insert).get_job_client()
    job = str(client.get_job_id())
    started = _wait_running(port, job)
    emitted = warm = 0
    while True:
        time.sleep(0.25)
        status = _get(port, f"/jobs/{job}")
        if status is None or status["state"] in ENDED:
            break
        emitted = max(emitted, _emitted(port, job, status))
        say(progress=[emitted, spec["updates"]])
        if not warm and emitted >= spec["warm"]:
            started, warm = time.time(), emitted
        over = time.time() - started > spec["bound_s"]
        if over or (spec.get("restart") and emitted >= spec["updates"]):
            seconds = time.time() - started
            kept = _next_checkpoint(port, job) if spec.get("restart") else {}
            client.cancel().result()
            again = _again(environment, insert, kept)
            say(result={"state": "RUNNING", "seconds": seconds, "emitted": emitted, "warm": warm, **again})
            return 0
    if status is None:  # the cluster ended with its job
        ended, state = time.time(), "FINISHED"
        client.get_job_execution_result().result()  # raises the job's error
    else:
        ended, state = status["end-time"] / 1000 if status["end-time"] > 0 else time.time(), status["state"]
    say(result={"state": state, "seconds": ended - started, "emitted": spec["updates"], "warm": warm})
    return 0


def _next_checkpoint(port: int, job: str) -> dict[str, Any]:
    """Returns the first checkpoint of a running job that begins from now on; {} if there is none within a minute."""
    now = time.time()
    while time.time() < now + 60:
        answer = _get(port, f"/jobs/{job}/checkpoints")
        found = checkpoint(answer)
        if found and answer["latest"]["completed"]["trigger_timestamp"] >= 1000 * now:
            return found
        time.sleep(0.1)
    return {}


def checkpoint(answer: Any) -> dict[str, Any]:
    """Returns the path, the bytes and the state's bytes of the last complete checkpoint in Flink's response; {} if
    there is none.
    """
    last = ((answer or {}).get("latest") or {}).get("completed")
    if not last or not last.get("external_path"):
        return {}
    written = last.get("checkpointed_size", last["state_size"])
    return {"path": last["external_path"], "state_bytes": last["state_size"], "checkpoint_bytes": written}


def _again(environment: Any, insert: str, kept: dict[str, Any]) -> dict[str, Any]:
    """Restarts the job from its last checkpoint, in a cluster of its own. Returns the checkpoint's sizes and the
    seconds until every task had its state and ran; {} if there was no checkpoint.
    """
    if not kept:
        return {}
    sizes = {name: kept[name] for name in ("state_bytes", "checkpoint_bytes")}
    port = _free_port()
    for key, value in {**_rest(port), "execution.state-recovery.path": kept["path"]}.items():
        environment.get_config().set(key, value)
    started = time.time()
    client = environment.execute_sql(insert).get_job_client()
    while time.time() < started + 60:
        status = _get(port, f"/jobs/{client.get_job_id()}")
        if status is not None and status["state"] in ENDED:
            break
        if status is not None and all(vertex["status"] == "RUNNING" for vertex in status["vertices"]):
            running = time.time() - started
            client.cancel().result()
            return {**sizes, "restart_s": running}
        time.sleep(0.02)
    return sizes


def _rest(port: int) -> dict[str, str]:
    """Returns the settings for the REST port of a cluster."""
    return {"rest.port": str(port), "rest.bind-port": str(port)}


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
    """Returns the records that the sources of all tables have emitted so far."""
    counts: list[tuple[str, int]] = []
    for vertex in status["vertices"]:
        path = f"/jobs/{job}/vertices/{vertex['id']}/metrics"
        names = [m["id"] for m in _get(port, path) or []]
        mine = [name for name in names if SOURCE.fullmatch(name)]
        if mine:
            counts += [(m["id"], int(m["value"])) for m in _get(port, f"{path}?get={','.join(mine)}") or []]
    return records(counts)


def records(counts: list[tuple[str, int]]) -> int:
    """Returns the total records of all tables, given the counter of each source operator.

    If several scans read a table, the slowest one counts.
    """
    slowest: dict[str, int] = {}
    for name, count in counts:
        found = SOURCE.fullmatch(name)
        assert found is not None, name
        table = found.group(1)
        slowest[table] = min(count, slowest.get(table, count))
    return sum(slowest.values())


if __name__ == "__main__":
    sys.exit(main())
