"""Files of the user's own that runs read: machines, workloads, cost models, programs, data.

They are read once, when the sweep is planned, and written below a folder of each worker, each at
the path that it has here: what names another one by a relative path finds it there, too. An
absolute path would name a file of the worker's computer, so it is replaced by a relative one.
"""

import dataclasses
import json
import os
import re
import stat
import tomllib
from pathlib import Path

from .errors import SweepError
from .options import words

# File with machines and workloads, as `trapless` looks for it.
NAME = "trapless.toml"


@dataclasses.dataclass
class Place:
    """Where files were written: `root` stands for /, and runs start in `folder`."""

    root: str
    folder: str
    environment: dict


@dataclasses.dataclass
class Own:
    """The files by their paths here: content and whether they are executable; a folder is `None`.

    `folder`: where the user is. `config`: the folder of configurations. `workloads`: files of
    workloads, by what the sweep calls them, as seen from `folder`.
    """

    folder: str
    config: str
    files: dict = dataclasses.field(default_factory=dict)
    workloads: dict = dataclasses.field(default_factory=dict)

    def words(self, options):
        """The options of a run as words of a command line."""
        named = options["workload"]
        return words({**options, "workload": self.workloads.get(named, named)})

    def write(self, root, environment):
        """Writes the files below `root`; the place for runs, with more variables for them."""
        for path in (self.folder, *self.files):
            folder = self.files.get(path) is None
            os.makedirs(root + (path if folder else os.path.dirname(path)), exist_ok=True)
        for path, file in self.files.items():
            if file is not None:
                content, executable = file
                Path(root + path).write_bytes(content)
                os.chmod(root + path, 0o755 if executable else 0o644)
        environment = {**environment, "XDG_CONFIG_HOME": root + os.path.normpath(self.config)}
        return Place(root, root + self.folder, environment)

    def describe(self, path, named):
        """Takes a file that describes machines or workloads, and the files that it names.

        `named`: finds their names in its tables.
        """
        if not os.path.isfile(path):
            return self.take(path)
        content, executable = read(path)
        tables, folder, moved = tables_of(content), os.path.dirname(path), {}
        for table, key in named(tables):
            name = table[key]
            self.take(os.path.join(folder, name))
            if os.path.isabs(name):
                table[key] = moved[name] = os.path.relpath(name, folder)
        if moved:
            content = renamed(content.decode(), moved).encode()
            if tables_of(content) != tables:
                raise SweepError(f"{path}: a sweep cannot take along {', '.join(moved)}, which is "
                                 "named by an absolute path; name it from the folder of this file")
        self.keep(path, (content, executable))

    def take(self, path):
        """Takes a file, or a folder with all that is in it. `trapless` says if there is none."""
        parts = path.split("/")
        for i, part in enumerate(parts):
            if part == "..":
                # To be there, so that it can be left.
                self.keep("/".join(parts[:i]), None)
        if os.path.isdir(path):
            self.keep(path, None)
            for name in asked(os.listdir, path):
                self.take(os.path.join(path, name))
        elif os.path.isfile(path):
            self.keep(path, read(path))
        elif os.path.lexists(path):
            raise SweepError(f"a sweep cannot take along {os.path.normpath(path)}: it is neither a "
                             "file nor a folder")

    def keep(self, path, file):
        """Remembers a file or folder. Symbolic links may lead to two by one path."""
        path = os.path.normpath(path)
        if self.files.setdefault(path, file) != file:
            raise SweepError(f"a sweep cannot take along {path}: it would be two different files")


def asked(function, path):
    """What the file system says of a path; errors as sentences."""
    try:
        return function(path)
    except OSError as error:
        raise SweepError(f"cannot read {path}: {error.strerror}") from None


def read(path):
    """Content of a file, and whether it is executable."""
    mode = asked(os.stat, path).st_mode
    return asked(Path.read_bytes, Path(path)), mode & stat.S_IXUSR != 0


def tables_of(content):
    """The tables of a TOML file; none if it is wrong, which `trapless` tells better."""
    try:
        return tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}


def gather(folder, workloads):
    """The files for runs of these `workloads`. Those that are files are named from `folder`."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    config = config if os.path.isabs(config) else str(Path.home() / ".config")
    own = Own(os.getcwd(), config)
    users, here = os.path.join(config, "trapless", NAME), os.path.join(own.folder, NAME)
    # One file may be both; `trapless` reads the user's first.
    same = os.path.exists(users) and os.path.exists(here) and os.path.samefile(users, here)
    for path in [users] if same else [users, here]:
        own.describe(path, named_by_all)
    for named in workloads:
        if is_file(named):
            path = os.path.join(folder, named)
            own.describe(path, named_by_one)
            seen = os.path.relpath(path, own.folder)
            own.workloads[named] = seen if "/" in seen else f"./{seen}"
    return own


def is_file(workload):
    """Whether the name of a workload is that of a file, as `trapless` decides it."""
    return "/" in workload or workload.endswith(".toml")


def plain(workload):
    """The name of a workload without the folder of its file, which does not matter."""
    return f"./{os.path.basename(workload)}" if is_file(workload) else workload


def named_by_all(tables):
    """Where the tables of `trapless.toml` name files: tables with their keys."""
    machines = below(tables, "machines")
    for name in machines:
        if isinstance(below(machines, name).get("cost"), str):
            yield machines[name], "cost"
    workloads = below(tables, "workloads")
    for name in workloads:
        yield from named_by_one(below(workloads, name))


def named_by_one(workload):
    """The same for the tables of a workload."""
    for side in ("guest", "host"):
        files = below(below(workload, side), "files")
        yield from ((files, place) for place in files if isinstance(files[place], str))


def below(table, key):
    """A table within a table; an empty one if there is something else. `trapless` refuses that."""
    value = table.get(key)
    return value if isinstance(value, dict) else {}


def renamed(text, names):
    """A TOML text with other names of files, where they are values."""
    for name, other in names.items():
        text = re.sub(rf"""(=\s*)(["']){re.escape(name)}\2""",
                      lambda found: found[1] + json.dumps(other, ensure_ascii=False), text)
    return text
