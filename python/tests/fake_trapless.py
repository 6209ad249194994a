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


NAMES = ["machine", "workload", "settings", "guest_harts", "host_harts", "vmm", "time_limit", "ram",
         "isa", "cost", "prices", "trap_misaligned", "quantum", "seed", "engine", "hot", "region",
         "code_cache"]


def prices(spec):
    result, current = dict(PRICES), None
    for line in open(spec["cost"]) if "cost" in spec else ():
        if line.startswith("["):
            current = line.strip("[]\n")
        elif line.startswith("cycles"):
            result[current] = int(line.split("=")[1].split("#")[0])
    for name, price in spec.get("prices", {}).items():
        factor = isinstance(price, str)
        result[name] = int(result[name] * float(price[1:]) + 0.5) if factor else price
    if result["trap"] == 0:
        sys.exit("trapless: simple and trap cost at least 1 cycle")
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
    for file in (Path(os.environ.get("XDG_CONFIG_HOME", "/"), "trapless/trapless.toml"),
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


def wrong(fields):
    """What is wrong with values, as far as tests need it."""
    numbers = [*fields.get("prices", {}).values(), fields.get("guest_harts"), fields.get("seed")]
    bad = [n for n in numbers if isinstance(n, int) and n < 0]
    return f"{bad[0]} is no number" if bad else None


def command(spec):
    words = ["trapless", "run", f"--machine={spec['machine']}", f"--workload={spec['workload']}"]
    words += [f"--set {name}={value}" for name, value in spec["settings"].items()]
    words += [f"--price {name}={price}" for name, price in spec["prices"].items()]
    others = ("seed", "cost", "quantum", "ram")
    return " ".join(words + [f"--{name} {spec[name]}" for name in others if name in spec])


def identify(specs):
    identities = []
    runs = []
    for spec in specs:
        run = {"command": command(spec)}
        try:
            if spec["machine"] == "none":
                raise SystemExit("trapless: there is no machine none")
            found = {"identity": len(identities), "prices": prices(spec), "memory": 1 << 20}
            identities.append(identity(spec))
            runs.append({**run, **found})
        except (SystemExit, OSError, KeyError, ValueError) as error:
            runs.append({**run, "error": str(error).removeprefix("trapless: ")})
    return {"identities": identities, "runs": runs}


def sources(folder, workloads):
    """The files with machines and workloads, and those that they name."""
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    found = [Path(config, "trapless/trapless.toml"), Path.cwd() / "trapless.toml"]
    files = [Path(folder, name) if "/" in name or name.endswith(".toml") else None
             for name in workloads]
    answer = []
    for file in [*(f for f in found if f.exists()), *(f for f in files if f)]:
        try:
            text = file.read_text()
            tables = tomllib.loads(text)
        except (OSError, ValueError):
            answer.append({"path": str(file), "text": None, "files": []})
            continue
        of = [tables, *tables.get("workloads", {}).values()]
        named = [path for w in of for side in ("guest", "host")
                 for path in w.get(side, {}).get("files", {}).values()]
        named += [m["cost"] for m in tables.get("machines", {}).values()]
        for name in named:
            if os.path.isabs(name):
                text = text.replace(name, os.path.relpath(name, file.parent))
        answer.append({"path": str(file), "text": text,
                       "files": [os.path.join(file.parent, name) for name in named]})
    return {"config": config, "sources": answer, "workloads": [f and str(f) for f in files]}


def identity(spec):
    content = own(spec)
    return {
        "program": "trapless 9", "revision": os.environ.get("FAKE_REVISION", "abc"),
        "images": ["kernel-1/kernel", *([content] if content else [])],
        "command_line": json.dumps(spec["settings"], sort_keys=True),
        "machine": {"name": spec["machine"], "configuration": {"harts": "1"}},
    }


def burn(milliseconds):
    end = time.process_time() + milliseconds / 1000
    while time.process_time() < end:
        pass


def files(found):
    """A number that follows from the content of a workload's files."""
    return int(hashlib.sha256(own(found).encode()).hexdigest()[:8], 16)


def ledger(found):
    seed, model = found.get("seed", 0), prices(found)
    text = json.dumps([found["machine"], found["workload"], found["settings"]], sort_keys=True)
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


def run(spec, ledger_file):
    settings = spec["settings"]
    if log := os.environ.get("FAKE_LOG"):
        with open(log, "a") as file:
            file.write(json.dumps(spec) + "\n")
    burn(int(settings.get("burn", 0)))
    if settings.get("crash") == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if settings.get("fail") == 1:
        print("Making image x of /x\nRunning x on y\ntrapless: the workload failed",
              file=sys.stderr)
        sys.exit(1)
    with open(ledger_file, "w") as file:
        json.dump(ledger(spec), file)


def main():
    if sys.argv[1] == "report":
        option, file = sys.argv[2:]
        assert option == "--counters", sys.argv
        print(json.dumps([counters(file)]))
        return
    assert sys.argv[1:] == ["call"], sys.argv
    [(asked, request)] = json.load(sys.stdin).items()
    if asked == "run":
        run(request["spec"], request["ledger"])
        return
    answer = {
        "options": lambda values: {"names": NAMES, "prices": list(PRICES),
                                   "wrong": [wrong(fields) for fields in values]},
        "identify": identify,
        "sources": sources,
        # Smallest and largest; what real ones are, tests of crates/report say.
        "intervals": lambda runs: [[0, 1 - 0.5 ** (n - 1)] for n in runs],
    }[asked](**request)
    print(json.dumps(answer))


main()
