"""``crown check``: verifies a saved state."""

from __future__ import annotations

import argparse
import json
import os

import crown

HELP = "check a saved state: checksum, header, and every internal view recomputed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "state", metavar="FILE|FOLDER", help="a file of View.save or crown run --save, or a folder of crown.open"
    )
    parser.add_argument("--explain", action="store_true", help="also print the plan")
    parser.add_argument("--analyze", action="store_true", help="also print the counters of each stage")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints the contents of the file or folder. Returns exit code 0 if the state is valid, and 1 if a view differs
    from its definition. Raises SnapshotError, for which the command line returns exit code 2, if the file is missing,
    damaged or not a snapshot."""
    kept = os.path.isfile(os.path.join(args.state, "meta.json"))
    view = crown.open(None, args.state) if kept else crown.load(args.state)
    broken = ""
    try:
        view.check_invariants()
    except AssertionError as error:
        broken = str(error)
    if args.json:
        stats = {"results": view.count(), **view.stats()} if not broken else {}
        found = {"state": args.state, "sound": not broken, "broken": broken, "query": view.plan.query, **stats}
        print(json.dumps(found, default=str))
        return 1 if broken else 0
    if args.explain:
        print(view.explain())
    if args.analyze:
        print(view.explain(analyze=True))
    if broken:
        print(f"{args.state}: broken: {broken}")
        return 1
    stats = view.stats()
    print(f"{args.state}: sound; batches: {stats['batches']:,}, results: {view.count():,}")
    for name, rows in stats["rows"].items():
        print(f"  {name}: {rows:,} rows")
    print(f"  {stats['live_bytes']:,} bytes in use, {stats['dictionary']:,} dictionary entries")
    return 0
