"""Lets a training script report its progress to Trainyard, save when it is told to, and go on later.

    import trainyard

    with trainyard.job(checkpoint_every_s=600) as session:
        for step in range(session.resume_step, steps):
            loss = train(step)
            session.report(step + 1, loss)
            if session.should_checkpoint():
                save(session.checkpoint_dir, step + 1)
                session.checkpointed(step + 1)
            if session.should_stop():
                break

Where Trainyard did not start the script all of this does nothing, so the script runs anywhere. Reports never raise, block or
end the training. The functions of this module of the same names speak to the session that is open.
"""

from ._control import Control
from ._current import (
    checkpointed,
    current,
    is_merged,
    job,
    on_resize,
    report,
    should_checkpoint,
    should_stop,
)
from ._session import Session

__version__ = "0.1.0"

__all__ = [
    "Control",
    "Session",
    "checkpointed",
    "current",
    "is_merged",
    "job",
    "on_resize",
    "report",
    "should_checkpoint",
    "should_stop",
]
