"""Machines and workloads of the user's own in sweeps: their files travel to the runs."""

import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest
from sweep_helpers import BASE, PACKAGES, bench, cluster  # noqa: F401
from trapless.sweep import SweepError, plan, program

MINE = """
[guest]
script = "server"
[guest.files]
"/bin/server" = "build/server"
"/lib/data" = "data"
[host.files]
"/etc/mine" = "../shared/mine.conf"
"""
WORKLOADS = ["small", "users", "./mine.toml"]


def lab(bench):  # noqa: F811
    """Files as users have them: the sweep in `lab`, which is a neighbour of `shared`."""
    for folder in ("lab/build", "lab/data/empty", "shared", "config/trapless"):
        (bench.folder / folder).mkdir(parents=True)
    # Neither text nor executable by its content.
    (bench.folder / "lab/build/server").write_bytes(bytes(range(256)))
    (bench.folder / "lab/build/server").chmod(0o755)
    bench.file("one\n", "lab/data/one.txt")
    bench.file("conf\n", "shared/mine.conf")
    bench.file("[trap]\ncycles = 50\n", "shared/slow.toml")
    bench.file(MINE, "lab/mine.toml")
    bench.file(MINE.replace("[guest", "[workloads.small.guest")
               .replace("[host", "[workloads.small.host")
               .replace("../shared", str(bench.folder / "shared"))
               + "[machines.slow]\nbase = 'sstc'\ncost = '../shared/slow.toml'\n",
               "lab/trapless.toml")
    bench.file("[workloads.users.guest.files]\n'/x' = '../../shared/mine.conf'\n",
               "config/trapless/trapless.toml")
    return bench.folder / "lab"


def sweep_of(bench, *workloads):  # noqa: F811
    return bench.file(f"[run]\nmachine = 'slow'\n[axes]\nworkload = {list(workloads)}\n",
                      "lab/sweep.toml")


def content(bench, workload):  # noqa: F811
    """What the program measures of a workload's files in the user's folder."""
    spec = {"machine": "slow", "workload": workload, "settings": {}, "prices": {}}
    printed = subprocess.run(
        [bench.program, "call"], input=json.dumps({"identify": {"specs": [spec]}}), text=True,
        cwd=bench.folder, env=bench.environment, capture_output=True, check=True)
    images = json.loads(printed.stdout)["identities"][0]["images"]
    return int(hashlib.sha256(images[1].encode()).hexdigest()[:8], 16)


def check(bench):  # noqa: F811
    """What runs have read is what is in the user's folder."""
    rows = bench.table().to_pylist()
    found = {r["workload"]: r["value"] for r in rows if r["counter"] == "measurement.files"}
    assert found == {name: content(bench, name) for name in WORKLOADS}


@pytest.fixture
def here(bench, monkeypatch):  # noqa: F811
    """The lab, with the user in it."""
    folder = lab(bench)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", bench.environment["XDG_CONFIG_HOME"])
    return folder


def planned(file, bench):  # noqa: F811
    return plan.plan(file, str(bench.program))


def test_own_workloads_are_swept(bench):  # noqa: F811
    """Promise: a sweep takes machines and workloads of `trapless.toml` and of files beside it;
    what they name is the same file in the runs, be it a program, a folder, or elsewhere."""
    folder = lab(bench)
    file = sweep_of(bench, *WORKLOADS)
    bench.folder = folder
    bench.sweep(file)
    check(bench)
    assert "3 kept, 0 to make" in bench.sweep(file)
    # A workload's file is beside the sweep's, as cost models are.
    (folder / "below").mkdir()
    moved = file.rename(folder / "below/sweep.toml")
    moved.write_text(moved.read_text().replace("./mine", "../mine"))
    assert "3 kept, 0 to make" in bench.sweep(moved)


def test_own_workloads_reach_other_computers(bench, cluster):  # noqa: F811
    """Promise: workers that share no folder with the user make the same runs."""
    folder = lab(bench)
    file = sweep_of(bench, *WORKLOADS)
    bench.folder = folder
    cluster.scheduler()
    cluster.worker("one")
    cluster.worker("two")
    bench.sweep(file, "--scheduler", cluster.address)
    check(bench)
    # Nothing of them stays there.
    assert not [path for path in cluster.folder.rglob("files-*/*")]


