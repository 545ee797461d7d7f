"""A copy of a job: it saves when all are to be brought together, waits, takes up what came of it, and trains no further than it may."""

import json
import os
import unittest

from support import Attempt


class Copies(Attempt):
    def copy(self, **more):
        self.answers = self.folder / "merge.json"
        session = self.session(
            TRAINYARD_COPY="1", TRAINYARD_COPIES="3", TRAINYARD_MERGE_FILE=str(self.answers), **more
        )
        # Time goes by while it waits.
        session._copies._sleep = self.sleep
        self.said_later = []
        return session

    def sleep(self, seconds):
        self.clock.now += 1.0
        if not self.said_later:
            self.fail("it waits for something that nobody says")
        self.say(**self.said_later.pop(0))

    def answer(self):
        return json.loads(self.answers.read_text())

    def test_without_copies_nothing_is_waited_for(self):
        self.say(until=0, merge=1, merged=0)
        session = self.session()
        session.report(1, 0.5)
        session.resumed(1)
        self.assertFalse(session.should_checkpoint() or session.is_merged() or session.should_stop())
        self.assertEqual((session.copy, session.copies), (0, 1))

    def test_it_saves_waits_and_takes_up_what_came_of_it_once(self):
        self.say(until=100, merge=0, merged=0)
        session = self.copy()
        self.assertEqual((session.copy, session.copies), (1, 3))
        session.resumed(10)
        self.assertEqual(self.answer(), {"merge": 0, "iteration": 10})
        session.report(11, 0.5)
        self.assertFalse(session.should_checkpoint() or session.is_merged())
        self.say(until=100, merge=1, merged=0)
        session.report(12, 0.5)
        self.assertTrue(session.should_checkpoint())
        session.checkpointed(12)
        self.assertEqual(self.answer(), {"merge": 1, "iteration": 12})
        self.said_later = [dict(until=100, merge=1, merged=0), dict(until=200, merge=1, merged=1)]
        self.assertTrue(session.is_merged())
        self.assertFalse(session.is_merged() or session.should_checkpoint() or session.should_stop())

    def test_it_is_told_which_part_of_the_data_is_its_own(self):
        self.say(until=100, merge=0, merged=0)
        session = self.copy()
        self.assertIsNone(session.part)
        self.say(until=100, merge=1, merged=1, part=[0.25, 0.75])
        session.report(1, 0.5)
        self.assertEqual(session.part, (0.25, 0.75))
        # What is none is passed over, with all that is said beside it.
        for wrong in ([0.75, 0.25], [0.5], "half", [0.0, 1.5], [None, 1]):
            self.say(until=7, merge=1, merged=1, part=wrong)
            session.report(2, 0.5)
            self.assertEqual((session.part, session.control.until), ((0.25, 0.75), 100))
        self.say(until=200, merge=1, merged=1)
        session.report(3, 0.5)
        self.assertIsNone(session.part)

    def test_it_trains_no_further_than_it_may(self):
        self.say(until=5, merge=0, merged=0)
        session = self.copy()
        session.report(4, 0.5)
        self.assertFalse(session.should_checkpoint())
        session.report(5, 0.5)
        self.said_later = [dict(until=5, merge=0, merged=0), dict(until=9, merge=0, merged=0)]
        self.assertFalse(session.should_checkpoint())
        session.report(9, 0.5)
        self.said_later = [dict(until=9, merge=1, merged=0)]
        self.assertTrue(session.should_checkpoint(), "it is asked to save while it waits")
        session.checkpointed(9)
        self.said_later = [dict(until=9, merge=1, merged=0, stop=True)]
        self.assertFalse(session.is_merged())
        self.assertTrue(session.should_stop(), "what it saved is all that it has done")

    def test_a_stop_ends_the_waiting(self):
        self.say(until=5, merge=0, merged=0)
        session = self.copy()
        session.report(5, 0.5)
        self.said_later = [dict(until=5, merge=0, merged=0, stop=True)]
        self.assertTrue(session.should_checkpoint())
        session.checkpointed(5)
        self.assertFalse(session.is_merged())
        self.assertTrue(session.should_stop())

    def test_only_rank_0_answers(self):
        self.say(until=5, merge=1, merged=0)
        session = self.copy(RANK="1", WORLD_SIZE="2")
        session.report(1, 0.5)
        self.assertTrue(session.should_checkpoint())
        session.checkpointed(1)
        self.assertFalse(self.answers.exists())
        self.said_later = [dict(until=9, merge=1, merged=1)]
        self.assertTrue(session.is_merged())

    def test_an_answer_that_cannot_be_written_is_told_and_not_raised(self):
        self.say(until=5, merge=1, merged=0)
        session = self.copy()
        os.mkdir(self.answers)
        session.report(1, 0.5)
        self.assertTrue(session.should_checkpoint())
        with self.assertLogs("trainyard", "WARNING"):
            session.checkpointed(1)


if __name__ == "__main__":
    unittest.main()
