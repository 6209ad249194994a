"""What a sweep makes of its runs: kept results, data, statistics."""

import contextlib
import errno
import gzip
import hashlib
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import pytest
from sweep_helpers import BASE, PACKAGES, bench  # noqa: F401
from trapless.sweep import SweepError, counters, output, store
from trapless.sweep.statistics import Interval, Sample

SEEDS = BASE + "seed = { from = 0, count = 3 }\n"


def test_intervals_leave_out_what_the_program_says():
    """Promise: a difference is shown only by intervals that do not overlap."""
    nine = Sample([9, 1, 8, 2, 7, 3, 6, 4, 5], Interval(1, 0.96))
    assert (nine.median, nine.interval) == (5, (2, 8))
    assert Sample([7], Interval(0, 0.0)).interval is None
    base, near, far = (Sample(values, Interval(0, 0.75)) for values in
                       ([100, 110, 120], [120, 130, 200], [54, 55, 56]))
    assert (near.differs(base), far.differs(base)) == (False, True)
    assert Sample([1], Interval(0, 0.0)).differs(base) is None


def test_phases_of_a_workload_are_distinguished():
    """Promise: what a workload does one after the other is counted apart, by the names it gives."""
    parts = [{"phase": "workload", "counters": {"guest_exits": 1, "harts.0.cycles.VS": 9}},
             {"phase": "timer", "counters": {"guest_exits": 4}}]
    found = counters.of_kept({"counters": parts})
    assert found.counters == {"guest_exits": 1}
    rows = list(output.rows_of(found))
    assert ("timer", "guest_exits", 4.0, None) in rows
    assert [row for row in rows if row[0] == "workload"] == rows[:len(found.counters)]


def test_a_second_call_runs_nothing_and_a_new_value_only_the_difference(bench):  # noqa: F811
    """Promise: what was run once is not run again, and the data is the same."""
    printed = bench.sweep(bench.file(SEEDS))
    assert "6 points, 6 different runs: 0 kept, 6 to make" in printed
    first, page = bench.data(), (bench.out / "sweep.html").read_bytes()
    assert bench.runs() == 6
    assert "6 kept, 0 to make" in bench.sweep(bench.file(SEEDS))
    assert bench.runs() == 6
    assert bench.data() == first and (bench.out / "sweep.html").read_bytes() == page
    printed = bench.sweep(bench.file(SEEDS.replace("count = 3", "count = 4")
                          + "[report]\ncounters = ['guest_exit']\n"))
    assert bench.runs() == 8
    assert "No run has the counter guest_exit; did you mean guest_exits" in printed
    table = bench.table().to_pylist()
    row = next(r for r in table if r["counter"] == "guest_exits")
    assert row["machine"] == "sbi" and row["seed"] == 0 and row["phase"] == "workload"
    assert {r["seed"] for r in table} == {0, 1, 2, 3}
    assert not any("host" in r["counter"] or "wall" in r["counter"] for r in table)
    listed = bench.sweep(bench.file(SEEDS), "--dry-run")
    assert listed.count("trapless run --machine=sbi --workload=timer") == 3
    assert "6 kept, 0 to make" in listed


