"""`trapless sweep`: the command line."""

import argparse
import sys

from .errors import SweepError
from .progress import note

EXAMPLES = """\
A sweep is a TOML file; docs/sweeps.md explains it:

  title = "Price of a trap"
  [run]                                # options of every run
  workload = "timer"
  set.wakeups = 50
  ram = "1G"
  [axes]                               # every combination of these
  machine = ["sbi", "trapless"]
  seed = { from = 0, count = 5 }
  [one-at-a-time]                      # and each of these alone
  price.trap = [1, 20, 100]
  price.xret = ["x0.5", "x2"]

Results are kept by everything that determines them: a run is never made twice, and a sweep that was
stopped goes on where it was. Failed runs are made again.

examples:
  trapless sweep cost.toml                              on this computer
  trapless sweep cost.toml --dry-run                    which runs it has
  trapless sweep cost.toml --scheduler tcp://head:8786  on a Dask cluster
  trapless sweep cost.toml --jobqueue slurm --jobs 20   on a cluster with Slurm

exit status: 0, 1 if a run failed or the sweep could not go on, 2 after a wrong option or file, 130
after Ctrl-C."""


def parser():
    p = argparse.ArgumentParser(
        prog="trapless sweep", description="Make many runs and keep their results.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    p.add_argument("file", metavar="FILE", help="the sweep")
    p.add_argument("--dry-run", action="store_true",
                   help="list the runs and count them; make none")
    p.add_argument("--out", metavar="DIR",
                   help="where sweep.parquet, sweep.csv and sweep.html go (default: out/NAME)")
    p.add_argument("--store", metavar="DIR",
                   help="where results are kept (default: ~/.cache/trapless/sweeps)")
    p.add_argument("--jobs", "-j", type=int, metavar="N",
                   help="runs at a time, or jobs of the batch system (default: one for each "
                        "processor, as far as there is memory)")
    p.add_argument("--scheduler", metavar="ADDRESS", help="use the workers of a Dask scheduler")
    p.add_argument("--jobqueue", metavar="SYSTEM",
                   help="have slurm, pbs, lsf, sge, oar, moab or htcondor start workers; their "
                        "options are in [jobqueue]")
    p.add_argument("--program", metavar="FILE", help="trapless itself (default: this one)")
    p.add_argument("--worker-program", metavar="FILE", help="trapless on workers, if elsewhere")
    p.add_argument("--quiet", "-q", action="store_true", help="show no progress")
    return p


def main(arguments):
    """Does what the command line says; returns the exit status."""
    args = parser().parse_args(arguments)
    try:
        return sweep(args)
    except SweepError as error:
        note(f"trapless: {error}")
        return error.status
    except BrokenPipeError:
        sys.stdout = None
        return 141


def sweep(args):
    """Makes the sweep, or lists its runs."""
    from . import api  # pyarrow and Matplotlib take a second; --help need not wait for them.

    settings = api.Settings(args.program, args.worker_program, args.store,
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


def dry_run(plan, settings):
    """Lists the runs as commands, and counts them."""
    from . import page, store
    from .options import PRICE

    place = store.Store(settings.store or store.default_folder())
    there = 0
    prices = {}
    for point in plan.points:
        changed = [f"{k}={v}" for k, v in point.options.items() if k.startswith(PRICE)]
        prices.setdefault(point.key, changed)
    for key, run in plan.runs.items():
        exists = place.path(key).exists()
        there += exists
        remarks = ", ".join([*prices[key], *(["kept"] if exists else [])])
        print(page.command(run) + (f"   # {remarks}" if remarks else ""))
    sys.stdout.flush()
    note(f"{len(plan.points)} points, {len(plan.runs)} different runs: {there} kept, "
         f"{len(plan.runs) - there} to make")
    return 0
