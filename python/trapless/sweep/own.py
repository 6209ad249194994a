"""The user's files that runs read: machines, workloads, cost models, programs, data.

They are read once, when the sweep is planned, and written below a folder of each worker, each at
the path that it has here, so that relative paths from one to another stay valid. The program lists
the files, and replaces paths in their texts by relative ones: an absolute path would name a file of
the worker's computer.
"""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from .errors import SweepError
from .program import Place, call

File = tuple[bytes, bool]
"""Content, and whether it is executable."""
Found = TypeVar("Found")


@dataclasses.dataclass
class Own:
    """The files by their paths here; a folder is `None`.

    `folder`: the user's current folder. `config`: the folder of configurations. `workloads`: files
    of workloads by their names in the sweep, relative to `folder`.
    """

    folder: str
    config: str
    files: dict[str, File | None] = dataclasses.field(default_factory=dict)
    workloads: dict[str, str] = dataclasses.field(default_factory=dict)

    def write(self, root: str, environment: dict[str, str]) -> Place:
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

    def plain(self, workload: str) -> str:
        """The name of a workload without the folder of its file, which does not matter."""
        return f"./{os.path.basename(workload)}" if workload in self.workloads else workload

    def seen(self, path: str) -> str:
        """A path as seen from the user's folder."""
        return os.path.relpath(path, self.folder)

    def take(self, path: str) -> None:
        """Adds a file, or a folder with its content. `trapless` reports a missing one."""
        parts = path.split("/")
        for i, part in enumerate(parts):
            if part == "..":
                # Must exist, so that `..` from it works.
                self.keep("/".join(parts[:i]), None)
        if os.path.isdir(path):
            self.keep(path, None)
            for name in checked(os.listdir, path):
                self.take(os.path.join(path, name))
        elif os.path.isfile(path):
            self.keep(path, read(path))
        elif os.path.lexists(path):
            raise SweepError(f"a sweep cannot copy {os.path.normpath(path)}: it is neither a "
                             "file nor a folder")

    def keep(self, path: str, file: File | None) -> None:
        """Records a file or folder. With symbolic links, two may have the same path."""
        path = os.path.normpath(path)
        if self.files.setdefault(path, file) != file:
            raise SweepError(f"a sweep cannot copy {path}: it would be two different files")


def checked(function: Callable[[str], Found], path: str) -> Found:
    """Result of a file operation on a path; errors as sentences."""
    try:
        return function(path)
    except OSError as error:
        raise SweepError(f"cannot read {path}: {error.strerror}") from None


def read(path: str) -> File:
    """Content of a file, and whether it is executable."""
    mode = checked(os.stat, path).st_mode
    return checked(lambda name: Path(name).read_bytes(), path), mode & stat.S_IXUSR != 0


def gather(program: str, folder: Path, workloads: Iterable[str], costs: Iterable[str]) -> Own:
    """The files for runs of these `workloads` by these cost models. Those that are files are named
    from `folder`.
    """
    named = list(workloads)
    answer = call(program, {"sources": {"folder": str(folder), "workloads": named}})
    own = Own(os.getcwd(), answer["config"] or "/")
    for workload, path in zip(named, answer["workloads"], strict=True):
        if path is not None:
            seen = own.seen(path)
            own.workloads[workload] = seen if "/" in seen else f"./{seen}"
    for source in answer["sources"]:
        path = source["path"]
        if source["text"] is None:
            own.take(path)
        else:
            own.keep(path, (source["text"].encode(), read(path)[1]))
        for name in source["files"]:
            own.take(name)
    for cost in costs:
        own.take(os.path.join(folder, cost))
    return own
