"""The state of a turn and its tries, without a server: what is asked for after a loss, and when."""

import logging
import unittest
from unittest import mock

from longstream import errors
from longstream.options import generate_request
from longstream.retries import Retries, RetryPolicy
from longstream.turn import Turn
from longstream.v1 import longstream_pb2 as pb

POLICY = RetryPolicy(timeout=10, first_pause=1, longest_pause=4, most_failures=2)
LOST = errors.UnavailableError("lost")
FAILED = errors.InternalError("failed")


def delta(text, ids, position):
    return pb.GenerateResponse(delta=pb.Delta(text=text, token_ids=ids, position=position))


class TurnTest(unittest.TestCase):
    def setUp(self):
        self.turn = Turn(generate_request("session", None, {"seed": 1}), Retries(POLICY), None)

    def resume(self):
        return self.turn.request().resume

    def test_the_first_request_resumes_nothing(self):
        self.assertFalse(self.turn.request().HasField("resume"))

    def test_a_request_has_all_that_has_arrived(self):
        self.turn.take(delta("a", [7], 11))
        self.turn.take(delta("bc", [8, 9], 13))
        self.assertEqual(self.resume(), pb.Resume(position=13, token_ids=[7, 8, 9]))
        self.assertEqual(self.turn.text, "abc")
        self.turn.take(delta("d", [4], 14))
        self.assertEqual(self.resume(), pb.Resume(position=14, token_ids=[7, 8, 9, 4]))

    def test_text_without_tokens_has_a_position_too(self):
        self.turn.take(delta("\ufffd", [], 10))
        self.assertEqual(self.resume(), pb.Resume(position=10))
        self.turn.take(delta("a", [7], 14))  # behind a prompt of three tokens
        self.assertEqual(self.turn.text, "\ufffda")

    def test_tokens_that_come_twice_or_not_at_all_are_refused(self):
        self.turn.take(delta("a", [7], 11))
        for ids, position in (([7], 11), ([8], 13), ([8, 9], 12)):
            with self.assertRaises(errors.DataLossError):
                self.turn.take(delta("x", ids, position))
        self.assertEqual((self.turn.text, self.turn.token_ids), ("a", [7]))

    def test_rows_of_the_twin_come_once(self):
        rows = []
        turn = Turn(generate_request("session", None, {"twin_model": "b"}), Retries(POLICY), None,
                    rows.append)
        self.assertEqual(turn.request().twin_model, "b")

        def take(first, ids):
            turn.take(pb.GenerateResponse(twin=pb.TwinRows(
                first_index=first, rows=[pb.TwinRow(token_id=each) for each in ids])))

        take(0, [7, 8])
        take(0, [7, 8, 9])  # the server has lost the turn
        take(3, [4])
        self.assertEqual([row.token_id for row in turn.twin_rows], [7, 8, 9, 4])
        self.assertEqual(rows, turn.twin_rows)
        self.assertIsNone(rows[0].kl)

    def test_it_ends_with_its_finish(self):
        self.turn.take(pb.GenerateResponse(started=pb.TurnStarted(how=pb.ATTACH_REPLAYED)))
        with self.assertRaises(RuntimeError):
            self.turn.generation()
        self.assertFalse(self.turn.ended)
        self.turn.take(pb.GenerateResponse(finish=pb.Finish(position=3)))
        self.assertTrue(self.turn.ended)
        self.assertEqual(self.turn.generation().finish.position, 3)

    def test_only_a_token_is_progress(self):
        self.turn.lost(FAILED)
        self.turn.take(pb.GenerateResponse(started=pb.TurnStarted()))
        self.turn.lost(FAILED)
        self.turn.take(delta("a", [7], 11))
        self.turn.lost(FAILED)
        self.turn.lost(FAILED)
        with self.assertRaises(errors.InternalError):
            self.turn.lost(FAILED)


@mock.patch("random.uniform", lambda low, high: high)
class RetriesTest(unittest.TestCase):
    def setUp(self):
        self.now = 100.0
        self.enterContext(mock.patch("time.monotonic", lambda: self.now))

    def test_pauses_grow_to_the_longest(self):
        tries = Retries(POLICY)
        self.assertEqual([tries.pause(LOST) for _ in range(4)], [1, 2, 4, 4])
        tries.progressed()
        self.assertEqual(tries.pause(LOST), 1)

    def test_pauses_are_random(self):
        with mock.patch("random.uniform", lambda low, high: low):
            self.assertEqual(Retries(POLICY).pause(LOST), 0.5)

    def test_the_server_says_when(self):
        tries = Retries(POLICY)
        later = errors.UnavailableError("busy", retry_after=6.5)
        self.assertEqual(tries.pause(later), 6.5)
        self.assertEqual(tries.pause(errors.UnavailableError("busy", retry_after=0.5)), 2)
        self.now += 5
        with self.assertRaises(errors.UnavailableError):
            tries.pause(later)  # the pause would end after the timeout

    def test_a_call_beyond_a_quota_is_not_made_again(self):
        with self.assertRaises(errors.ResourceExhaustedError) as caught:
            Retries(POLICY).pause(errors.ResourceExhaustedError("quota turns", retry_after=1.0))
        self.assertEqual(caught.exception.retry_after, 1.0)

    def test_the_time_counts_from_the_first_loss(self):
        tries = Retries(POLICY)
        self.now += 1000
        tries.pause(LOST)
        self.now += 9.9
        tries.pause(LOST)
        self.now += 0.2
        with self.assertRaises(errors.UnavailableError):
            tries.pause(LOST)
        tries.progressed()
        tries.pause(LOST)

    def test_failures_are_counted(self):
        tries = Retries(POLICY)
        tries.pause(FAILED)
        tries.pause(LOST)
        tries.pause(FAILED)
        with self.assertRaises(errors.InternalError):
            tries.pause(FAILED)

    def test_other_errors_end_the_call(self):
        for kind in errors.LongstreamError.__subclasses__():
            retried = kind in (errors.UnavailableError, errors.AbortedError, errors.InternalError,
                               errors.UnknownError)
            if retried:
                Retries(POLICY).pause(kind("again"))
            else:
                with self.assertRaises(kind):
                    Retries(POLICY).pause(kind("final"))

    def test_a_call_that_never_began_is_made_again(self):
        self.assertEqual(Retries(POLICY).pause(errors.CancelledError("CANCELLED")), 1)

    def test_no_pause_is_longer_than_the_time_left(self):
        tries = Retries(POLICY, timeout=1.5)
        self.now += 1000  # before the first try
        self.assertEqual(tries.time_left(), 1.5)
        self.assertEqual(tries.pause(LOST), 1)
        self.now += 1
        self.assertEqual(tries.pause(LOST), 0.5)
        self.now += 1
        self.assertEqual(tries.time_left(), 0)
        self.assertIsNone(Retries(POLICY).time_left())

    def test_the_first_loss_is_logged(self):
        with self.assertLogs("longstream", logging.WARNING) as logged:
            tries = Retries(POLICY)
            tries.pause(LOST)
            tries.pause(LOST)
        self.assertEqual(len(logged.records), 1)
        self.assertIn("trying again for 10 s", logged.output[0])


if __name__ == "__main__":
    unittest.main()
