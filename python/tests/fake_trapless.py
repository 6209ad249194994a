#!/usr/bin/env -S python3 -SE
"""Stands for `trapless` in tests of sweeps: writes ledgers whose counters follow from the options.

`--set burn=MS` takes so long, `crash=1` ends by SIGSEGV, `fail=1` with a sentence. FAKE_LOG is a
file to which each run appends a line. It finds the files of the user's own machines and workloads
as `trapless` does, and measures them.
"""

import hashlib
import json
import os
import signal
import sys
import time
import tomllib
from pathlib import Path

PRICES = {"simple": 1, "trap": 5, "xret": 5, "csr": 3, "device": 40}


def options(words):
    found, settings = {}, {}
    words = iter(words)
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if name == "identity":
            found[name] = True
            continue
        value = value if equals else next(words)
        if name == "set":
            key, _, value = value.partition("=")
            settings[key] = value
        else:
            found[name] = value
    return found, settings


def prices(file):
    result, current = dict(PRICES), None
    for line in open(file) if file else ():
        if line.startswith("["):
            current = line.strip("[]\n")
        elif line.startswith("cycles"):
            result[current] = int(line.split("=")[1].split("#")[0])
    return result


def digest(path):
    """Names a file or folder as the guest would see it."""
    if path.is_dir():
        return [(below.name, digest(below)) for below in sorted(path.iterdir())]
    if not path.is_file():
        sys.exit(f"trapless: there is no {path}")
    return hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mode & 0o100


def own(found):
    """What the user's own files say of a workload. All that are named are to be there."""
    workloads = {}
    for file in (Path(os.environ["XDG_CONFIG_HOME"], "trapless/trapless.toml"),
                 Path("trapless.toml")):
        if file.exists():
            described = tomllib.loads(file.read_text())
            for machine in described.get("machines", {}).values():
                digest(file.parent / machine["cost"])
            workloads |= {name: (file, w) for name, w in described.get("workloads", {}).items()}
    name = found["workload"]
    if "/" in name or name.endswith(".toml"):
        workloads[name] = Path(name), tomllib.loads(Path(name).read_text())
    named = {}
    for each, (file, workload) in workloads.items():
        files = [*workload["guest"]["files"].items(),
                 *workload.get("host", {}).get("files", {}).items()]
        named[each] = [(place, digest(file.parent / path)) for place, path in files]
    return json.dumps(named[name], sort_keys=True) if name in named else ""


def identity(found, settings):
    content = own(found)
    return {
        "program": "trapless 9", "revision": os.environ.get("FAKE_REVISION", "abc"),
        "images": ["kernel-1/kernel", *([content] if content else [])],
        "command_line": json.dumps(settings, sort_keys=True),
        "machine": {"name": found["machine"], "configuration": {"harts": "1", "seed": "0"},
                    "prices": prices(found.get("cost"))},
    }


def burn(milliseconds):
    end = time.process_time() + milliseconds / 1000
    while time.process_time() < end:
        pass


def files(found):
    """A number that follows from the content of a workload's files."""
    return int(hashlib.sha256(own(found).encode()).hexdigest()[:8], 16)


def ledger(found, settings):
    seed, model = int(found.get("seed", 0)), prices(found.get("cost"))
    text = json.dumps([found["machine"], found["workload"], settings], sort_keys=True)
    noise = int(hashlib.sha256(f"{text} {seed}".encode()).hexdigest()[:4], 16) % 5
    exits = {"sbi": 200, "sstc": 120, "trapless": 40}.get(found["machine"], 100) + noise
    section = {
        "guest_exits": exits, "guest_entries": exits, "cycles": 1000 * exits + 50 * model["trap"],
        "firmware": {"total": 3 * exits, "charged_to_exits": exits, "direct": {}},
        "exits": {"wfi": {"exits": exits, "cycles": {"HS": 9 * exits}}},
        "interrupts": {"timer": {"taken": 50, "exits": exits}},
        "latency": {"guest_timer": {"count": 50, "p50": 900 + noise, "min": 1, "buckets": []}},
        "harts": [{"hart": 0, "cycles": {"VS": 7 * exits}}], "chains": {"wfi: HS only": exits},
    }
    return {
        "schema": "trapless-ledger/2", "total": section,
        "phases": [{"name": "workload", "from": 0, "totals": section}],
        "run": {"machine": found["machine"], "work": {"unit": "rounds", "count": 10},
                "measurements": [{"name": "us", "unit": "us", "value": 1.5},
                                 {"name": "files", "unit": "", "value": files(found)}]},
        "host": {"started": time.time(), "wall_seconds": time.process_time()},
    }


def numbers(prefix, table):
    """Numbers in tables within tables, by names joined by dots."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from numbers(f"{prefix}{name}.", value)
        elif isinstance(value, (int, float)):
            yield prefix + name, value


def counters(file):
    """What `trapless report --counters` says of such a ledger."""
    run = json.loads(Path(file).read_bytes())
    section = run["total"]
    found = dict(numbers("", section))
    found |= {"cycles.VS": section["harts"][0]["cycles"]["VS"], "work": run["run"]["work"]["count"]}
    found |= {f"measurement.{m['name']}": m["value"] for m in run["run"]["measurements"]}
    exits, taken = found["guest_exits"], found["interrupts.timer.taken"]
    found |= {"per_interrupt.exits": exits / taken, "per_work.exits": exits / found["work"],
              "per_interrupt.timer.exits": exits / taken,
              "per_interrupt.firmware_traps": found["firmware.charged_to_exits"] / taken,
              "per_work.cycles": found["cycles"] / found["work"]}
    return [{"phase": "workload", "counters": found}]


def main():
    command, *words = sys.argv[1:]
    if command == "report":
        option, file = words
        assert option == "--counters", words
        print(json.dumps([counters(file)]))
        return
    assert command == "run", sys.argv
    found, settings = options(words)
    if found["machine"] == "none":
        sys.exit("trapless: there is no machine none")
    if found.get("identity"):
        print(json.dumps(identity(found, settings)))
        return
    if log := os.environ.get("FAKE_LOG"):
        with open(log, "a") as file:
            file.write(" ".join(words) + "\n")
    burn(int(settings.get("burn", 0)))
    if settings.get("crash") == "1":
        os.kill(os.getpid(), signal.SIGSEGV)
    if settings.get("fail") == "1":
        print("Making image x of /x\nRunning x on y\ntrapless: the workload failed",
              file=sys.stderr)
        sys.exit(1)
    with open(found["ledger"], "w") as file:
        json.dump(ledger(found, settings), file)


main()
