"""A callback for Lightning, which must be installed as `lightning` or `pytorch_lightning`.

    callback = TrainyardCallback()
    trainer = Trainer(..., callbacks=[callback])
    trainer.fit(model, ckpt_path=callback.last_checkpoint())
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.callbacks import Callback
else:
    try:
        from lightning.pytorch import LightningModule, Trainer
        from lightning.pytorch.callbacks import Callback
    except ImportError:
        from pytorch_lightning import LightningModule, Trainer
        from pytorch_lightning.callbacks import Callback

from ._current import current
from ._session import Session

_NAME = re.compile(r"trainyard-step=(\d+)\.ckpt")


class TrainyardCallback(Callback):
    """Reports losses each `Trainer.log_every_n_steps`, saves and stops when told to, and says what is saved.

    Processes of one job ask each other each `agree_every` steps, so that all of them save at the same step. Checkpoints lie in
    the folder of the session; the latest two are kept. An accuracy is taken from what the module logs under `accuracy`.
    """

    def __init__(self, session: Optional[Session] = None, agree_every: int = 10, accuracy: str = "val_acc") -> None:
        self._session = session
        self._agree_every = max(1, agree_every)
        self._accuracy = accuracy

    @property
    def session(self) -> Session:
        """The session that it speaks to: the one that it was given, or the one that is open."""
        return self._session or current()

    def last_checkpoint(self) -> Optional[str]:
        """The newest of its checkpoints; nothing if there is none, which means a start from the beginning."""
        found = self._checkpoints()
        return str(found[-1][1]) if found else None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning ends the process at SIGTERM without a checkpoint of its own; from here on the session has the signal."""
        self.session.take_signal()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """A batch is done."""
        step = trainer.global_step
        # Lightning sets it where type checkers do not see it; 0 means that nothing is logged.
        every_steps = getattr(trainer, "log_every_n_steps", 0)
        if every_steps > 0 and step > 0 and step % every_steps == 0:
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            self.session.report(step, loss)
        is_alone = trainer.world_size == 1
        if not is_alone and step % self._agree_every != 0:
            return
        said = (self.session.should_checkpoint(), self.session.should_stop())
        if not is_alone:
            agree = trainer.strategy.reduce_boolean_decision
            said = (agree(said[0], all=False), agree(said[1], all=False))
        save, stop = said
        if save:
            self._save(trainer, step)
        if stop:
            trainer.should_stop = True

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A validation is done."""
        accuracy = trainer.callback_metrics.get(self._accuracy)
        if accuracy is not None and not trainer.sanity_checking:
            self.session.report(trainer.global_step, accuracy=accuracy)

    def _save(self, trainer: Trainer, step: int) -> None:
        older = self._checkpoints()
        trainer.save_checkpoint(self.session.checkpoint_dir / f"trainyard-step={step}.ckpt")
        self.session.checkpointed(step)
        if trainer.is_global_zero:
            for _, path in older[:-1]:
                # A folder is a sharded checkpoint; its strategy knows how it is laid out.
                trainer.strategy.remove_checkpoint(path)

    def _checkpoints(self) -> List[Tuple[int, Path]]:
        found = ((_NAME.fullmatch(path.name), path) for path in self.session.checkpoint_dir.iterdir())
        return sorted((int(name.group(1)), path) for name, path in found if name)
