"""Sweeps that are stopped, that lose workers, schedulers or disk space: they continue, and the data
is the same."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
from sweep_helpers import BASE, Bench, bench, children, cluster, workers_of  # noqa: F401

RUNS = 12
TEXT = BASE.replace("[axes]", "set.burn = 60\n[axes]") + "seed = { from = 0, count = 6 }\n"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The data of the same sweep in another folder, made by one worker."""
    other = Bench(tmp_path_factory.mktemp("undisturbed"))
    other.environment.pop("FAKE_LOG")
    other.sweep(other.file(TEXT), "--jobs", "1")
    return other.data()


def gone(pids, seconds=15):
    """Whether these processes end in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            return True
        time.sleep(0.05)
    return False


def test_ctrl_c_keeps_what_is_done_and_the_sweep_continues(bench, undisturbed):  # noqa: F811
    """Promise: Ctrl-C at any moment loses nothing that is done, leaves no process, and says how to
    continue; the data is the same, byte for byte."""
    file, dice = bench.file(TEXT), random.Random(1)
    for at in (None, 0, 1, 3, 7):
        process = bench.start(file)
        if at:
            bench.wait_for_runs(bench.runs() + at // 2)
        if at is not None:
            time.sleep(dice.random() / 2)
        below = children(process.pid)
        # As a terminal does it: to the workers, too. The first time before Python has started.
        os.killpg(process.pid, signal.SIGINT)
        printed = "".join(process.communicate(timeout=30))
        assert process.returncode == 130, printed
        assert printed.count("the same command continues from there") == 1, printed
        assert "Traceback" not in printed
        assert gone(below), "processes are left"
        assert not list(bench.store.glob("*/.new-*"))
    bench.sweep(file)
    assert bench.data() == undisturbed


def test_ctrl_c_is_no_error_of_the_module_that_was_being_imported():
    """Promise: Ctrl-C ends a sweep in an orderly way also while a module in C is imported, which
    makes another exception of it."""
    code = """if True:
        import os, signal
        from trapless.sweep import __main__, needs

        def imported():
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                raise ImportError("initialization failed")

        needs.check = imported
        __main__.main()
    """
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30,
                           env=os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(__file__))})
    assert ended.returncode == 130, ended.stderr
    assert "the same command continues from there" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_workers_that_are_killed_cost_their_runs_only(bench, undisturbed):  # noqa: F811
    """Promise: Dask makes the runs of lost workers again; the user need not do anything."""
    process = bench.start(bench.file(TEXT), "--jobs", "2")
    for done in (2, 6):
        bench.wait_for_runs(done)
        victims = workers_of(process.pid)
        assert victims
        os.kill(random.Random(done).choice(victims), signal.SIGKILL)
    printed = "".join(process.communicate(timeout=120))
    assert process.returncode == 0, printed
    assert bench.data() == undisturbed


def test_a_killed_sweep_leaves_whole_results_and_no_process(bench, undisturbed):  # noqa: F811
    """Promise: after SIGKILL of the command, and of its scheduler with it, nothing runs on, and the
    next call continues."""
    file = bench.file(TEXT)
    process = bench.start(file)
    bench.wait_for_runs(5)
    below = children(process.pid)
    process.kill()
    process.communicate()
    assert gone(below), "processes are left"
    assert "kept" in bench.sweep(file)
    assert bench.data() == undisturbed


def test_a_cluster_of_two_nodes_and_a_killed_scheduler(  # noqa: F811
        bench, cluster, tmp_path, undisturbed):
    """Promise: workers that share no folder give the same data; a scheduler that dies is a clear
    sentence, and with another the sweep continues."""
    file, first = bench.file(TEXT), cluster.scheduler()
    cluster.worker("one")
    cluster.worker("two")
    process = bench.start(file, "--scheduler", cluster.address)
    bench.wait_for_runs(5)
    first.kill()
    printed = "".join(process.communicate(timeout=60))
    assert process.returncode == 1, printed
    assert "the Dask scheduler is gone" in printed and "Traceback" not in printed
    assert "of 12 runs are kept; the same command continues from there" in printed
    cluster.scheduler()
    cluster.worker("three")
    cluster.worker("four")
    bench.sweep(file, "--scheduler", cluster.address)
    assert bench.data() == undisturbed
    # A program that is not the one of the sweep is refused.
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(bench.program, other / "trapless")
    text = (other / "trapless").read_text().replace("kernel-1", "kernel-2")
    (other / "trapless").write_text(text)
    printed = bench.sweep(bench.file(TEXT.replace("60", "61")), "--scheduler", cluster.address,
                       "--worker-program", str(other / "trapless"), status=1)
    assert "is not the program of the sweep: its images is" in printed


def test_sweeps_share_a_scheduler(bench, cluster, tmp_path):  # noqa: F811
    """Promise: a sweep does not end the runs of another one."""
    cluster.scheduler()
    cluster.worker("one")
    first = bench.start(bench.file(TEXT.replace("60", "500")), "--scheduler", cluster.address)
    bench.wait_for_runs(1)
    (tmp_path / "two").mkdir()
    second = Bench(tmp_path / "two")
    second.sweep(second.file(BASE), "--scheduler", cluster.address)
    printed = "".join(first.communicate(timeout=60))
    assert first.returncode == 0, printed


def test_no_scheduler_is_a_sentence(bench):  # noqa: F811
    bench.environment["DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT"] = "1s"
    printed = bench.sweep(bench.file(TEXT), "--scheduler", "tcp://127.0.0.1:9", status=1)
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in printed


def test_a_batch_system_starts_the_workers(bench, tmp_path, undisturbed):  # noqa: F811
    """Promise: `--jobqueue slurm` has Slurm start workers, with the options of the file."""
    pytest.importorskip("dask_jobqueue")
    tools = tmp_path / "slurm"
    tools.mkdir()
    # What dask-jobqueue calls: a batch system of one computer.
    (tools / "sbatch").write_text(
        f"#!/bin/sh\ncp \"$1\" {tmp_path}/job\nsh {tmp_path}/job >{tmp_path}/job.log 2>&1 &\n"
        "echo $! >>" + f"{tmp_path}/jobs\necho Submitted batch job $!\n")
    (tools / "scancel").write_text("#!/bin/sh\nkill \"$1\"\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    bench.environment["PATH"] = f"{tools}:{bench.environment['PATH']}"
    file = bench.file(TEXT + "[jobqueue]\nqueue = 'short'\nmemory = '1GB'\n"
                             "interface = 'lo'\nwalltime = '00:10:00'\n")
    try:
        bench.sweep(file, "--jobqueue", "slurm")
    finally:
        for pid in (tmp_path / "jobs").read_text().split():
            for process in [*children(int(pid)), int(pid)]:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
    job = (tmp_path / "job").read_text()
    assert "#SBATCH -p short" in job and "00:10:00" in job
    assert bench.data() == undisturbed
    wrong = bench.file(TEXT + "[jobqueue]\nque = 'short'\n")
    printed = bench.sweep(wrong, "--jobqueue", "slurm", store=tmp_path / "else", status=2)
    assert "[jobqueue] does not suit slurm" in printed and "'que'" in printed
    printed = bench.sweep(wrong, "--jobqueue", "slrum", store=tmp_path / "else", status=2)
    assert "there is no batch system slrum" in printed


def test_a_full_disk_stops_the_sweep_and_it_continues(bench, tmp_path, undisturbed):  # noqa: F811
    """Promise: on a real full disk no incomplete file is left; with room the sweep continues."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(small)],
                             capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("this user cannot mount a small file system")
    try:
        printed = bench.sweep(bench.file(TEXT), store=small / "store", status=1)
        assert "is full; no incomplete file is left" in printed
        assert "runs are kept; the same command continues from there" in printed
        whole = list((small / "store").glob("*/*"))
        assert 0 < len(whole) < RUNS and all(p.suffix == ".result" for p in whole)
        subprocess.run(["mount", "-o", "remount,size=4m", str(small)], check=True)
        printed = bench.sweep(bench.file(TEXT), store=small / "store")
        assert f"{len(whole)} kept, {RUNS - len(whole)} to make" in printed
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert bench.data() == undisturbed
