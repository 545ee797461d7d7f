"""The session that is open, and functions that speak to it."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, List, Optional, Union

from ._environment import Environment
from ._outlets import close_at_exit, open_outlet
from ._session import OnResize, Session

_open: List[Session] = []
_FLUSH_AT_EXIT_S = 5.0


def _begin(**settings: Any) -> Session:
    environment = Environment.read(os.environ)
    outlet = open_outlet(environment)
    close_at_exit(outlet, _FLUSH_AT_EXIT_S)
    return Session(environment, outlet, **settings)


@contextmanager
def job(
    *,
    checkpoint_every_s: Optional[float] = None,
    checkpoint_dir: Union[str, Path] = "checkpoints",
    is_signal_shared: bool = True,
) -> Iterator[Session]:
    """Opens a session for as long as the `with` block lasts.

    `checkpoint_every_s` is how often the script should save by itself, in seconds; without it only when it is told to stop.
    `checkpoint_dir` is the folder for checkpoints where Trainyard did not start the script. If `is_signal_shared`, a handler
    of SIGTERM that was there before is called too.
    """
    session = _begin(
        checkpoint_every_s=checkpoint_every_s,
        checkpoint_dir=checkpoint_dir,
        is_signal_shared=is_signal_shared,
    )
    _open.append(session)
    try:
        yield session
    finally:
        _open.remove(session)
        session.close()


def current() -> Session:
    """The session that was opened last. If there is none, one is opened that lasts until the process ends."""
    if not _open:
        _open.append(_begin())
    return _open[-1]


def report(step: Any, loss: Any = None, accuracy: Any = None, **more: Any) -> None:
    """See `Session.report`."""
    current().report(step, loss, accuracy, **more)


def checkpointed(step: Any) -> None:
    """See `Session.checkpointed`."""
    current().checkpointed(step)


def should_checkpoint() -> bool:
    """See `Session.should_checkpoint`."""
    return current().should_checkpoint()


def is_merged() -> bool:
    """See `Session.is_merged`."""
    return current().is_merged()


def should_stop() -> bool:
    """See `Session.should_stop`."""
    return current().should_stop()


def on_resize(callback: OnResize) -> OnResize:
    """See `Session.on_resize`."""
    return current().on_resize(callback)
