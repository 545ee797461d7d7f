"""The callbacks in the real Trainers of transformers and Lightning, where these are installed."""

import importlib
import importlib.util
import logging
import os
import signal
import subprocess
import sys
import textwrap
import unittest
import warnings

from support import PYTHON, Attempt


def need(test, *packages):
    """Skips, and says so, if a package is not there."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            print(f"skipped: {test} needs the package {package}, which is not installed", file=sys.stderr)
            raise unittest.SkipTest(f"{package} is not installed")


def quiet():
    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "pytorch_lightning", "transformers", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)


class HuggingFace(Attempt):
    def setUp(self):
        need("the callback for transformers", "torch", "transformers", "accelerate")
        super().setUp()
        quiet()
        self.output = self.folder / "output"

    def trainer(self, session, *callbacks):
        import torch
        from transformers import Trainer, TrainingArguments

        from trainyard.huggingface import TrainyardCallback

        class Line(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.line = torch.nn.Linear(4, 1)

            def forward(self, x, labels=None):
                predicted = self.line(x).squeeze(-1)
                return {"loss": ((predicted - labels) ** 2).mean(), "logits": predicted}

        torch.manual_seed(1)
        x = torch.randn(256, 4)
        rows = [{"x": row, "labels": row.sum()} for row in x]
        arguments = TrainingArguments(
            output_dir=str(self.output),
            per_device_train_batch_size=8,
            max_steps=40,
            logging_steps=2,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            seed=3,
        )
        return Trainer(
            model=Line(), args=arguments, train_dataset=rows, callbacks=[*callbacks, TrainyardCallback(session)]
        )

    def test_it_reports_saves_at_the_signal_and_goes_on_to_the_same_end(self):
        from transformers import TrainerCallback

        from trainyard.huggingface import last_checkpoint

        class Terminate(TrainerCallback):
            def on_step_end(self, args, state, control, **others):
                if state.global_step == 7:
                    os.kill(os.getpid(), signal.SIGTERM)

        undisturbed = self.trainer(self.session())
        undisturbed.train()
        whole = {line["iteration"]: line["loss"] for line in self.lines() if "loss" in line}
        self.assertEqual(sorted(whole), list(range(2, 41, 2)))
        self.assertIsNone(last_checkpoint(str(self.output)))

        self.progress.unlink()
        session = self.session()
        session.should_stop()
        first = self.trainer(session, Terminate())
        first.train()
        self.assertEqual(first.state.global_step, 7)
        self.assertEqual(self.lines()[-1], {"saved": 7})
        session.close()

        (self.output / "checkpoint-9").mkdir()
        found = last_checkpoint(str(self.output))
        self.assertEqual(found, str(self.output / "checkpoint-7"), "half a checkpoint is none")
        second = self.trainer(self.session())
        second.train(resume_from_checkpoint=found)
        self.assertEqual(second.state.global_step, 40)
        resumed = {line["iteration"]: line["loss"] for line in self.lines() if "loss" in line}
        self.assertEqual(resumed[40], whole[40])
        for ours, theirs in zip(second.model.parameters(), undisturbed.model.parameters()):
            self.assertTrue(bool((ours == theirs).all()))

    def test_if_one_process_is_told_all_of_them_know(self):
        script = """
            import sys, torch.distributed as dist
            rank = int(sys.argv[1])
            dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
            from trainyard.huggingface import _any_of
            print(_any_of(rank == 1, False), _any_of(False, False))
            dist.destroy_process_group()
        """
        command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
        processes = [
            subprocess.Popen(
                [*command, str(rank), str(self.folder / "meet")],
                env={**os.environ, "PYTHONPATH": str(PYTHON), "GLOO_SOCKET_IFNAME": "lo"},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        for process in processes:
            self.addCleanup(process.kill)
        for process in processes:
            output, _ = process.communicate(timeout=240)
            self.assertEqual(output, "(True, False) (False, False)\n")


class Lightning(Attempt):
    def setUp(self):
        package = "lightning" if importlib.util.find_spec("lightning") else "pytorch_lightning"
        need("the callback for Lightning", "torch", package)
        super().setUp()
        quiet()
        self.pl = importlib.import_module("lightning.pytorch" if package == "lightning" else package)

    def fit(self, session, kill_at=None, every_n_steps=2):
        import torch

        from trainyard.lightning import TrainyardCallback

        pl, outer = self.pl, self

        class Line(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.line = torch.nn.Linear(4, 1)

            def training_step(self, batch, index):
                # Before the callback is asked, in the middle of a batch.
                if self.global_step + 1 == kill_at:
                    os.kill(os.getpid(), signal.SIGTERM)
                return ((self.line(batch[0]).squeeze(-1) - batch[0].sum(dim=1)) ** 2).mean()

            def validation_step(self, batch, index):
                self.log("val_acc", 0.5)

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.05)

        torch.manual_seed(1)
        data = torch.utils.data.TensorDataset(torch.randn(80, 4))
        loader = torch.utils.data.DataLoader(data, batch_size=8)
        callback = TrainyardCallback(session)
        trainer = pl.Trainer(
            max_epochs=4,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            log_every_n_steps=every_n_steps,
            default_root_dir=str(self.folder),
            callbacks=[callback],
        )
        model = Line()
        trainer.fit(model, loader, loader, ckpt_path=callback.last_checkpoint())
        return trainer, model, callback

    def test_it_reports_saves_at_the_signal_and_goes_on(self):
        undisturbed, _, callback = self.fit(self.session())
        self.assertEqual(undisturbed.global_step, 40)
        lines = self.lines()
        self.assertEqual([line["iteration"] for line in lines if "loss" in line], list(range(2, 41, 2)))
        self.assertEqual([line["iteration"] for line in lines if "accuracy" in line], [10, 20, 30, 40])
        self.assertIsNone(callback.last_checkpoint())

        self.progress.unlink()
        first, _, callback = self.fit(self.session(), kill_at=13)
        self.assertEqual(first.global_step, 13, "it ended there, and not by an exception")
        self.assertEqual(self.lines()[-2], {"saved": 13})
        self.assertEqual(self.lines()[-1]["iteration"], 13, "it validates once more, after it has saved")
        self.assertTrue(callback.last_checkpoint().endswith("trainyard-step=13.ckpt"))
        second, _, _ = self.fit(self.session())
        self.assertEqual(second.current_epoch, 4)
        self.assertGreater(second.global_step, 13)

    def test_the_latest_two_checkpoints_are_kept(self):
        session = self.session({"checkpoint_every_s": 0.0})
        trainer, _, callback = self.fit(session)
        kept = sorted(path.name for path in session.checkpoint_dir.iterdir())
        self.assertEqual(kept, ["trainyard-step=39.ckpt", "trainyard-step=40.ckpt"])


if __name__ == "__main__":
    unittest.main()
