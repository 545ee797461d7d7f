"""What a session says, when it asks to save and to stop, and that nothing ends the training."""

import os
import signal
import subprocess
import sys
import threading
import unittest

from support import PYTHON, Attempt

import trainyard
from trainyard._environment import Environment
from trainyard._outlets import Outlet
from trainyard._session import Session


class Tensor:
    """Like one of PyTorch or numpy: a number only if it has one element."""

    def __init__(self, *values):
        self.values = values

    def __float__(self):
        if len(self.values) != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return float(self.values[0])


class Reports(Attempt):
    def test_a_report_is_a_line_as_the_contract_has_it(self):
        session = self.session()
        session.report(1, 0.5)
        session.report(step=2, loss=Tensor(0.25), accuracy=0.75, lr=1e-3, note="x", shape=[1, 2], thing=Tensor())
        session.checkpointed(2)
        one, two, three = self.lines()
        self.assertEqual(one, {"iteration": 1, "loss": 0.5})
        self.assertEqual((two["iteration"], two["loss"], two["accuracy"]), (2, 0.25, 0.75))
        self.assertEqual((two["more"]["lr"], two["more"]["note"], two["more"]["shape"]), (1e-3, "x", [1, 2]))
        self.assertIn("Tensor", two["more"]["thing"])
        self.assertEqual(three, {"saved": 2})

    def test_losses_that_are_not_finite_are_valid_json_and_stay_what_they_are(self):
        session = self.session()
        for loss in (float("nan"), float("inf"), float("-inf"), Tensor(float("nan"))):
            session.report(1, loss)
        self.assertEqual([line["loss"] for line in self.lines()], ["nan", "inf", "-inf", "nan"])

    def test_nonsense_is_told_once_and_never_raised(self):
        session = self.session()
        with self.assertLogs("trainyard", "WARNING") as told:
            session.report(1, Tensor(1, 2))
            session.report(2, Tensor(1, 2))
            session.report("three", 0.5)
            session.report(4, 0.5, long="x" * 100_000, many=["y" * 100] * 1000)
            session.checkpointed(object())
        lines = self.lines()
        self.assertEqual(lines[:3], [{"iteration": 1}, {"iteration": 2}, {"loss": 0.5}])
        self.assertEqual(lines[3], {"iteration": 4, "loss": 0.5})
        self.assertEqual(len(told.output), 4, told.output)

    def test_an_outlet_that_fails_in_any_way_does_not_reach_the_script(self):
        class Broken(Outlet):
            def send(self, line):
                raise RuntimeError("broken")

        session = Session(Environment.read(self.variables()), Broken())
        with self.assertLogs("trainyard", "WARNING"):
            session.report(1, 0.5)

    def test_only_rank_0_and_not_its_children_report(self):
        self.session(RANK="1", WORLD_SIZE="2").report(1, Tensor(1, 2))
        self.assertEqual(self.lines(), [])
        session = self.session(RANK="0", WORLD_SIZE="2")
        child = os.fork()
        if child == 0:
            session.report(1, 0.5)
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.lines(), [])
        session.report(2, 0.5)
        self.assertEqual(self.lines(), [{"iteration": 2, "loss": 0.5}])

    def test_many_threads_write_whole_lines(self):
        session = self.session()
        threads = [
            threading.Thread(target=lambda: [session.report(i, 0.5, pad="x" * 3000) for i in range(100)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sum(line["iteration"] for line in self.lines()), 4 * sum(range(100)))


class Variables(Attempt):
    def test_what_the_scheduler_says_at_the_start_is_known(self):
        session = self.session(TRAINYARD_RESUME_ITERATION="120", WORLD_SIZE="3")
        self.assertEqual((session.resume_step, session.workers, session.is_inside), (120, 3, True))
        self.assertEqual(session.checkpoint_dir, self.folder / "checkpoints")
        self.assertTrue(session.checkpoint_dir.is_dir())

    def test_numbers_that_are_none_are_told_and_do_no_harm(self):
        with self.assertLogs("trainyard", "WARNING") as told:
            session = self.session(TRAINYARD_RESUME_ITERATION="many", RANK="-1", WORLD_SIZE="nan")
        self.assertEqual((session.resume_step, session.workers), (0, 1))
        self.assertEqual(len(told.output), 3)
        self.assertEqual(self.session(TRAINYARD_RESUME_ITERATION="12.0").resume_step, 12)

    def test_outside_nothing_happens_and_everything_works(self):
        before = signal.getsignal(signal.SIGTERM)
        outside = Environment.read({"RANK": "0"})
        session = Session(outside, Outlet(), checkpoint_every_s=5.0, checkpoint_dir=self.folder / "own", clock=self.clock)
        session.report(1, Tensor(1, 2))
        session.on_resize(lambda control: self.fail("nobody resizes"))
        self.assertEqual((session.should_stop(), session.should_checkpoint(), session.is_inside), (False, False, False))
        self.assertIs(signal.getsignal(signal.SIGTERM), before)
        self.clock.now += 5.0
        self.assertTrue(session.should_checkpoint(), "to save now and then is useful anywhere")
        self.assertEqual((session.workers, session.resume_step), (1, 0))
        self.assertEqual(session.checkpoint_dir, self.folder / "own")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["own"])


class Stops(Attempt):
    def kill(self):
        os.kill(os.getpid(), signal.SIGTERM)

    def test_the_control_file_tells_to_save_and_then_to_stop(self):
        session = self.session()
        self.say(workers=1, stop=False)
        self.assertEqual((session.should_checkpoint(), session.should_stop()), (False, False))
        self.say(workers=1, stop=True, grace_s=10)
        self.assertTrue(session.should_checkpoint())
        self.assertTrue(session.should_checkpoint(), "until it has saved")
        session.checkpointed(3)
        self.assertEqual((session.should_checkpoint(), session.should_stop()), (False, True))
        self.assertEqual(session.control.grace_s, 10)
        self.say(workers=1, stop=False)
        self.assertTrue(session.should_stop(), "a stop is not taken back")

    def test_sigterm_tells_the_same_and_is_given_back(self):
        before = signal.getsignal(signal.SIGTERM)
        session = self.session()
        session.report(1, 0.5)
        self.assertIs(signal.getsignal(signal.SIGTERM), before, "who never asks is ended by the signal as ever")
        self.assertFalse(session.should_checkpoint())
        self.kill()
        self.assertTrue(session.should_checkpoint())
        session.checkpointed(1)
        self.assertEqual((session.should_checkpoint(), session.should_stop()), (False, True))
        self.kill()
        self.assertTrue(session.should_stop(), "a second signal changes nothing")
        session.close()
        self.kill()
        self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_IGN, "nor does one that comes while it leaves")
        signal.signal(signal.SIGTERM, before)
        undisturbed = self.session()
        undisturbed.should_stop()
        self.assertIsNot(signal.getsignal(signal.SIGTERM), before)
        undisturbed.close()
        self.assertIs(signal.getsignal(signal.SIGTERM), before)

    def test_a_stop_between_the_two_questions_does_not_skip_the_save(self):
        session = self.session()
        self.assertFalse(session.should_checkpoint())
        self.kill()
        self.assertFalse(session.should_stop(), "first it has to save")
        self.assertTrue(session.should_checkpoint())
        session.checkpointed(1)
        self.assertTrue(session.should_stop())

    def test_a_script_that_only_asks_to_stop_is_stopped(self):
        session = self.session()
        self.assertFalse(session.should_stop())
        self.kill()
        self.assertTrue(session.should_stop())

    def test_a_handler_that_was_there_is_called_too_unless_it_is_not_wanted(self):
        called = []
        before = signal.signal(signal.SIGTERM, lambda *_: called.append(1))
        self.addCleanup(signal.signal, signal.SIGTERM, before)
        session = self.session()
        session.should_stop()
        self.kill()
        self.assertEqual((called, session.should_stop()), ([1], True))
        session.close()
        signal.signal(signal.SIGTERM, lambda *_: called.append(3))
        alone = self.session({"is_signal_shared": False})
        alone.should_stop()
        self.kill()
        self.assertEqual((called, alone.should_stop()), ([1], True))
        alone.close()
        signal.signal(signal.SIGTERM, lambda *_: called.append(4))
        taken = self.session()
        taken.should_stop()
        signal.signal(signal.SIGTERM, lambda *_: called.append(2))
        taken.take_signal()
        self.kill()
        self.assertEqual((called, taken.should_stop()), ([1], True))

    def test_in_another_thread_the_file_still_tells(self):
        session = self.session()
        self.say(stop=True)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(session.should_stop()))
        thread.start()
        thread.join()
        self.assertEqual(answers, [True])

    def test_checkpoints_are_due_by_time(self):
        session = self.session({"checkpoint_every_s": 60.0})
        self.clock.now += 59.0
        self.assertFalse(session.should_checkpoint())
        self.clock.now += 1.0
        self.assertTrue(session.should_checkpoint())
        session.checkpointed(9)
        self.assertFalse(session.should_checkpoint())