def test_a_damaged_result_is_found_and_made_again(bench):  # noqa: F811
    """Promise: what is kept is what was written, or it is made again."""
    file = bench.file(SEEDS)
    bench.sweep(file)
    first = bench.data()
    results = sorted(bench.store.glob("*/*.result"))
    flipped = bytearray(results[0].read_bytes())
    flipped[len(flipped) // 2] ^= 1
    results[0].write_bytes(flipped)
    results[1].write_bytes(results[1].read_bytes()[:-7])
    results[2].write_bytes(results[3].read_bytes())
    assert "3 kept results are damaged and are made again" in bench.sweep(file)
    assert bench.runs() == 9 and bench.data() == first


def sealed(data):
    """Bytes with the checksum that results have."""
    return store.MAGIC + b" " + hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def strange(key):
    """What another user may leave in the place of a result, with a right checksum."""
    texts = [b"[]", b"1", b'{"key": "', b"[" * 100_000, b'{"key": "%s"}' % key,
             b'{"key": "%s", "counters": []}' % key, b'{"key": "%s", "counters": [1]}' % key,
             b'{"key": "%s", "counters": [{"phase": 1, "counters": {}}]}' % key, b"\xff",
             b"9" * 10_000,
             b"[]," * (64 << 18), b"[%s[]]" % (b"[]," * (store.MOST // 3 - 2))]
    return [b"", b"no gzip", gzip.compress(b"{}")[:-3], *map(gzip.compress, texts)]


def test_whatever_others_put_into_a_store_is_made_again(tmp_path):
    """Promise: in a shared store no user can stop, block or fill the sweeps of others:
    what is no result is made again."""
    place = store.Store(tmp_path / "store")
    path = place.path("ab1")
    path.parent.mkdir(parents=True)

    def refused():
        with pytest.raises(store.Damaged):
            content = place.get("ab1")
            assert content is not None
            counters.of_kept(content)

    for data in strange(b"ab1"):
        path.write_bytes(sealed(data))
        refused()
    with path.open("wb") as file:
        file.truncate(8 << 30)
    refused()
    path.unlink()
    for put in (os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path),
                lambda path: os.symlink(path, path)):
        put(path)
        refused()
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 512 << 10


def damage(data, dice):
    """Changes a few bytes."""
    data = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data) + 1)
        end = at + dice.randrange(20)
        data[at:end] = dice.choice([
            b"", data[at:end] * 2, dice.randbytes(2), b"null", b"[", b"{}", b"-1", b"1e999", b'"',
            b"9" * 30])
    return bytes(data)


def test_mutated_results_are_refused_or_used(tmp_path):
    """Promise: a kept result with a right checksum is used or made again, whatever is in it.

    `TRAPLESS_MUTATIONS` is how many.
    """
    found = {"guest_exits": 6, "latency.guest_timer.p50": 7.5, "harts.0.cycles.VS": 1}
    parts = [{"phase": phase, "counters": found} for phase in ("workload", "more")]
    text = json.dumps({"key": "ab1", "ledger": {"total": {}}, "counters": parts})
    place = store.Store(tmp_path / "store")
    path = place.path("ab1")
    path.parent.mkdir(parents=True)
    inputs, used, longest = int(os.environ.get("TRAPLESS_MUTATIONS", "300")), 0, 0.0
    for seed in range(inputs):
        dice = random.Random(seed)
        plain = seed % 4 != 0
        data = gzip.compress(damage(text.encode(), dice) if plain else text.encode(), 1)
        path.write_bytes(sealed(data if plain else damage(data, dice)))
        begun = time.monotonic()
        with contextlib.suppress(store.Damaged):
            counters.of_kept(place.get("ab1"))
            used += 1
        longest = max(longest, time.monotonic() - begun)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{inputs} results: {inputs - used} refused, {used} used; longest {longest * 1e3:.1f} ms; "
          f"peak {memory} KiB")
    assert 0 < used < inputs and longest < 10 and memory < 512 << 10


def test_a_sweep_is_whole_where_its_results_cannot_be_kept(bench):  # noqa: F811
    """Promise: who puts something in the place of a result costs others no more than that it is
    made again by the next call."""
    file = bench.file(SEEDS)
    bench.sweep(file)
    first, results = bench.data(), sorted(bench.store.glob("*/*.result"))
    results[0].unlink()
    results[0].mkdir()
    folder = results[1].parent
    shutil.rmtree(folder)
    private = bench.folder / "private"
    private.mkdir()
    folder.symlink_to(private)
    printed = bench.sweep(file)
    assert "are damaged" in printed and "Some results cannot be kept" in printed
    assert bench.data() == first and not list(private.iterdir())


def test_a_run_that_crashes_is_one_row_with_the_command_that_repeats_it(bench):  # noqa: F811
    """Promise: a crash costs one run, which the user can repeat."""
    file = bench.file(BASE + "[zip.end]\nset.crash = [0, 1, 0]\nset.fail = [0, 0, 1]\n"
                             "[one-at-a-time]\nprice.trap = [9]")
    printed = bench.sweep(file, status=1)
    command = "trapless run --machine=sbi --workload=timer --set crash=1 --set fail=0"
    assert f"Failed: {command}\n  ended by SIGSEGV" in printed
    assert "4 runs made, 0 were kept, 8 failed" in printed
    rows = bench.table().to_pylist()
    errors = [r["error"] for r in rows if r["counter"] is None]
    assert sorted(errors) == ["ended by SIGSEGV"] * 4 + ["the workload failed"] * 4
    page = (bench.out / "sweep.html").read_text()
    assert command in page and "8 failed" in page
    assert f"{command} --price trap=9" in page
    # Only what failed is made again.
    assert "4 kept, 8 to make" in bench.sweep(file, status=1)


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    """Promise: a full disk is a sentence, and the former state stays."""
    place = store.Store(tmp_path / "store")
    place.prepare()
    place.put("ab1", store.pack({"key": "ab1", "n": 1}))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SweepError, match="is full; no incomplete file is left"):
        place.put("ab1", store.pack({"key": "ab1", "n": 2}))
    monkeypatch.undo()
    assert place.get("ab1")["n"] == 1
    assert [path.name for path in (tmp_path / "store").glob("*/*")] == ["ab1.result"]


