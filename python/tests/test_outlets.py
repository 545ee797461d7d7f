"""Where reports go: the file first, HTTP where there is none; nothing is held up, and what is lost is told."""

import os
import socket
import time
import unittest
from unittest import mock

from support import Attempt, Listener

from trainyard._outlets import HttpOutlet


def quick(listener_url, token="secret"):
    outlet = HttpOutlet(listener_url, token)
    outlet.FIRST_PAUSE_S, outlet.LONGEST_PAUSE_S = 0.01, 0.02
    return outlet


class Http(Attempt):
    def listener(self, codes=()):
        listener = Listener(codes)
        self.addCleanup(listener.close)
        return listener

    def test_without_a_file_reports_go_over_http_and_all_arrive_by_the_end(self):
        listener = self.listener()
        session = self.session(TRAINYARD_PROGRESS_FILE=None, TRAINYARD_URL=listener.url + "/", TRAINYARD_TOKEN="secret")
        for step in range(500):
            session.report(step, 0.5)
        session.close()
        self.assertEqual([report["iteration"] for report in listener.reports], list(range(500)))
        self.assertEqual((listener.tokens, listener.paths), ({"Bearer secret"}, {"/v1/progress"}))

    def test_a_file_that_cannot_be_opened_or_written_makes_way_for_http(self):
        listener = self.listener()
        away = {"TRAINYARD_URL": listener.url, "TRAINYARD_TOKEN": "secret"}
        with self.assertLogs("trainyard", "WARNING"):
            session = self.session(TRAINYARD_PROGRESS_FILE=str(self.folder / "no" / "file"), **away)
        session.report(1, 0.5)
        session.close()
        full = self.session(**away)
        with mock.patch("os.write", side_effect=OSError(28, "No space left on device")):
            full.report(2, 0.5)
        full.report(3, 0.5)
        full.close()
        self.assertEqual([report["iteration"] for report in listener.reports], [1, 2, 3])
        self.assertEqual(self.lines(), [])

    def test_with_a_file_nothing_is_sent(self):
        listener = self.listener()
        session = self.session(TRAINYARD_URL=listener.url, TRAINYARD_TOKEN="secret")
        session.report(1, 0.5)
        session.close()
        self.assertEqual((len(self.lines()), listener.reports), (1, []))

    def test_what_may_pass_is_tried_again_and_keeps_its_order(self):
        listener = self.listener([503, 429, 500])
        outlet = quick(listener.url)
        with self.assertLogs("trainyard", "WARNING") as told:
            for i in range(3):
                outlet.send(str(i))
            self.assertTrue(listener.wait(lambda it: len(it.reports) == 3))
            outlet.close(5.0)
        self.assertEqual(listener.reports, [0, 1, 2])
        self.assertEqual(len(told.output), 3, "nothing was lost in the end")

    def test_what_is_refused_is_told_and_not_tried_again(self):
        listener = self.listener([401])
        outlet = quick(listener.url)
        with self.assertLogs("trainyard", "WARNING") as told:
            outlet.send("1")
            self.assertTrue(listener.wait(lambda it: not it.codes))
            outlet.send("2")
            self.assertTrue(listener.wait(lambda it: it.reports))
            outlet.close(5.0)
        self.assertEqual(listener.reports, [2])
        self.assertTrue(any("401" in line for line in told.output))
        self.assertTrue(any("1 reports did not reach" in line for line in told.output))

    def test_the_token_is_not_carried_elsewhere(self):
        listener = self.listener([302])
        outlet = quick(listener.url)
        with self.assertLogs("trainyard", "WARNING"):
            outlet.send("1")
            self.assertTrue(listener.wait(lambda it: not it.codes))
            outlet.close(5.0)
        self.assertEqual((listener.paths, listener.reports), ({"/v1/progress"}, []))

    def test_a_scheduler_that_is_away_costs_no_time_and_little_memory(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(0)
            # It is connected to and never answers.
            outlet = quick(f"http://127.0.0.1:{silent.getsockname()[1]}")
            outlet.MOST_WAITING = 50
            began = time.perf_counter()
            with self.assertLogs("trainyard", "WARNING"):
                for i in range(20_000):
                    outlet.send(str(i))
                self.assertLess(time.perf_counter() - began, 2.0)
                self.assertLessEqual(len(outlet._waiting), 50)
                self.assertEqual(outlet._waiting[-1], "19999", "the latest stays")
                began = time.perf_counter()
                outlet.close(0.2)
                self.assertLess(time.perf_counter() - began, 2.0)
                self.assertFalse(outlet.send("late"))
                silent.close()
                outlet._thread.join(20.0)

    def test_a_scheduler_that_comes_back_gets_the_latest(self):
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            dead = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        listener = self.listener()
        outlet = quick(dead)
        with self.assertLogs("trainyard", "WARNING") as told:
            outlet.send("1")
            while not told.output:
                time.sleep(0.005)
        outlet._url = listener.url + "/v1/progress"
        self.assertTrue(listener.wait(lambda it: it.reports == [1]))
        outlet.close(5.0)

    def test_only_http_is_spoken(self):
        with self.assertRaises(ValueError):
            HttpOutlet("file:///etc", "secret")
        with self.assertLogs("trainyard", "WARNING"):
            session = self.session(TRAINYARD_PROGRESS_FILE=None, TRAINYARD_URL="ftp://somewhere")
        session.report(1, 0.5)


class Files(Attempt):
    def test_after_half_a_line_the_next_one_stands_alone(self):
        session = self.session()
        whole = os.write
        with mock.patch("os.write", side_effect=lambda file, data: whole(file, data[:5])):
            session.report(1, 0.5)
        session.report(2, 0.5)
        self.assertEqual(self.progress.read_text().splitlines()[1:], ['{"iteration": 2, "loss": 0.5}'])


if __name__ == "__main__":
    unittest.main()
