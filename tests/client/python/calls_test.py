"""Calls, sync and async, on a server that fails as the test says."""

import asyncio
import inspect
import math
import os
import pathlib
import sys
import tempfile
import time
import unittest

import grpc

import longstream
from longstream import errors
from longstream.v1 import longstream_pb2 as pb
from scripted_server import Failure, ScriptedServer, elsewhere, retry_info

FAST = longstream.RetryPolicy(timeout=20, first_pause=0.001, longest_pause=0.002)
TEXT = "abcdefgh"


class SyncCaller:
    """Calls the package's sync half."""

    def __init__(self, address, **arguments):
        self.client = longstream.Client(address, **arguments)
        self.session = self.client.session("model")

    def call(self, function):
        return function(self.session)

    def compare(self, *arguments, **options):
        return self.client.compare(*arguments, **options)

    def turn(self, **options):
        return self.session.stream("hi", **options).read()

    def leave_turn(self, deltas, **options):
        """Reads so many deltas of a turn, then closes its stream."""
        with self.session.stream("hi", **options) as stream:
            return [next(stream).text for _ in range(deltas)]

    def leave_session(self, error=None, **options):
        """Ends a `with` block."""
        with self.client.session("model", **options):
            if error:
                raise error

    def close(self):
        self.client.close()


class AsyncCaller:
    """Calls the package's async half, in a loop of its own."""

    def __init__(self, address, **arguments):
        self.loop = asyncio.new_event_loop()
        self.client = self.run(self.make_client(address, arguments))
        self.session = self.run(self.open("model"))

    @staticmethod
    async def make_client(address, arguments):
        return longstream.AsyncClient(address, **arguments)

    async def open(self, model):
        return await self.client.session(model)

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def call(self, function):
        async def made():
            return await function(self.session)
        return self.run(made())

    def compare(self, *arguments, **options):
        return self.run(self.client.compare(*arguments, **options))

    def turn(self, **options):
        return self.run(self.session.stream("hi", **options).read())

    def leave_turn(self, deltas, **options):
        async def read():
            async with self.session.stream("hi", **options) as stream:
                return [(await anext(stream)).text for _ in range(deltas)]
        return self.run(read())

    def leave_session(self, error=None, **options):
        async def use():
            async with self.client.session("model", **options):
                if error:
                    raise error
        self.run(use())

    def close(self):
        self.run(self.client.close())
        self.loop.close()