def as_others(folder, key, mask):
    """Keeps a result as another user who is in the group of the store, with an umask. Whether it
    can be written and read."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(Exception):
            os.umask(mask)
            os.setgroups([folder.stat().st_gid])
            os.setgid(65534)
            os.setuid(65534)
            place = store.Store(folder)
            place.prepare()
            place.put(key, store.pack({"key": key}))
            os._exit(0 if place.get(key) and place.get("ab1") else 2)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("mode", [0o2775, 0o777, 0o1777])
def test_people_share_a_store(mode):
    """Promise: a store that several people can write works for them, whatever their umask: they
    add results beside those of others, and read all."""
    with tempfile.TemporaryDirectory() as parent:
        os.chmod(parent, 0o755)
        folder = Path(parent, "store")
        folder.mkdir()
        if os.geteuid() == 0:
            os.chown(folder, -1, 4711)
        os.chmod(folder, mode)
        before = os.umask(0o077)
        try:
            place = store.Store(folder)
            place.prepare()
            place.put("ab1", store.pack({"key": "ab1"}))
            (folder / "cd").mkdir()
            Path(parent, "private").mkdir(0o700)
            (folder / "ee").symlink_to(Path(parent, "private"))
        finally:
            os.umask(before)
        below = (folder / "ab").stat()
        assert (below.st_mode & 0o7777, below.st_gid) == (mode, folder.stat().st_gid)
        assert place.path("ab1").stat().st_mode & 0o777 == 0o644
        # One that was made before the store was shared; its owner's next sweep shares it, too.
        place.prepare()
        assert Path(parent, "private").stat().st_mode & 0o777 == 0o700
        (folder / "ee").unlink()
        if os.geteuid() != 0:
            pytest.skip("only root can be another user")
        for key in ("ab2", "cd1", "ef1"):
            assert as_others(folder, key, 0o077)
        # In a sticky folder other users' files cannot be replaced; it is the same result.
        assert as_others(folder, "ab1", 0o022)
        place.path("ab1").write_bytes(b"damaged")
        assert as_others(folder, "ab1", 0o022) == (mode != 0o1777)
        place.put("ef2", store.pack({"key": "ef2"}))
        assert place.get("ef1") and sorted(p.name for p in folder.iterdir()) == ["ab", "cd", "ef"]


def test_leftovers_of_other_computers_are_not_judged_by_this_ones_processes(tmp_path):
    """Promise: a sweep leaves alone what another computer is writing to a shared store; what
    is no longer written is removed."""
    place = store.Store(tmp_path / "store")
    below = place.folder / "ab"
    below.mkdir(parents=True)
    ended = subprocess.Popen(["true"])
    ended.wait()
    there = "0123456789ab"
    left = {}
    for name, age, stays in [
            (f"{store.computer()}-{os.getpid()}-a", 0, True),
            (f"{store.computer()}-{ended.pid}-b", 0, False),
            (f"{there}-{ended.pid}-c", 0, True),
            (f"{there}-{os.getpid()}-d", 90_000, False),
            (f"{os.getpid()}-e", 0, True),
            (f"{store.computer()}-{os.getpid()}-f", 90_000, False)]:
        for path in (below / f".new-{name}", place.folder / f".new-{name}"):
            path.write_bytes(b"half") if path.parent == below else path.mkdir()
            os.utime(path, (time.time() - age,) * 2)
            left[path] = stays
    place.prepare()
    assert {path: path.exists() for path in left} == left


def test_temporary_names_tell_the_computer(tmp_path, monkeypatch):
    """Promise: temporary files of other computers can be distinguished."""
    seen = []
    monkeypatch.setattr(os, "replace", lambda old, new: seen.append(Path(old).name))
    store.write_file(tmp_path / "x", b"")
    assert seen[0].startswith(f".new-{store.computer()}-{os.getpid()}-")


def test_the_page_needs_nothing_and_says_what_depends_on_prices(bench):  # noqa: F811
    """Promise: one file without scripts and network; what depends on prices and what does not."""
    bench.sweep(bench.file(SEEDS + "[one-at-a-time]\nprice.trap = [50]\nprice.csr = [9]"))
    page = (bench.out / "sweep.html").read_text()
    assert "<script" not in page and "http://" not in page.replace("http://www.w3.org", "")
    assert "default-src 'none'" in page and "prefers-color-scheme: dark" in page
    assert "2 prices were changed, each alone" in page
    assert "Nothing changes in: Exits per interrupt;" in page
    shown = page.split("Depends on prices (")[1].split("</table>")[0]
    assert "<th>cycles</th>" in shown and "guest_exits" not in shown
    same = page.split("Does not depend on prices (")[1].split("</details>")[0]
    assert "<code>guest_exits</code>" in same and "<code>cycles</code>" not in same


def test_a_dry_run_lists_commands_and_runs_nothing(bench):  # noqa: F811
    """Promise: each line is the whole command that makes a run, with its prices."""
    file = bench.file(SEEDS + "[one-at-a-time]\nprice.trap = [50]")
    printed = bench.sweep(file, "--dry-run")
    lines = [line for line in printed.splitlines() if line.startswith("trapless run")]
    assert len(lines) == 12 and bench.runs() == 0
    assert len(set(lines)) == 12 and not bench.out.exists()
    assert sum("--price trap=50" in line.split("   #")[0] for line in lines) == 6


def test_the_page_says_in_sentences_what_came_out(bench):  # noqa: F811
    """Promise: each figure has a judgement of its own, and chance shows none."""
    bench.sweep(bench.file(SEEDS + "[one-at-a-time]\nprice.trap = [500]"))
    page = (bench.out / "sweep.html").read_text().replace("\u00a0", " ")
    found = page.split('class="found"')[1].split("</section>")[0]
    assert re.search(r"Exits per interrupt, compared with sbi: −\d+ % on trapless\.", found), found
    assert "No dependence on prices is shown of: Exits per interrupt;" in found
    assert re.search(r"Cycles per unit of work, by prices: \+\d+ % to \+\d+ %\.", found), found
    assert "The price of trap was changed." in page
    alone = SEEDS.replace("count = 3", "count = 1")
    bench.sweep(bench.file(alone))
    page = (bench.out / "sweep.html").read_text()
    assert "one run, so a difference may be chance, on trapless" in page and "−" not in page


def test_what_sweeps_need_is_named_once():
    """Promise: what is missing is named with what to install; the wheel's extra is the same."""
    from trapless.sweep import cli, needs

    project = tomllib.loads((PACKAGES / "pyproject.toml").read_text())
    extra = project["project"]["optional-dependencies"]["sweep"]
    assert [re.match(r"[\w-]+", name)[0] for name in extra] == needs.packages()
    shown = cli.parser().format_help()
    for action in cli.parser()._actions:
        assert all(f"{option}" in shown for option in action.option_strings), action
    assert all(name in shown for name in needs.packages())
    assert max(map(len, shown.splitlines())) <= 100
    # Without any of them, the function and the command say so.
    bare = [sys.executable, "-S", "-m", "trapless.sweep", "--help"]
    done = subprocess.run(bare, env={"PYTHONPATH": str(PACKAGES)}, capture_output=True, text=True)
    assert done.returncode == 2 and "-m pip install distributed jinja2" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_makes_sweeps(bench):  # noqa: F811
    """Promise: `sweep.run(...)` gives the table in a program."""
    script = bench.file(f"""
from trapless import sweep
if __name__ == "__main__":
    result = sweep.run(
        {{"run": {{"workload": "timer", "machine": "sbi"}}, "axes": {{"seed": [1, 2]}}}},
        program={str(bench.program)!r}, store={str(bench.store)!r})
    exits = [row for row in result.table.to_pylist() if row["counter"] == "guest_exits"]
    print(len(exits), result.made, result.failures, result.folder)
""", "script.py")
    done = subprocess.run([sys.executable, script], env=bench.environment, capture_output=True,
                          text=True, timeout=60)
    assert done.stdout == "2 2 [] None\n", done.stderr