class Resizes(Attempt):
    def test_callbacks_are_called_in_the_next_call_and_once(self):
        self.say(workers=2, servers=1, cpus=0.5)
        session = self.session()
        self.assertEqual((session.workers, session.control.servers, session.control.cpus), (2, 1, 0.5))
        seen = []

        @session.on_resize
        def resized(control):
            seen.append(control.workers)
            session.report(1, 0.5)

        session.report(1, 0.5)
        self.assertEqual(seen, [])
        self.say(workers=4, servers=1, cpus=0.5, anything={"else": []})
        self.assertEqual(seen, [])
        session.should_stop()
        session.report(2, 0.5)
        self.assertEqual((seen, session.workers), ([4], 4))
        self.say(workers=4, servers=1, cpus=0.5)
        session.report(3, 0.5)
        self.say(workers=8, version=1)
        session.report(4, 0.5)
        self.assertEqual((seen, session.workers), ([4], 4), "neither the same size nor an old version is news")

    def test_a_file_that_is_broken_changes_nothing(self):
        session = self.session()
        self.say(version=0, workers=3)
        session.report(1)
        self.assertEqual(session.workers, 3, "versions may begin with nought")
        broken = [b"", b"{", b"[]", b"\xff", b'{"workers": 9}', b'{"version": 9, "stop": "yes"}']
        broken += [b'{"version": 9, "workers": -1}', b'{"version": true}', b'{"version": 9, "cpus": NaN}']
        with self.assertLogs("trainyard", "WARNING") as told:
            for text in broken:
                self.control.write_bytes(text)
                self.clock.now += 1.0
                session.report(2)
                self.assertEqual((session.workers, session.should_stop()), (3, False), text)
        self.assertEqual(len(told.output), 1)
        self.say(version=10, workers=5)
        session.report(3)
        self.assertEqual(session.workers, 5, "and it is read again once it is whole")

    def test_the_file_is_not_looked_at_in_each_iteration(self):
        self.say(workers=1)
        session = self.session()
        session.report(1)
        self.say(workers=2)
        self.clock.now -= 1.0
        session.report(2)
        self.assertEqual(session.workers, 1)
        self.clock.now += 0.2
        session.report(3)
        self.assertEqual(session.workers, 2)


