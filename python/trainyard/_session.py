"""A session: what a training script says to the scheduler, and what it is told."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, Callable, List, Mapping, Optional, Tuple, TypeVar, Union

from ._control import Control, ControlFile
from ._copies import Copies
from ._encode import encode, number
from ._environment import Environment
from ._outlets import Outlet
from ._warn import warn_once

OnResize = TypeVar("OnResize", bound=Callable[[Control], Any])

_FLUSH_TIMEOUT_S = 5.0


class Session:
    """Made by `trainyard.job`. Everything happens in the thread that calls, at the time that it calls."""

    def __init__(
        self,
        environment: Environment,
        outlet: Outlet,
        *,
        checkpoint_every_s: Optional[float] = None,
        checkpoint_dir: Union[str, Path] = "checkpoints",
        is_signal_shared: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = environment
        self._outlet = outlet
        self._clock = clock
        self._checkpoint_every_s = checkpoint_every_s
        self._checkpoint_dir = environment.checkpoint_dir or Path(checkpoint_dir)
        self._checkpointed_at = clock()
        self._process = os.getpid()
        self._copies = Copies(environment)

        self._control = Control(workers=environment.world_size)
        path = environment.control_file
        self._control_file = None if path is None else ControlFile(path, clock=clock)
        if self._control_file is not None:
            self._control = self._control_file.poll(self._control)
        self._callbacks: List[Callable[[Control], Any]] = []
        self._is_calling = False

        # Signals are caught from the first question on: a program that never asks could not obey.
        self._is_signal_shared = is_signal_shared
        self._was_signalled = False
        self._catches = False
        self._before: Any = None

        self._is_stop_told = self._control.stop
        self._asks_to_checkpoint = False
        self._was_asked_to_save = False
        self._has_saved_at_stop = False

    # What the script says.

    def report(self, step: Any, loss: Any = None, accuracy: Any = None, **more: Any) -> None:
        """Says that `step` iterations are done, and what the loss is after them. `more` is anything else to be written down.

        It raises nothing but what callbacks of `on_resize` raise. On ranks above 0 it says nothing.
        """
        self._say({"iteration": step, "loss": loss, "accuracy": accuracy}, more)
        self._copies.has_done(step)
        self._poll()

    def checkpointed(self, step: Any) -> None:
        """Says that the state after `step` iterations is safe on disk: written, closed, and under its name."""
        self._checkpointed_at = self._clock()
        if self._was_asked_to_save:
            self._has_saved_at_stop = True
        self._say({"saved": step}, {})
        if os.getpid() == self._process and self._copies.is_asked(self._control):
            self._copies.answer(self._control.merge, step)

    def resumed(self, step: Any) -> None:
        """Says that the script goes on from a state after `step` iterations. Only copies need to say so, as they begin."""
        self._copies.has_done(step)
        if os.getpid() == self._process:
            self._copies.answer(0, step)

    # What it asks.

    def should_checkpoint(self) -> bool:
        """Whether it should save now: it was told to stop, or `checkpoint_every_s` have gone by since it last did.

        A copy of a job should also save when all copies are to be brought together; and if it may not train on for now, it is
        kept here until it may.
        """
        self._asks_to_checkpoint = True
        while self._may_wait() and self._copies.has_done_its_part(self._control) and not self._is_busy():
            self._copies.wait()
        if self._is_stopping():
            self._was_asked_to_save = True
            return not self._has_saved_at_stop
        if self._copies.is_asked(self._control):
            return True
        every_s = self._checkpoint_every_s
        return every_s is not None and self._clock() - self._checkpointed_at >= every_s

    def is_merged(self) -> bool:
        """Whether what lies in `checkpoint_dir` is now the state of all copies of the job, which the script should load at once.

        If this copy has saved for that, it waits here until all have. Ask after `should_checkpoint`. Without copies it is never so.
        """
        while self._may_wait() and self._copies.is_waiting(self._control):
            if self._is_stopping():
                # What it saved is all that it has done.
                self._was_asked_to_save = self._has_saved_at_stop = True
                return False
            self._copies.wait()
        return self._copies.take(self._control)

    @property
    def part(self) -> Optional[Tuple[float, float]]:
        """Which part of the training data is this copy's own until it is merged, from one fraction to another of an order that all
        copies draw alike; nothing if it may take all of it."""
        return self._control.part

    def should_stop(self) -> bool:
        """Whether it should exit now.

        A script that asks `should_checkpoint` too is asked to save first, even if the word to stop comes between its two
        questions.
        """
        return self._is_stopping() and (self._was_asked_to_save or not self._asks_to_checkpoint)

    def on_resize(self, callback: OnResize) -> OnResize:
        """Has `callback(control)` called when workers, servers or processors change, from within the next call of `report`,
        `should_checkpoint` or `should_stop`, so never in the middle of an iteration. What it raises is not caught."""
        self._callbacks.append(callback)
        return callback

    # What it knows.

    @property
    def is_inside(self) -> bool:
        """Whether Trainyard started this process."""
        return self._environment.is_inside

    @property
    def control(self) -> Control:
        """What the scheduler said last."""
        return self._control

    @property
    def workers(self) -> int:
        """Workers that the job has now."""
        return self._control.workers

    @property
    def copy(self) -> int:
        """Which of several copies of the job this is, from 0. It is worth being part of the seed of what the script draws."""
        return self._environment.copy

    @property
    def copies(self) -> int:
        """How many copies of the job train at the same time."""
        return self._environment.copies

    @property
    def resume_step(self) -> int:
        """Iterations that the scheduler believes to be saved; 0 at first. What a checkpoint says of itself is surer."""
        return self._environment.resume_iteration

    @property
    def checkpoint_dir(self) -> Path:
        """The folder for checkpoints, which is kept from attempt to attempt. It is made if it is not there."""
        try:
            self._checkpoint_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            warn_once("checkpoints", "the folder %s cannot be made: %s", self._checkpoint_dir, error)
        return self._checkpoint_dir

    def take_signal(self) -> None:
        """Catches SIGTERM from now on, instead of whatever a framework has put in its place meanwhile."""
        self._release()
        self._is_signal_shared = False
        self._catch()

    def close(self) -> None:
        """Sends what is left and gives the signal back; after a stop SIGTERM is ignored instead. `trainyard.job` does it."""
        if os.getpid() == self._process:
            self._outlet.close(_FLUSH_TIMEOUT_S)
        self._release()

    # How it comes to know.

    def _say(self, known: Mapping[str, Any], more: Mapping[str, Any]) -> None:
        # Only rank 0 speaks, and a forked child, such as one that loads data, is not the job. Numbers of others are not even
        # looked at, since that may mean to wait for a GPU.
        if not self._environment.is_inside or self._environment.rank != 0 or os.getpid() != self._process:
            return
        try:
            numbers = {name: number(name, value) for name, value in known.items()}
            self._outlet.send(encode(numbers, more))
        except Exception as error:
            warn_once("report", "a report was not sent: %r", error)

    def _may_wait(self) -> bool:
        """Whether this is the process that the scheduler speaks to. It looks what that says."""
        if not self._copies.exist or os.getpid() != self._process:
            return False
        self._poll()
        return True

    def _is_busy(self) -> bool:
        """Whether there is something to do for a copy that may not train."""
        return self._is_stopping() or self._copies.is_asked(self._control) or self._control.merged > self._copies.taken

    def _is_stopping(self) -> bool:
        self._catch()
        self._poll()
        return self._was_signalled or self._is_stop_told

    def _poll(self) -> None:
        if self._control_file is None or os.getpid() != self._process:
            return
        before = self._control
        self._control = self._control_file.poll(before)
        self._is_stop_told = self._is_stop_told or self._control.stop
        if self._is_calling or self._control.has_size_of(before):
            return
        self._is_calling = True
        try:
            for callback in self._callbacks:
                callback(self._control)
        finally:
            self._is_calling = False

    def _catch(self) -> None:
        """Catches SIGTERM, once, where Trainyard started the process and this is the thread that may."""
        if self._catches or not self._environment.is_inside:
            return
        if threading.current_thread() is not threading.main_thread():
            return
        self._catches = True
        before = signal.getsignal(signal.SIGTERM)
        if before is None:
            warn_once("signal", "SIGTERM is handled outside Python; only the control file tells when to stop")
            return
        self._before = before
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, number: int, frame: Optional[FrameType]) -> None:
        self._was_signalled = True
        if self._is_signal_shared and callable(self._before):
            self._before(number, frame)

    def _release(self) -> None:
        if self._before is None or threading.current_thread() is not threading.main_thread():
            return
        # Bound methods are made anew each time, so they are equal and not the same.
        if signal.getsignal(signal.SIGTERM) == self._on_signal:
            # The control file may have told it first, and launchers pass signals on: one that comes while the process is
            # already leaving must not make a failure of a good stop.
            is_leaving = self._was_signalled or self._is_stop_told
            signal.signal(signal.SIGTERM, signal.SIG_IGN if is_leaving else self._before)
        self._before = None
        self._catches = False