def test_a_real_sweep(bench, tmp_path):  # noqa: F811
    """Promise: a sweep of two machines and two seeds is made and kept, by the command itself; a
    machine of the user's own, with its cost model, comes along."""
    import sys

    real = PACKAGES.parent / "target/release/trapless"
    if not real.exists():
        pytest.skip("trapless is not built")
    file = bench.file("""
[run]
workload = "timer"
set.wakeups = 5
ram = "1G"
[axes]
machine = ["sbi", "mine"]
seed = [0, 1]
""")
    bench.file("[machines.mine]\nbase = 'sstc'\ncost = 'mine.toml'\n", "trapless.toml")
    bench.file("[trap]\ncycles = 50\n", "mine.toml")
    command = [real, "sweep", file, "--store", bench.store, "--out", bench.out]
    environment = {**bench.environment, "TRAPLESS_PYTHON": sys.executable}
    for expected in ("0 kept, 4 to make", "4 kept, 0 to make"):
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=400, cwd=tmp_path)
        assert done.returncode == 0 and expected in done.stderr, done.stderr
    rows = bench.table().to_pylist()
    wakeups = {r["value"] for r in rows if r["counter"] == "measurement.wakeups"}
    exits = {(r["machine"], r["value"]) for r in rows if r["counter"] == "exits.timer_set.exits"}
    assert wakeups == {5.0}
    assert {machine for machine, value in exits if value} == {"sbi"}