class Shortcuts(Attempt):
    def test_the_module_speaks_to_the_session_that_is_open(self):
        kept = dict(os.environ)
        os.environ.update(self.variables())
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(kept)))
        with trainyard.job() as session:
            self.assertIs(trainyard.current(), session)
            trainyard.report(1, 0.5)
            trainyard.checkpointed(1)
            trainyard.on_resize(lambda control: None)
            self.assertEqual((trainyard.should_checkpoint(), trainyard.should_stop()), (False, False))
        session.report(2, 0.5)
        self.assertEqual(self.lines(), [{"iteration": 1, "loss": 0.5}, {"saved": 1}], "it is closed")
        with self.assertRaises(ZeroDivisionError), trainyard.job():
            raise ZeroDivisionError
        self.assertIsNot(trainyard.current(), session)

    def test_nothing_is_imported_that_a_script_might_not_have(self):
        script = "import sys, trainyard; print([n for n in ('torch', 'numpy', 'transformers') if n in sys.modules])"
        environment = {**os.environ, "PYTHONPATH": str(PYTHON)}
        output = subprocess.run([sys.executable, "-c", script], env=environment, check=True, stdout=subprocess.PIPE)
        self.assertEqual(output.stdout, b"[]\n")


if __name__ == "__main__":
    unittest.main()