def test_runs_need_nothing_of_the_users_folder(bench, here, tmp_path):  # noqa: F811
    """Promise: runs read what was there when the sweep was planned, also by absolute paths."""
    found = planned(sweep_of(bench, *WORKLOADS), bench)
    for name in ("lab", "shared", "config"):
        shutil.rmtree(bench.folder / name)
    place = found.own.write(str(tmp_path / "there"), {})
    for run in found.runs.values():
        [about] = program.identify(str(bench.program), [run.spec], place)
        assert about.identity == run.identity


def test_a_result_is_named_by_the_content_of_own_files(bench, here):  # noqa: F811
    """Promise: a changed file is another result; the folder of a workload's file is not."""
    def key(workload="./mine.toml"):
        return planned(sweep_of(bench, workload), bench).points[0].key

    keys = [key()]
    assert key(str(here / "mine.toml")) == key("../lab/mine.toml") == keys[0]
    (here / "data/one.txt").write_text("two\n")
    keys.append(key())
    (here / "build/server").chmod(0o644)
    keys.append(key())
    (here.parent / "shared/mine.conf").write_text("")
    keys += [key(), key("small")]
    shutil.copy("mine.toml", "other.toml")
    keys.append(key("./other.toml"))
    assert len(set(keys)) == 6


def test_what_cannot_travel_is_refused_in_planning(bench, here):  # noqa: F811
    """Promise: a file that is not there, is none, or is named so that it cannot be found
    elsewhere is a sentence before anything runs."""
    def refused(text, workload="./mine.toml"):
        (here / "mine.toml").write_text(text)
        with pytest.raises(SweepError) as error:
            planned(sweep_of(bench, workload), bench)
        return str(error.value)

    assert refused(MINE.replace("build/server", "build/sevrer")).endswith("no build/sevrer")
    os.mkfifo("pipe")
    printed = refused(MINE.replace("build/server", "pipe"))
    assert f"a sweep cannot copy {here}/pipe: it is neither a file nor a folder" in printed
    os.symlink("../shared/below", "link")
    (here.parent / "shared/below").mkdir()
    (here / "mine.conf").write_text("another\n")
    printed = refused(MINE.replace("../shared/mine.conf", "link/../mine.conf")
                   .replace('"data"', '"mine.conf"'))
    assert f"copy {here}/mine.conf: it would be two different files" in printed


def test_a_wrong_file_is_reported_by_the_program(bench, here):  # noqa: F811
    """Promise: a file that is not TOML is reported by the name that the user gave."""
    for wrong in (b"\xff", b"[guest"):
        (here / "mine.toml").write_bytes(wrong)
        with pytest.raises(SweepError, match="trapless run .*--workload=./mine.toml: "):
            planned(sweep_of(bench, "./mine.toml"), bench)


def test_a_real_sweep_of_an_own_workload(bench, tmp_path):  # noqa: F811
    """Promise: the command itself runs a workload of the user's own with its files."""
    real = PACKAGES.parent / "target/release/trapless"
    if not real.exists():
        pytest.skip("trapless is not built")
    bench.file("""
[guest]
script = 'result lines "$(talk | wc -l)"'
files = { "/bin/talk" = "talk" }
[results.lines]
explanation = "Lines"
""", "mine.toml")
    bench.file("#!/bin/sh\necho one; echo two\n", "talk")
    file = bench.file(BASE.replace("timer", "./mine.toml"))
    command = [real, "sweep", file, "--store", bench.store, "--out", bench.out]
    environment = {**bench.environment, "TRAPLESS_PYTHON": sys.executable}
    for lines, note in ((2, "0 kept, 2 to make"), (2, "2 kept, 0 to make"), (1, "0 kept, 2 to")):
        if lines == 1:
            bench.file("#!/bin/sh\necho one\n", "talk")
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=400, cwd=tmp_path)
        assert done.returncode == 0 and note in done.stderr, done.stderr
        rows = bench.table().to_pylist()
        assert [r["value"] for r in rows if r["counter"] == "measurement.lines"] == [lines] * 2
