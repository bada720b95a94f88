"""Notes of sessions, sync and async: on a server with a store, and on one that fails."""

import asyncio
import datetime
import unittest

import grpc

import longstream
from scripted_server import ScriptedServer
from server_process import ServerProcess

MIB = 1 << 20
FAST = longstream.RetryPolicy(timeout=20, first_pause=0.001, longest_pause=0.002)


class SyncCaller:
    """Calls the package's sync half."""

    def __init__(self, address, **arguments):
        self.client = longstream.Client(address, **arguments)

    def open(self, **options):
        return self.client.session("hypenet", **options)

    def put(self, session, values):
        session.put_notes(values)

    def find(self, keys):
        return self.client.find_notes(keys)

    def fork(self, session):
        return session.fork()

    def version(self, session):
        return session.info().version

    def end(self, session):
        session.close()

    def close(self):
        self.client.close()


class AsyncCaller:
    """Calls the package's async half, in a loop of its own."""

    def __init__(self, address, **arguments):
        self.loop = asyncio.new_event_loop()
        self.client = self.run(self.make_client(address, arguments))

    @staticmethod
    async def make_client(address, arguments):
        return longstream.AsyncClient(address, **arguments)

    async def opened(self, options):
        return await self.client.session("hypenet", **options)

    async def forked(self, session):
        return await session.fork()

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def open(self, **options):
        return self.run(self.opened(options))

    def put(self, session, values):
        self.run(session.put_notes(values))

    def find(self, keys):
        return self.run(self.client.find_notes(keys))

    def fork(self, session):
        return self.run(self.forked(session))

    def version(self, session):
        return self.run(session.info()).version

    def end(self, session):
        self.run(session.close())

    def close(self):
        self.run(self.client.close())
        self.loop.close()


