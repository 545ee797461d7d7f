"""The control file: what the scheduler says while a process runs."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple

from ._warn import warn_once


@dataclass(frozen=True)
class Control:
    """What the scheduler said last."""

    version: int = -1
    """Grows with each change; -1 before anything was said."""
    workers: int = 1
    """Workers that the job has."""
    servers: int = 0
    """Parameter servers that it has."""
    cpus: Optional[float] = None
    """Processors that each process may use, if there is a limit."""
    stop: bool = False
    """It shall save and exit."""
    grace_s: Optional[float] = None
    """How long it may take to do so."""
    until: Optional[int] = None
    """For a copy: up to which iteration it may train for now."""
    merge: int = 0
    """For a copy: the merge that it shall save for."""
    merged: int = 0
    """For a copy: the merge whose result lies in its folder of checkpoints."""
    part: Optional[Tuple[float, float]] = None
    """For a copy: the part of the training data that is its own until it is merged, from one fraction to another."""

    def has_size_of(self, other: Control) -> bool:
        """Both say the same number of everything."""
        return (self.workers, self.servers, self.cpus) == (other.workers, other.servers, other.cpus)


class ControlFile:
    """Looks at the file when asked, a few times a second at most."""

    def __init__(
        self,
        path: Path,
        every_s: float = 0.1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._every_s = every_s
        self._clock = clock
        self._looked: Optional[float] = None
        self._mark: Optional[Tuple[int, int, int]] = None

    def poll(self, known: Control) -> Control:
        """What is said now; what was known if nothing newer is."""
        now = self._clock()
        if self._looked is not None and now - self._looked < self._every_s:
            return known
        self._looked = now
        try:
            status = os.stat(self._path)
            mark = (status.st_ino, status.st_mtime_ns, status.st_size)
            if mark == self._mark:
                return known
            new = _parse(self._path.read_bytes(), known)
        except FileNotFoundError:
            return known
        except (OSError, ValueError) as error:
            warn_once("control", "the control file %s cannot be read: %s; what it said last counts", self._path, error)
            return known
        self._mark = mark
        return new if new.version > known.version else known


def _parse(text: bytes, known: Control) -> Control:
    said = json.loads(text)
    if not isinstance(said, dict):
        raise ValueError("it is no object")
    version = _number(said, "version", None)
    if version is None:
        raise ValueError("it has no version")
    cpus = _number(said, "cpus", known.cpus)
    grace_s = _number(said, "grace_s", known.grace_s)
    until = _number(said, "until", None)
    stop = said.get("stop", known.stop)
    if not isinstance(stop, bool):
        raise ValueError("`stop` is neither true nor false")
    return Control(
        version=int(version),
        workers=int(_number(said, "workers", known.workers) or 0),
        servers=int(_number(said, "servers", known.servers) or 0),
        cpus=None if cpus is None else float(cpus),
        stop=stop,
        grace_s=None if grace_s is None else float(grace_s),
        until=None if until is None else int(until),
        merge=int(_number(said, "merge", known.merge) or 0),
        merged=int(_number(said, "merged", known.merged) or 0),
        part=_part(said.get("part")),
    )


def _part(said: Any) -> Optional[Tuple[float, float]]:
    if said is None:
        return None
    if not isinstance(said, list) or len(said) != 2:
        raise ValueError("`part` is no pair")
    begin, end = (_number({"part": value}, "part", None) for value in said)
    if begin is None or end is None or not begin <= end <= 1:
        raise ValueError("`part` is no part of 1")
    return float(begin), float(end)


def _number(said: Dict[str, Any], name: str, missing: Optional[float]) -> Optional[float]:
    value = said.get(name)
    if value is None:
        return missing
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**53:
        raise ValueError(f"`{name}` is no number from 0")
    return value
