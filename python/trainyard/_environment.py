"""What the scheduler says to a process as it starts: variables of its environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

from ._warn import warn_once


@dataclass(frozen=True)
class Environment:
    """The variables that matter to the hook. All are missing where Trainyard did not start the process."""

    is_inside: bool = False
    progress_file: Optional[Path] = None
    control_file: Optional[Path] = None
    checkpoint_dir: Optional[Path] = None
    resume_iteration: int = 0
    url: Optional[str] = None
    token: Optional[str] = None
    rank: int = 0
    world_size: int = 1
    copy: int = 0
    copies: int = 1
    merge_file: Optional[Path] = None

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> Environment:
        """Reads them. A number that is none is told and taken for what it is when nothing is said."""

        def path(name: str) -> Optional[Path]:
            text = variables.get(name)
            return Path(text) if text else None

        if not variables.get("TRAINYARD_JOB"):
            return cls()
        return cls(
            is_inside=True,
            progress_file=path("TRAINYARD_PROGRESS_FILE"),
            control_file=path("TRAINYARD_CONTROL_FILE"),
            checkpoint_dir=path("TRAINYARD_CHECKPOINT_DIR"),
            resume_iteration=_whole(variables, "TRAINYARD_RESUME_ITERATION", 0),
            url=variables.get("TRAINYARD_URL") or None,
            token=variables.get("TRAINYARD_TOKEN") or None,
            rank=_whole(variables, "RANK", 0),
            world_size=max(1, _whole(variables, "WORLD_SIZE", 1)),
            copy=_whole(variables, "TRAINYARD_COPY", 0),
            copies=max(1, _whole(variables, "TRAINYARD_COPIES", 1)),
            merge_file=path("TRAINYARD_MERGE_FILE"),
        )


def _whole(variables: Mapping[str, str], name: str, missing: int) -> int:
    text = variables.get(name)
    if not text:
        return missing
    try:
        number = int(float(text))
    except (ValueError, OverflowError):
        number = -1
    if number < 0:
        warn_once(name, "%s is `%s`, which is no whole number from 0; %d is taken", name, text, missing)
        return missing
    return number
