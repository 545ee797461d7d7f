"""One of several copies of a job: what it answers when all of them are brought together, and how long it waits."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable

from ._control import Control
from ._encode import number
from ._environment import Environment
from ._warn import warn_once

_LOOK_S = 0.02


class Copies:
    """The side of a copy. It knows which merges it has answered and taken up, and nothing of what is saved."""

    def __init__(self, environment: Environment, sleep: Callable[[float], None] = time.sleep) -> None:
        self._file = environment.merge_file
        self._is_first = environment.rank == 0
        self._sleep = sleep
        self._answered = 0
        self._taken = 0
        self._step = -1.0

    @property
    def exist(self) -> bool:
        """Whether there are several."""
        return self._file is not None

    @property
    def taken(self) -> int:
        """The merge that it has taken up last."""
        return self._taken

    def has_done(self, step: Any) -> None:
        """So many iterations are done."""
        if self.exist:
            try:
                self._step = float(step)
            except (TypeError, ValueError, OverflowError):
                pass

    def is_asked(self, said: Control) -> bool:
        """Whether it shall save for a merge."""
        return self.exist and said.merge > max(self._answered, self._taken)

    def has_done_its_part(self, said: Control) -> bool:
        """Whether it may not train on for now."""
        return self.exist and said.until is not None and self._step >= said.until

    def answer(self, merge: int, step: Any) -> None:
        """Says that the state after `step` iterations is safe; merge 0 tells what it began from."""
        if self._file is None:
            return
        self._answered = max(self._answered, merge)
        if not self._is_first:
            return
        beside = self._file.with_name(self._file.name + ".part")
        try:
            beside.write_text(json.dumps({"merge": merge, "iteration": number("step", step)}))
            os.replace(beside, self._file)
        except (OSError, TypeError, ValueError) as error:
            warn_once("merge", "the answer to merge %s was not written to %s: %s", merge, self._file, error)

    def is_waiting(self, said: Control) -> bool:
        """Whether it has answered a merge that is not done."""
        return self.exist and self._answered > max(self._taken, said.merged)

    def take(self, said: Control) -> bool:
        """Whether there is a merged state that it has not taken up; it is taken to do so now."""
        is_new = self.exist and said.merged > self._taken
        self._taken = max(self._taken, said.merged)
        return is_new

    def wait(self) -> None:
        """A moment."""
        self._sleep(_LOOK_S)