class Notes:
    """The tests with a store, for each half."""

    @classmethod
    def setUpClass(cls):
        cls.server = ServerProcess()
        cls.addClassCleanup(cls.server.close)

    def setUp(self):
        self.caller = self.make()
        self.session = self.caller.open()
        self.addCleanup(self.caller.end, self.session)

    def make(self):
        caller = self.caller_type(self.server.address)
        self.addCleanup(caller.close)
        return caller

    def values(self, *keys):
        return [note.value for note in self.caller.find(keys)]

    def test_notes_are_written_replaced_and_removed(self):
        version = self.caller.version(self.session)
        before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(microseconds=1)
        self.caller.put(self.session, {"a": "1", b"\xff\0": b"\xfe\0", "gone": None})
        notes = self.caller.find([b"\xff\0", "gone", "none", "a"])
        self.assertEqual([(note.key, note.value) for note in notes],
                         [(b"\xff\0", b"\xfe\0"), (b"a", b"1")])
        for note in notes:
            self.assertIsInstance(note, longstream.Note)
            self.assertEqual(note.session_id, self.session.id)
            self.assertLessEqual(before, note.time)
            self.assertLessEqual(note.time, datetime.datetime.now(datetime.UTC))
        self.caller.put(self.session, {"a": "ä"})
        self.assertEqual(self.values("a", b"\xff\0"), ["ä".encode(), b"\xfe\0"])
        self.caller.put(self.session, {"a": None, b"\xff\0": b""})
        self.assertEqual(self.values("a", b"\xff\0"), [])
        self.assertEqual(self.caller.version(self.session), version)
        self.assertEqual(self.caller.find([]), [])

    def test_the_note_of_several_sessions_that_was_written_last_is_found(self):
        other = self.caller.open()
        self.caller.put(other, {"a": "first"})
        self.caller.put(self.session, {"a": "second"})
        self.assertEqual(self.values("a"), [b"second"])
        self.caller.put(other, {"a": "third"})
        self.assertEqual(self.values("a"), [b"third"])
        self.caller.end(other)
        self.assertEqual(self.values("a"), [b"second"])

    def test_a_fork_has_no_notes(self):
        source = self.caller.open()
        self.caller.put(source, {"of the source": "1"})
        fork = self.caller.fork(source)
        self.caller.end(source)
        self.assertEqual(self.values("of the source"), [])
        self.caller.end(fork)

    def test_another_client_finds_notes_after_a_restart(self):
        self.caller.put(self.session, {"a": "1", "b": "2"})
        self.server.kill()
        self.server.start()
        notes = self.make().find(["b", "a"])
        self.assertEqual([(note.key, note.value) for note in notes], [(b"b", b"2"), (b"a", b"1")])
        self.assertEqual({note.session_id for note in notes}, {self.session.id})

    def test_the_keys_that_an_answer_does_not_cover_are_asked_for_again(self):
        keys = [f"large {i}" for i in range(7)]
        values = [bytes([i]) * (MIB - i) for i in range(7)]
        for key, value in zip(keys, values):
            self.caller.put(self.session, {key: value})
        self.assertEqual(self.values(*keys), values)
        self.assertEqual(self.values("none", *reversed(keys), "none"), values[::-1])
        for begin in (0, 50, 100):
            self.caller.put(self.session, {f"small {i}": f"{i}" for i in range(begin, begin + 50)})
        self.assertEqual(self.values(*(f"small {i}" for i in range(150))),
                         [f"{i}".encode() for i in range(150)])

    def test_errors_name_the_field(self):
        for values, message in (
            ({}, "notes: expected 1 ... 64, found 0"),
            ({"a": "1", "b": bytes(MIB + 1)},
             "notes[1].value: expected at most 1048576 bytes, found 1048577"),
            ({"a": "1", "": "2"}, "notes[1].key: expected 1 ... 64 bytes, found 0"),
        ):
            with self.assertRaises(longstream.InvalidArgumentError) as raised:
                self.caller.put(self.session, values)
            self.assertEqual(raised.exception.message, message)
        self.assertEqual(self.values("a"), [])
        with self.assertRaises(longstream.InvalidArgumentError) as raised:
            self.caller.find(["a", "k" * 65])
        self.assertEqual(raised.exception.message, "keys[1]: expected 1 ... 64 bytes, found 65")

    def test_a_session_in_memory_has_no_notes(self):
        session = self.caller.open(durability="memory")
        with self.assertRaisesRegex(longstream.FailedPreconditionError,
                                    f"session_id: session {session.id} is not in the store"):
            self.caller.put(session, {"a": "1"})
        self.caller.end(session)
        with self.assertRaisesRegex(longstream.NotFoundError, f"session_id: .*{session.id}"):
            self.caller.put(session, {"a": "1"})

    def test_a_server_without_a_store_has_no_notes(self):
        server = ServerProcess(has_store=False)
        self.addCleanup(server.close)
        caller = self.caller_type(server.address)
        self.addCleanup(caller.close)
        with self.assertRaisesRegex(longstream.FailedPreconditionError, "notes: .*no store"):
            caller.put(caller.open(), {"a": "1"})
        with self.assertRaisesRegex(longstream.FailedPreconditionError, "keys: .*no store"):
            caller.find(["a"])


class LostNotes:
    """The tests with a server that fails, for each half."""

    def setUp(self):
        self.server = ScriptedServer()
        self.addCleanup(self.server.stop)
        self.caller = self.caller_type(self.server.address, retry=FAST)
        self.addCleanup(self.caller.close)
        self.session = self.caller.open()
        self.server.requests.clear()
        self.server.metadata.clear()

    def test_lost_calls_are_made_again(self):
        self.server.fail = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN]
        self.caller.put(self.session, {"a": "1"})
        first, second, third = self.server.requests
        self.assertEqual((first, first), (second, third))
        self.server.requests.clear()
        self.server.fail = [grpc.StatusCode.UNAVAILABLE]
        notes = self.caller.find(["a", "none", "b", "none", "c"])
        self.assertEqual([note.key for note in notes], [b"a", b"b", b"c"])
        self.assertEqual([list(request.keys) for request in self.server.requests],
                         [[b"a", b"none", b"b", b"none", b"c"]] * 2 + [[b"none", b"c"]])

    def test_only_writing_names_a_session_for_proxies(self):
        self.caller.put(self.session, {"a": "1"})
        self.caller.find(["a"])
        self.assertEqual([each.get("x-session-id") for each in self.server.metadata],
                         [self.session.id, None])


class SyncNotesTest(Notes, unittest.TestCase):
    caller_type = SyncCaller


class AsyncNotesTest(Notes, unittest.TestCase):
    caller_type = AsyncCaller


class SyncLostNotesTest(LostNotes, unittest.TestCase):
    caller_type = SyncCaller


class AsyncLostNotesTest(LostNotes, unittest.TestCase):
    caller_type = AsyncCaller


if __name__ == "__main__":
    unittest.main()
