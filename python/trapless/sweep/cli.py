"""`trapless sweep`: the command line."""

from __future__ import annotations

import argparse
import importlib.resources
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .errors import SweepError
from .progress import note
from .settings import Settings

if TYPE_CHECKING:
    from .plan import Plan


class Parser(argparse.ArgumentParser):
    """Shows the help that `trapless sweep --help` has without Python, too."""

    def format_help(self) -> str:
        return importlib.resources.files(__package__).joinpath("help.txt").read_text("utf-8")


def parser() -> Parser:
    """The options; help.txt explains them."""
    p = Parser(prog="trapless sweep", allow_abbrev=False)
    p.add_argument("file", metavar="FILE")
    p.add_argument("--dry-run", action="store_true")
    p.add_argument("--out", metavar="DIR")
    p.add_argument("--store", metavar="DIR")
    p.add_argument("--jobs", "-j", type=int, metavar="N")
    p.add_argument("--scheduler", metavar="ADDRESS")
    p.add_argument("--jobqueue", metavar="SYSTEM")
    p.add_argument("--program", metavar="FILE")
    p.add_argument("--worker-program", metavar="FILE")
    p.add_argument("--quiet", "-q", action="store_true")
    return p


def main(arguments: Sequence[str]) -> int:
    """Runs the command line; returns the exit status."""
    args = parser().parse_args(arguments)
    try:
        return sweep(args)
    except SweepError as error:
        note(f"trapless: {error}")
        return error.status
    except BrokenPipeError:
        sys.stdout = None
        return 141


def sweep(args: argparse.Namespace) -> int:
    """Makes the sweep, or lists its runs."""
    from . import api  # pyarrow and Matplotlib take a second; --help does not need them.

    settings = Settings(args.program, args.worker_program, args.store,
                        args.out or api.default_out(args.file), args.jobs, args.scheduler,
                        args.jobqueue, None, not args.quiet)
    plan = api.prepare(args.file, settings)
    if args.dry_run:
        return dry_run(plan, settings)
    result = api.execute(plan, settings)
    for failure in result.failures:
        reason = failure["reason"].replace("\n", "\n  ")
        note(f"Failed: {failure['command']}\n  {reason}")
    if not args.quiet:
        note(f"{result.made} runs made, {result.kept} were kept"
             + (f", {len(result.failures)} failed" if result.failures else ""))
        note(f"Page: {result.folder}/sweep.html; data: sweep.parquet and sweep.csv there")
    return 1 if result.failures else 0


def dry_run(plan: Plan, settings: Settings) -> int:
    """Lists the runs as commands that can be run as they are, and counts them."""
    from . import store
    from .options import PRICE

    place = store.Store(settings.store or store.default_folder())
    there = 0
    prices: dict[str, list[str]] = {}
    for point in plan.points:
        changed = [f"{k}={v}" for k, v in point.options.items() if k.startswith(PRICE)]
        prices.setdefault(point.key, changed)
    for key, run in plan.runs.items():
        exists = place.path(key).exists()
        there += exists
        remarks = ", ".join([*prices[key], *(["kept"] if exists else [])])
        print(run.command + (f"   # {remarks}" if remarks else ""))
    sys.stdout.flush()
    note(f"{len(plan.points)} points, {len(plan.runs)} different runs: {there} kept, "
         f"{len(plan.runs) - there} to make")
    return 0
