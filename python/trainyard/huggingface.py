"""A callback for the Trainer of Hugging Face's transformers, which must be installed.

    trainer = Trainer(..., callbacks=[TrainyardCallback()])
    trainer.train(resume_from_checkpoint=last_checkpoint(training_arguments.output_dir))
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ._current import current
from ._session import Session


def last_checkpoint(output_dir: str) -> Optional[str]:
    """The newest whole checkpoint in the folder of a Trainer; nothing if there is none, which means a start from the beginning.

    The Trainer writes its own state last; a folder without it was being written when the process was killed.
    """
    found: List[Tuple[int, Path]] = []
    for path in Path(output_dir).glob("checkpoint-*"):
        name = re.fullmatch(r"checkpoint-(\d+)", path.name)
        if name is None:
            continue
        try:
            json.loads((path / "trainer_state.json").read_text())
        except (OSError, ValueError):
            continue
        found.append((int(name.group(1)), path))
    return str(max(found)[1]) if found else None


class TrainyardCallback(TrainerCallback):
    """Reports what the Trainer logs, lets it save and stop when told to, and says what is saved.

    Processes of one job ask each other each `agree_every` steps, so that all of them save at the same step.
    """

    def __init__(self, session: Optional[Session] = None, agree_every: int = 10) -> None:
        self._session = session
        self._agree_every = max(1, agree_every)

    @property
    def session(self) -> Session:
        """The session that it speaks to: the one that it was given, or the one that is open."""
        return self._session or current()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Optional[Dict[str, Any]] = None,
        **others: Any,
    ) -> None:
        """The Trainer has something to tell."""
        logs = logs or {}
        loss, accuracy = logs.get("loss"), logs.get("eval_accuracy")
        if loss is not None or accuracy is not None:
            taken = ("step", "loss", "accuracy", "eval_accuracy")
            more = {name: value for name, value in logs.items() if name not in taken}
            self.session.report(state.global_step, loss, accuracy, **more)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> TrainerControl:
        """A step is done."""
        if _is_distributed() and state.global_step % self._agree_every != 0:
            return control
        save, stop = _any_of(self.session.should_checkpoint(), self.session.should_stop())
        control.should_save = control.should_save or save
        control.should_training_stop = control.should_training_stop or stop
        return control

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """A checkpoint is on disk."""
        self.session.checkpointed(state.global_step)


def _is_distributed() -> bool:
    import torch.distributed as dist

    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _any_of(save: bool, stop: bool) -> Tuple[bool, bool]:
    """Whether any process of the job says so."""
    if not _is_distributed():
        return save, stop
    import torch
    import torch.distributed as dist

    device = "cuda" if "nccl" in str(dist.get_backend()) else "cpu"
    said = torch.tensor([int(save), int(stop)], device=device)
    dist.all_reduce(said, op=dist.ReduceOp.MAX)
    return bool(said[0].item()), bool(said[1].item())
