"""Results, kept by what determines them: one file each, complete or absent.

A file is a line with the checksum of the rest, and a compressed JSON object with the key and the
ledger of the run. It is written under another name, brought to disk and renamed, so that a power
cut, a full disk or a killed process leaves the former state.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import gzip
import hashlib
import json
import os
import stat
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from .errors import SweepError

MAGIC = b"trapless-result/1"
TEMPORARY = ".new-"
# Seconds after which a temporary file counts as abandoned.
DAY = 24 * 60 * 60
# Maximum size of a result in bytes, compressed or not. Parsed, it may take 25 times as much memory.
MOST = 8 << 20
# Errors that stop the sweep: further writes would fail, too.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def default_folder() -> Path:
    """`trapless/sweeps` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return base / "trapless" / "sweeps"


def pack(content: Mapping[str, Any]) -> bytes:
    """A ledger with its key as the bytes that are kept; the same bytes for the same content."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    return gzip.compress(text, compresslevel=6, mtime=0)


class Damaged(Exception):
    """A kept result differs from what was written."""


def unpack(data: bytes, most: int = MOST) -> dict[str, Any]:
    """The object of `pack`, if it has no more than `most` bytes (0: any number).

    Raises `Damaged` for whatever else others may have put there.
    """
    try:
        stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
        text = stream.decompress(data, most)
        if not stream.eof:
            raise Damaged("it is cut off, or too large")
        content = json.loads(text)
    except (zlib.error, ValueError, RecursionError) as error:
        raise Damaged(str(error)) from None
    if not isinstance(content, dict):
        raise Damaged("it is no object")
    return content


def read_file(path: Path) -> bytes:
    """The bytes of a regular file; another user may have put something else in its place.

    Raises `Damaged` if it is none, and the errors of the file system.
    """
    # Opening a pipe would block until there is a writer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Damaged("it is no file")
        data = file.read(MOST + 1)
    if len(data) > MOST:
        raise Damaged("it is too large")
    return data


@contextlib.contextmanager
def file_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Converts errors of the file system to `SweepError`."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise SweepError(f"the disk with {path} is full; no incomplete file is left", 1) \
                from None
        raise SweepError(f"cannot write to {path}: {error.strerror}") from None


@functools.cache
def computer() -> str:
    """Identifies this computer since its boot, and the PID namespace: in a container the same
    numbers are other processes."""
    started = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    about = os.uname().nodename.encode() + started + os.readlink("/proc/self/ns/pid").encode()
    return hashlib.sha256(about).hexdigest()[:12]


def temporary_name() -> str:
    """The beginning of temporary names of this process."""
    return f"{TEMPORARY}{computer()}-{os.getpid()}-"


def abandoned(path: Path) -> bool:
    """Whether the process that wrote a temporary file has ended. For other computers this is
    unknown; their files are kept for a day."""
    where, process, *_ = path.name.removeprefix(TEMPORARY).split("-") + [""]
    if where == computer() and not (process.isdecimal() and psutil.pid_exists(int(process))):
        return True
    return time.time() - path.stat().st_mtime > DAY


def write_file(path: Path, data: bytes) -> None:
    """Writes a file atomically: on errors the old content remains."""
    folder = path.parent
    handle, name = tempfile.mkstemp(prefix=temporary_name(), dir=folder)
    temporary: str | None = name
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
        temporary = None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def share(folder: Path, store: Path) -> None:
    """Gives a user's folder in a store the rights that the store has, whatever the umask."""
    rights = store.stat()
    # Not by its name: another user could replace it by a link to another folder of this user.
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(handle).st_uid == os.geteuid():
            with contextlib.suppress(PermissionError):
                os.fchown(handle, -1, rights.st_gid)  # Fails unless the user is in that group.
            os.fchmod(handle, stat.S_IMODE(rights.st_mode))
    finally:
        os.close(handle)


class Store:
    """A folder with results. Several users can share it: its content has its permissions. Nothing
    that one of them puts there stops the others, but everyone who may write can forge results.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).absolute()

    def prepare(self) -> None:
        """Creates the folder, and removes temporary files of killed sweeps."""
        with file_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        for below in self.folder.glob("??/"):
            with contextlib.suppress(OSError):
                share(below, self.folder)  # The store may have been shared after it was made.
        self.remove_leftovers()

    def remove_leftovers(self) -> None:
        """Removes temporary files of killed sweeps."""
        for path in self.folder.glob(f"*/{TEMPORARY}*"):
            with contextlib.suppress(OSError):
                if abandoned(path):
                    path.unlink()
        for path in self.folder.glob(f"{TEMPORARY}*/"):
            with contextlib.suppress(OSError):
                if abandoned(path):
                    path.rmdir()

    def path(self, key: str) -> Path:
        """Path of the result of a run."""
        return self.folder / key[:2] / f"{key}.result"

    def put(self, key: str, data: bytes) -> bool:
        """Keeps packed content. `False`: it cannot be kept, because something of another user's,
        which only they may replace, is in its place, or because it is too large."""
        path = self.path(key)
        check = hashlib.sha256(data).hexdigest().encode()
        data = MAGIC + b" " + check + b"\n" + data
        if len(data) > MOST:
            return False
        with file_errors(self.folder):
            if not self.make(path.parent):
                return False
            try:
                write_file(path, data)
            except (PermissionError, IsADirectoryError, NotADirectoryError):
                # Another user may have stored it meanwhile, in a folder of theirs.
                return self.has(key)
        return True

    def make(self, folder: Path) -> bool:
        """Creates a folder for results, with its permissions from the start: other users may be
        waiting for it. `False`: something else is in its place."""
        if not folder.is_dir():
            new = Path(tempfile.mkdtemp(prefix=temporary_name(), dir=self.folder))
            share(new, self.folder)
            try:
                new.rename(folder)
            except OSError:
                new.rmdir()
        # Through another user's link it would go to an arbitrary folder of this user.
        return folder.is_dir() and not folder.is_symlink()

    def has(self, key: str) -> bool:
        """Whether there is a complete result."""
        with contextlib.suppress(Damaged):
            return self.get(key) is not None
        return False

    def get(self, key: str) -> dict[str, Any] | None:
        """The content of `pack`, or `None` if there is none.

        Raises `Damaged` if it is not what was written.
        """
        try:
            data = read_file(self.path(key))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Damaged(error.strerror) from None
        head, _, data = data.partition(b"\n")
        if head != MAGIC + b" " + hashlib.sha256(data).hexdigest().encode():
            raise Damaged("its checksum is wrong")
        content = unpack(data)
        if content.get("key") != key:
            raise Damaged("it belongs to another run")
        return content
