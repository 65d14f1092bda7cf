"""``crown check``: is a saved state whole?"""

from __future__ import annotations

import argparse

import crown

HELP = "check a saved state: checksum, header, and every internal view recomputed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("state", metavar="FILE", help="what View.save or crown run --save wrote")
    parser.add_argument("--explain", action="store_true", help="print the plan, too")
    parser.add_argument("--analyze", action="store_true", help="print what each stage holds and has done, too")


def run(args: argparse.Namespace) -> int:
    """Prints what is in the file; exit code 0 if all is well, 1 if a view differs from its definition.

    SnapshotError, which the command line makes exit code 2, for a file that is absent, foreign or damaged.
    """
    view = crown.load(args.state)
    if args.explain:
        print(view.explain())
    if args.analyze:
        print(view.explain(analyze=True))
    try:
        view.check_invariants()
    except AssertionError as error:
        print(f"{args.state}: broken: {error}")
        return 1
    stats = view.stats()
    print(f"{args.state}: sound; {stats['batches']:,} batches, {view.count():,} results")
    for name, rows in stats["rows"].items():
        print(f"  {name}: {rows:,} rows")
    print(f"  {stats['live_bytes']:,} bytes in use, {stats['dictionary']:,} dictionary entries")
    return 0
