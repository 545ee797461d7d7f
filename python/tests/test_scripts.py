"""Real scripts in processes of their own: they are stopped, they save, and go on to the same end."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

from support import EXAMPLES, PYTHON, Attempt, Listener

LIMIT_S = 120


class Scripts(Attempt):
    def start(self, script, *arguments, inside=True, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD")}
        environment["PYTHONPATH"] = str(PYTHON)
        environment.update(self.variables(**variables) if inside else {})
        command = [sys.executable, str(EXAMPLES / script), *arguments]
        process = subprocess.Popen(
            command, env=environment, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(process.kill)
        return process

    def end(self, process):
        output, errors = process.communicate(timeout=LIMIT_S)
        self.assertEqual(errors, "")
        return output

    def follow_to(self, process, step):
        """Waits until the script has reported this step."""
        while process.poll() is None:
            steps = [json.loads(line).get("iteration", 0) for line in self.whole_lines()]
            if steps and max(steps) >= step:
                return
            wait_a_moment()
        self.fail(f"it ended before step {step}: {process.communicate()}")

    def whole_lines(self):
        text = self.progress.read_text() if self.progress.exists() else ""
        return text[: text.rfind("\n") + 1].splitlines()

    def undisturbed(self, steps):
        return self.end(self.start("hooked.py", f"--steps={steps}", "--seconds-a-step=0", inside=False)).splitlines()[-1]

    def saved(self):
        return json.loads((self.folder / "checkpoints" / "state.json").read_text())["step"]

    def test_sigterm_makes_it_save_and_exit_with_0_and_it_goes_on_to_the_same_end(self):
        arguments = ("--steps=300", "--seconds-a-step=0.005", "--checkpoint-every-s=1000")
        process = self.start("hooked.py", *arguments)
        self.follow_to(process, 20)
        process.send_signal(signal.SIGTERM)
        output = self.end(process)
        self.assertEqual(process.returncode, 0)
        stopped = int(re.search(r"stops after step (\d+)", output).group(1))
        self.assertTrue(20 <= stopped < 300, stopped)
        self.assertEqual(self.saved(), stopped)
        self.assertEqual(self.lines()[-1], {"saved": stopped})

        again = self.start("hooked.py", *arguments, TRAINYARD_RESUME_ITERATION=str(stopped), TRAINYARD_ATTEMPT="2")
        output = self.end(again)
        self.assertEqual(again.returncode, 0)
        self.assertIn(f"begins after step {stopped}\n", output)
        self.assertEqual(self.lines()[-1], {"saved": 300})
        (self.folder / "checkpoints" / "state.json").unlink()
        self.assertEqual(output.splitlines()[-1], self.undisturbed(300))

    def test_the_control_file_stops_and_resizes_it(self):
        self.say(workers=1, servers=0, cpus=1.0, stop=False, grace_s=10)
        process = self.start("hooked.py", "--steps=100000", "--seconds-a-step=0.005")
        self.follow_to(process, 5)
        self.say(workers=3, servers=0, cpus=1.0, stop=False, grace_s=10)
        self.assertEqual(process.stdout.readline(), "begins after step 0\n")
        self.assertEqual(process.stdout.readline(), "has 3 workers now\n")
        self.say(workers=3, servers=0, cpus=1.0, stop=True, grace_s=10)
        output = self.end(process)
        self.assertEqual(process.returncode, 0)
        self.assertIn(f"stops after step {self.saved()}\n", output)

    def test_a_signal_that_comes_while_it_leaves_does_not_spoil_a_good_stop(self):
        script = """if True:
            import trainyard, sys
            with trainyard.job() as session:
                while not session.should_stop():
                    pass
            print("leaves", flush=True)
            sys.stdin.readline()
        """
        environment = {**self.variables(), "PYTHONPATH": str(PYTHON)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen([sys.executable, "-c", script], env=environment, **pipes)
        self.addCleanup(process.kill)
        self.say(workers=1, stop=True)
        self.assertEqual(process.stdout.readline(), "leaves\n")
        process.send_signal(signal.SIGTERM)
        process.communicate("\n", timeout=LIMIT_S)
        self.assertEqual(process.returncode, 0)

    def test_a_script_that_is_killed_goes_on_from_what_it_saved_by_itself(self):
        arguments = ("--steps=100", "--seconds-a-step=0.005", "--checkpoint-every-s=0.05")
        process = self.start("hooked.py", *arguments)
        self.follow_to(process, 50)
        process.kill()
        process.communicate(timeout=LIMIT_S)
        told = [json.loads(line)["saved"] for line in self.whole_lines() if "saved" in line]
        self.assertTrue(told)
        self.assertGreaterEqual(self.saved(), max(told), "what is said to be saved is on disk")
        output = self.end(self.start("hooked.py", *arguments))
        self.assertIn(f"begins after step {self.saved_at_begin(output)}\n", output)
        self.assertGreaterEqual(self.saved_at_begin(output), max(told))

    def saved_at_begin(self, output):
        return int(re.search(r"begins after step (\d+)", output).group(1))

    def test_a_script_without_the_hook_prints_its_loss_and_ends_at_the_signal(self):
        process = self.start("plain.py", "--steps=100000", "--seconds-a-step=0.001")
        line = process.stdout.readline()
        self.assertRegex(line, r"^step 1 loss \d\.\d+$")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual(self.whole_lines(), [])

    def test_reports_over_http_arrive_before_a_script_ends(self):
        listener = Listener()
        self.addCleanup(listener.close)
        away = {"TRAINYARD_PROGRESS_FILE": None, "TRAINYARD_URL": listener.url, "TRAINYARD_TOKEN": "secret"}
        self.end(self.start("hooked.py", "--steps=50", "--seconds-a-step=0", **away))
        self.assertEqual(listener.reports[-1], {"saved": 50})
        self.assertEqual([r["iteration"] for r in listener.reports if "iteration" in r], list(range(1, 51)))
        alone = self.variables(**away)
        script = "import trainyard; [trainyard.report(step, 0.5) for step in range(900, 1000)]"
        subprocess.run([sys.executable, "-c", script], env={**alone, "PYTHONPATH": str(PYTHON)}, check=True)
        self.assertEqual([r["iteration"] for r in listener.reports[-100:]], list(range(900, 1000)))


def wait_a_moment():
    """Gives the other process the processor."""
    time.sleep(0.005)


if __name__ == "__main__":
    unittest.main()