class Calls:
    """The tests, for each half."""

    def setUp(self):
        self.server = ScriptedServer()
        self.addCleanup(self.server.stop)
        self.caller = self.make(retry=FAST)

    def make(self, **arguments):
        caller = self.caller_type(self.server.address, **arguments)
        self.addCleanup(caller.close)
        return caller

    def requests(self, name):
        return [each for each in self.server.requests
                if not isinstance(each, list) and type(each).__name__ == name]

    def test_a_turn_has_all_its_parts(self):
        progress = []
        generation = self.caller.turn(seed=5, on_prefill=progress.append)
        self.assertEqual(generation.text, TEXT)
        self.assertEqual(generation.token_ids, tuple(range(8)))
        self.assertEqual(generation.started.how, longstream.Attach.NEW)
        self.assertEqual(generation.started.seed, 5)
        self.assertEqual(generation.finish.reason, longstream.FinishReason.MAX_TOKENS)
        self.assertEqual(generation.usage.generated_tokens, 8)
        self.assertEqual(progress, [longstream.PrefillProgress(3, 3)])

    def test_every_token_comes_once_wherever_the_call_is_lost(self):
        for code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL,
                     grpc.StatusCode.ABORTED, grpc.StatusCode.UNKNOWN):
            for cut in (None, 0, 1, 7, 8):
                self.server.requests.clear()
                self.server.failures = [Failure(cut, code)]
                generation = self.caller.turn()
                self.assertEqual(generation.text, TEXT, (code, cut))
                first, second = self.requests("GenerateRequest")
                self.assertEqual(second.turn_id, first.turn_id)
                self.assertEqual(list(second.resume.token_ids), list(range(cut or 0)))
                self.assertEqual(second.resume.position, 3 + cut if cut else 0)
                second.ClearField("resume")
                self.assertEqual(second, first)

    def test_failures_are_counted_from_the_last_token_on(self):
        lost = [Failure(cut, grpc.StatusCode.INTERNAL) for cut in (1, 2, 3, 4, 5, 6, 7)]
        self.server.failures = list(lost)
        self.assertEqual(self.caller.turn().text, TEXT)
        self.server.failures = [Failure(2, grpc.StatusCode.INTERNAL)] * 7
        with self.assertRaises(longstream.InternalError):
            self.caller.turn()

    def test_a_refused_turn_is_not_sent_again(self):
        for code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND,
                     grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.RESOURCE_EXHAUSTED):
            self.server.requests.clear()
            self.server.failures = [Failure(None, code)]
            with self.assertRaises(longstream.LongstreamError) as raised:
                self.caller.turn()
            self.assertIs(raised.exception.code, code)
            self.assertEqual(len(self.server.requests), 1)
        self.assertEqual(self.server.cancelled, [])

    def test_an_error_of_a_model_that_has_failed_is_raised_at_once(self):
        self.server.models = [
            pb.Model(name="good", state=pb.MODEL_STATE_READY),
            pb.Model(name="bad", state=pb.MODEL_STATE_FAILED, error="no file config.json")]
        final = "model bad could not be loaded: no file config.json"
        self.server.requests.clear()
        self.server.fail, self.server.message = [grpc.StatusCode.UNAVAILABLE] * 2, final
        with self.assertRaisesRegex(longstream.UnavailableError, final):
            self.caller.call(lambda session: session.fork())
        self.assertEqual(len(self.server.requests), 1)
        self.server.fail = []
        self.server.failures = [Failure(None, message=final)] * 2
        with self.assertRaisesRegex(longstream.UnavailableError, final):
            self.caller.turn()
        self.assertEqual(len(self.requests("GenerateRequest")), 1)
        for passing in ("model bad is loading", "model good is loading", "the server is draining",
                        "model bad has failed: no file config.json",
                        "model other could not be loaded: no file config.json"):
            self.server.failures = [Failure(None, message=passing)]
            self.assertEqual(self.caller.turn().text, TEXT, passing)

    def test_the_models_are_asked_for_at_most_once_and_within_the_timeout(self):
        self.server.failures = [Failure(None, message="the server is draining")] * 5
        self.assertEqual(self.caller.turn().text, TEXT)
        self.assertEqual(self.server.lists, 0)
        lost = "model bad could not be loaded: no file"
        self.server.failures = [Failure(None, message=lost)] * 5
        self.assertEqual(self.caller.turn().text, TEXT)
        self.assertEqual(self.server.lists, 1)
        self.server.lists_hang = True
        self.server.failures = [Failure(None, message=lost)] * 100
        begin = time.monotonic()
        with self.assertRaises(longstream.LongstreamError):
            self.caller.turn(timeout=0.2)
        self.assertLess(time.monotonic() - begin, 0.9)

    def test_a_timeout_of_centuries_is_a_timeout(self):
        for timeout in (8e9, 1e12, sys.maxsize):
            self.assertEqual(self.caller.turn(timeout=timeout).text, TEXT)
            self.make(retry=FAST, timeout=timeout).call(lambda session: session.fork())

    def test_a_server_that_says_when_is_not_asked_whether_the_model_has_failed(self):
        for details, lists in ((None, 1), (retry_info(0), 0)):
            self.server.lists = 0
            self.server.fail, self.server.details = [grpc.StatusCode.UNAVAILABLE], details
            self.server.message = "model bad could not be loaded: no file"
            self.caller.call(lambda session: session.fork())
            self.assertEqual(self.server.lists, lists)

    def test_a_turn_without_retries_raises_at_once(self):
        caller = self.make(retry=longstream.RetryPolicy(timeout=0))
        self.server.failures = [Failure(2)]
        with self.assertRaises(longstream.UnavailableError):
            caller.turn()
        self.assertEqual(self.server.cancelled, [])  # its id goes on with it

    def test_a_stream_that_is_closed_cancels_its_turn(self):
        self.server.hangs = True
        self.assertEqual(self.caller.leave_turn(2, turn_id="7" * 32), ["a", "b"])
        self.assertEqual(self.server.cancelled, ["7" * 32])

    def test_a_turn_that_has_ended_is_not_cancelled(self):
        self.caller.turn()
        self.assertEqual(self.server.cancelled, [])

    def test_the_timeout_cancels_the_turn(self):
        self.server.hangs = True
        with self.assertRaises(longstream.DeadlineExceededError):
            self.caller.turn(timeout=0.3, turn_id="8" * 32)
        self.assertEqual(self.server.cancelled, ["8" * 32])

    def timed_out(self, **options):
        with self.assertRaises(longstream.DeadlineExceededError) as raised:
            self.caller.turn(**{"timeout": 0.2, "turn_id": "8" * 32, **options})
        self.assertEqual(raised.exception.turn_id, "8" * 32)
        return raised.exception

    def test_a_cancel_that_overtakes_its_turn_is_repeated(self):
        self.server.silent = True
        self.server.fail = [grpc.StatusCode.NOT_FOUND] * 3
        error = self.timed_out()
        self.assertEqual(self.server.cancelled, ["8" * 32])
        self.assertIs(error.committed, False)
        self.server.fail = [grpc.StatusCode.NOT_FOUND] * 100
        self.server.cancelled.clear()
        begin = time.monotonic()
        error = self.timed_out()
        self.assertLess(time.monotonic() - begin, 5)  # about 1.2 s, unless the machine is busy
        self.assertEqual(self.server.cancelled, [])
        self.assertIsNone(error.committed)
        self.assertIn(f"turn {'8' * 32} is not known to the server", str(error))

    def test_a_cancel_of_a_turn_that_had_begun_is_not_repeated(self):
        self.server.hangs = True
        self.server.fail = [grpc.StatusCode.NOT_FOUND] * 2
        self.timed_out()
        self.assertEqual(len(self.requests("CancelTurnRequest")), 1)

    def test_the_error_of_a_timeout_says_what_became_of_the_turn(self):
        self.server.hangs = True
        for turn, committed, words in (
            (pb.Turn(state=pb.TURN_STATE_ABANDONED), False, "was cancelled"),
            (pb.Turn(state=pb.TURN_STATE_COMMITTED, finish_reason=pb.FINISH_REASON_MAX_TOKENS), True,
             "had been committed before it could be cancelled"),
            (pb.Turn(state=pb.TURN_STATE_COMMITTED, finish_reason=pb.FINISH_REASON_ABORTED), True,
             "was cancelled, and the session keeps what had been generated"),
            (pb.Turn(state=pb.TURN_STATE_COMMITTING), None, "may be committed all the same"),
        ):
            self.server.turn = turn
            error = self.timed_out()
            self.assertIs(error.committed, committed)
            self.assertIn(f"; turn {'8' * 32} {words}", str(error))
        self.server.fail = [grpc.StatusCode.INTERNAL]
        error = self.timed_out()
        self.assertIsNone(error.committed)
        self.assertIn("may have been committed all the same", str(error))

    def test_a_call_whose_time_has_passed_is_not_sent(self):
        slow = longstream.RetryPolicy(first_pause=1, longest_pause=1)
        caller = self.make(timeout=0.2, retry=slow)
        self.server.failures = [Failure(None)]
        with self.assertRaisesRegex(longstream.DeadlineExceededError, "the timeout of 0.1 s has passed"):
            caller.turn(timeout=0.1)
        self.assertEqual(len(self.requests("GenerateRequest")), 1)
        self.server.fail = [grpc.StatusCode.UNAVAILABLE]
        with self.assertRaisesRegex(longstream.DeadlineExceededError,
                                    "the timeout of 0.2 s has passed; the last try ended with UNAVAILABLE"):
            caller.call(lambda session: session.rewind(position=1))
        self.assertEqual(len(self.requests("RewindSessionRequest")), 1)

    def test_timeouts_are_positive(self):
        for timeout in (0, -1, math.inf, math.nan):
            with self.assertRaisesRegex(ValueError, f"^timeout: .*seconds above 0, found {timeout}"):
                self.caller.turn(timeout=timeout)
            with self.assertRaisesRegex(ValueError, "^timeout: "):
                type(self.caller.client)(self.server.address, timeout=timeout)
        with self.assertRaisesRegex(TypeError, "^timeout: .*found '5'"):
            type(self.caller.client)(self.server.address, timeout="5")
        self.assertEqual(self.requests("GenerateRequest"), [])

    def test_a_session_is_closed_or_kept(self):
        self.caller.leave_session()
        self.assertEqual(len(self.requests("CloseSessionRequest")), 1)
        with self.assertRaises(KeyError):
            self.caller.leave_session(KeyError("of the program"))
        self.assertEqual(len(self.requests("CloseSessionRequest")), 2)
        self.caller.leave_session(keep=True)
        self.assertEqual(len(self.requests("CloseSessionRequest")), 2)

    def test_closing_a_session_that_is_gone_is_no_error(self):
        self.server.fail = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND]
        self.caller.call(lambda session: session.close())

    def test_lost_calls_are_made_again_with_the_same_ids(self):
        for make in (lambda session: session.fork(position=3),
                     lambda session: session.append("one", [1, 2])):
            self.server.requests.clear()
            self.server.fail = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN]
            self.caller.call(make)
            first, second, third = self.server.requests
            self.assertEqual(first, second)
            self.assertEqual(first, third)

    def test_a_call_with_a_version_is_not_made_again(self):
        self.server.fail = [grpc.StatusCode.UNAVAILABLE]
        with self.assertRaises(longstream.UnavailableError):
            self.caller.call(lambda session: session.rewind(position=2, expected_version=4))
        self.server.fail = [grpc.StatusCode.UNAVAILABLE]
        self.assertEqual(self.caller.call(lambda session: session.rewind(position=2)).position, 2)

    def test_a_lost_score_begins_again(self):
        self.server.fail = [grpc.StatusCode.UNAVAILABLE]
        score = self.caller.call(lambda session: session.score("text"))
        self.assertEqual([token.token_id for token in score.tokens], [5, 6])
        self.assertEqual([token.log_prob for token in score.tokens], [None, -1.5])
        self.assertEqual(score.summary.sum_log_prob, -1.5)

    def test_a_lost_comparison_begins_again(self):
        self.server.fail = [grpc.StatusCode.UNAVAILABLE]
        comparison = self.caller.compare(["a", "b"], "hi", force="ab")
        self.assertEqual([arm.model for arm in comparison.started.arms], ["a", "b"])
        self.assertEqual(len(comparison.rows), 2)
        self.assertEqual([each.token_id for each in comparison.tokens(1)], [0, 1])
        self.assertEqual([comparison.text(arm) for arm in (0, 1)], ["ab", "ab"])
        self.assertEqual(comparison.rows[1].pairs[0].kl, 0.25)
        self.assertEqual([arm.arm for arm in comparison.arms], [0, 1])
        self.assertAlmostEqual(comparison.arms[0].bits_per_byte, 3 / math.log(2) / 2)
        self.assertEqual(comparison.pairs[0].sum_kl, 0.5)
        self.assertIsNone(comparison.pairs[0].first_difference)
        first, second = self.requests("CompareRequest")
        self.assertEqual(first, second)

    def test_a_lost_export_begins_its_file_again(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "session"
            self.server.fail = [grpc.StatusCode.UNAVAILABLE]
            self.caller.call(lambda session: session.export(path))
            self.assertEqual(path.read_bytes(), b"halfway")
            self.server.fail = [grpc.StatusCode.FAILED_PRECONDITION]
            with self.assertRaises(longstream.FailedPreconditionError):
                self.caller.call(lambda session: session.export(path.with_name("other")))
            self.assertEqual([each.name for each in path.parent.iterdir()], ["session"])

    def test_an_error_names_the_server_that_has_the_session(self):
        self.server.fail = [grpc.StatusCode.FAILED_PRECONDITION] * 2
        self.server.details = elsewhere("host:1")
        with self.assertRaises(longstream.SessionElsewhereError) as caught:
            self.caller.call(lambda session: session.rewind(position=0))
        self.assertEqual(caught.exception.address, "host:1")
        self.assertIn("the script says so", str(caught.exception))
        self.server.details = None
        with self.assertRaises(longstream.FailedPreconditionError) as caught:
            self.caller.call(lambda session: session.rewind(position=0))
        self.assertNotIsInstance(caught.exception, longstream.SessionElsewhereError)

    def test_calls_name_their_session_for_proxies(self):
        def sessions():
            named = [each.get("x-session-id") for each in self.server.metadata]
            self.server.metadata.clear()
            return named

        own = self.caller.session.id
        self.assertEqual(sessions(), [own], "the session is opened where it will be used")
        self.caller.turn()
        for make in (lambda session: session.append("one"), lambda session: session.fork(),
                     lambda session: session.rewind(position=0), lambda session: session.close()):
            self.caller.call(make)
        self.assertEqual(sessions(), [own] * 5)
        self.caller.call(lambda session: session.score("text"))
        self.assertEqual(sessions(), [None], "any server may do it")
        self.caller.compare(["a", "b"], "hi", session_id=own.upper())
        self.assertEqual(sessions(), [own], "both are the same session")
        self.caller.compare(["a", "b"], "hi", session_id="\u00e9\n")
        self.assertEqual(sessions(), [None], "the server refuses what is no id")

    def test_errors_tell_what_the_server_says(self):
        self.server.fail = [grpc.StatusCode.RESOURCE_EXHAUSTED]
        self.server.details = retry_info(4)
        with self.assertRaises(longstream.ResourceExhaustedError) as raised:
            self.caller.call(lambda session: session.append("text"))
        error = raised.exception
        self.assertEqual(error.message, "the script says so")
        self.assertEqual((error.request_id, error.retry_after), ("call-7", 4.0))
        self.assertEqual(str(error),
                         "RESOURCE_EXHAUSTED: the script says so (request id call-7)")

    def test_calls_have_the_timeout_of_the_client(self):
        caller = self.make(timeout=0.2, retry=FAST)
        self.server.fail = [grpc.StatusCode.UNAVAILABLE] * 1000
        with self.assertRaises((longstream.DeadlineExceededError, longstream.UnavailableError)):
            caller.call(lambda session: session.rewind(position=1))
        self.server.fail = []


class SyncCallsTest(Calls, unittest.TestCase):
    caller_type = SyncCaller

    def test_a_loop_that_is_left_cancels_the_turn(self):
        self.server.hangs = True
        for delta in self.caller.session.stream("hi", turn_id="9" * 32):
            if delta.text == "c":
                break
        del delta
        self.assertEqual(self.server.cancelled, ["9" * 32])


class AsyncCallsTest(Calls, unittest.TestCase):
    caller_type = AsyncCaller

    def test_a_cancelled_task_cancels_the_turn(self):
        self.server.hangs = True
        arrived = asyncio.Event()

        async def read():
            async for delta in self.caller.session.stream("hi", turn_id="9" * 32):
                if delta.text == "h":
                    arrived.set()

        async def cancel():
            task = asyncio.create_task(read())
            await arrived.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        self.caller.run(cancel())
        self.assertEqual(self.server.cancelled, ["9" * 32])

    def test_both_halves_take_the_same_arguments(self):
        for ours, theirs in ((longstream.Client, longstream.AsyncClient),
                             (longstream.Session, longstream.AsyncSession),
                             (longstream.TurnStream, longstream.AsyncTurnStream)):
            names = {name for name in vars(ours) if not name.startswith("_")}
            self.assertEqual(names, {name for name in vars(theirs) if not name.startswith("_")})
            for name in names:
                self.assertEqual(inspect.signature(getattr(ours, name)).parameters,
                                 inspect.signature(getattr(theirs, name)).parameters, name)


class ErrorsTest(unittest.TestCase):
    def test_each_status_has_an_exception(self):
        codes = {kind.code for kind in longstream.LongstreamError.__subclasses__()}
        self.assertEqual(codes, set(grpc.StatusCode) - {grpc.StatusCode.OK})
        self.assertEqual(errors.NotFoundError("gone").message, "gone")

    def test_a_port_that_may_use_tls_is_explained(self):
        class Reset(grpc.RpcError):
            def code(self):
                return grpc.StatusCode.UNAVAILABLE

            def details(self):
                return "recvmsg:Connection reset by peer"

            def trailing_metadata(self):
                return ()

        self.assertIn("does the server use TLS? See credentials=", str(errors.error_of(Reset())))

    def test_the_package_has_the_version_of_the_project(self):
        source = pathlib.Path(os.environ["LONGSTREAM_SOURCE_DIR"])
        project = (source / "CMakeLists.txt").read_text(encoding="utf-8")
        self.assertIn(f"project(Longstream VERSION {longstream.__version__} ", project)


if __name__ == "__main__":
    unittest.main()
