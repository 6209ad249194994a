"""From a sweep to its points, and from points to runs."""

import dataclasses
import hashlib
import itertools
import json
import os
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor

from . import program as programs
from .errors import SweepError
from .options import DEFAULT, FACTOR, PRICE, suggestion
from .own import Own, gather, plain
from .store import told

# Changes with the meaning of keys: results of another format are not found.
FORMAT = 1
# Prices of 0 with which time could stand still; `trapless` refuses them.
NEVER_FREE = {"simple", "branch", "jump", "system", "trap"}
MOST_POINTS = 1_000_000
BASE = "base"


@dataclasses.dataclass
class Point:
    """A combination of values. `variation`: what differs in it from the base, if that is varied."""

    options: dict
    variation: str = BASE
    key: str = ""
    prices: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Run:
    """A run to be made. Can be sent to another computer: it names no file of this one."""

    key: str
    words: list
    cost: str | None
    identity: dict
    about: dict


@dataclasses.dataclass
class Plan:
    """All points, and the runs that they need: equal points share one."""

    document: object
    points: list
    runs: dict
    own: Own
    program: str


def points(document):
    """All combinations but the excluded ones, in the order of the file."""
    axes = [[{name: v} for v in values] for name, values in document.axes.items()]
    for columns in document.zip.values():
        rows = zip(*columns.values(), strict=True)
        axes.append([dict(zip(columns, row, strict=True)) for row in rows])
    variations = [(BASE, {})]
    for name, values in document.one_at_a_time.items():
        variations += [(f"{name}={show(v)}", {name: v}) for v in values]
    count = len(variations)
    for axis in axes:
        count *= len(axis)
    if count > MOST_POINTS:
        raise SweepError(f"the axes have {count} combinations, more than {MOST_POINTS}")
    result = []
    for row in itertools.product(*axes):
        for variation, change in variations:
            options = dict(document.run)
            for values in (*row, change):
                options.update(values)
            if not any(excluded(options, table) for table in document.exclude):
                result.append(Point(options, variation))
    if not result:
        raise SweepError("every combination is excluded; nothing is left to run")
    return result


def show(value):
    """A value as it stands in names."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def excluded(options, table):
    return all(options.get(name) in values for name, values in table.items())


def plan(document, program):
    """Asks the program what the points are, and which runs they need."""
    found = points(document)
    costs = cost_files(document, found)
    groups = list(dict.fromkeys(group(point.options) for point in found))

    def ask(name):
        options = dict(name)
        cost = options.pop("cost", DEFAULT)
        chosen = [] if cost == DEFAULT else ["--cost", str(document.folder / cost)]
        return programs.identity(program, own.words(options) + chosen, place)

    own = gather(document.folder, dict.fromkeys(point.options["workload"] for point in found))
    with tempfile.TemporaryDirectory(prefix="trapless-sweep-") as root:
        with told(root):
            place = own.write(root, programs.environment())
        # An answer takes a tenth of a second; the first may make images.
        first = ask(groups[0])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            identities = dict(zip(groups, [first, *pool.map(ask, groups[1:])], strict=True))
    result = Plan(document, [], {}, own, program)
    for point in found:
        expanded(result, point, identities[group(point.options)], costs)
    return result


def group(options):
    """Options that make a difference to what the program says of a run, but for the prices."""
    different = (item for item in options.items() if not item[0].startswith(PRICE))
    return tuple(item for item in different if item[0] != "seed")


def cost_files(document, found):
    """Texts of the cost models that are named."""
    texts = {}
    for name in {point.options.get("cost", DEFAULT) for point in found} - {DEFAULT}:
        path = document.folder / name
        try:
            texts[name] = path.read_text(encoding="utf-8")
            tomllib.loads(texts[name])
        except OSError as error:
            raise SweepError(f"cannot read the cost model {path}: {error.strerror}") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise SweepError(f"the cost model {path} is no TOML: {error}") from None
    return texts


def expanded(result, point, identity, costs):
    """Adds a point, or for `price.all` one for each price, with its run."""
    base = identity["machine"]["prices"]
    everything = point.options.get(PRICE + "all")
    for one in base if everything is not None else [None]:
        options = {k: v for k, v in point.options.items() if k != PRICE + "all"}
        variation = point.variation
        if one is not None:
            options[PRICE + one] = everything
            variation = f"{PRICE}{one}={show(everything)}"
        prices = priced(base, options)
        if one is not None and prices == base:
            continue  # A price so small that the factor does not change it.
        new = Point(options, variation, "", prices)
        add_run(result, new, base, identity, costs)
        result.points.append(new)


def priced(base, options):
    """All prices of a run."""
    prices = dict(base)
    for name, value in options.items():
        if not name.startswith(PRICE):
            continue
        name = name.removeprefix(PRICE)
        if name not in base:
            raise SweepError(f"there is no price {name}; {suggestion(name, list(base))}")
        factor = isinstance(value, str) and FACTOR.match(value)
        prices[name] = int(base[name] * float(factor.group(1)) + 0.5) if factor else value
        if name in NEVER_FREE:
            if not factor and value == 0:
                raise SweepError(f"price.{name} is at least 1 cycle, or time could stand still")
            prices[name] = max(prices[name], 1)
    return prices


def add_run(result, point, base, identity, costs):
    """Names the run of a point by everything that determines its result."""
    options, prices = point.options, point.prices
    others = {k: v for k, v in options.items() if not k.startswith(PRICE) and k != "cost"}
    machine = {k: v for k, v in identity["machine"].items() if k != "prices"}
    about = {
        "format": FORMAT,
        "program": {**identity, "machine": machine},
        "options": {"seed": 0, **others, "workload": plain(options["workload"])},
        "prices": prices,
    }
    canonical = json.dumps(about, sort_keys=True, separators=(",", ":"))
    point.key = hashlib.sha256(canonical.encode()).hexdigest()
    if point.key in result.runs:
        return
    cost = costs.get(options.get("cost"))
    if prices != base:
        cost = cost_text(prices)
    result.runs[point.key] = Run(point.key, result.own.words(others), cost, identity, about)


def cost_text(prices):
    """A cost model as `trapless --cost` reads it."""
    lines = ["# Made by `trapless sweep`.", 'name = "sweep"']
    for name, cycles in sorted(prices.items()):
        lines += ["", f"[{name}]", f"cycles = {cycles}", 'source = "the sweep"']
    return "\n".join(lines) + "\n"
