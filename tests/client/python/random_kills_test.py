"""The examples, whose server is killed at random: every token is that of an undisturbed run.

LONGSTREAM_PYTHON_CONVERSATIONS: how many conversations each half of the package has.
"""

import asyncio
import concurrent.futures
import logging
import os
import random
import sys
import threading
import time
import unittest
from unittest import mock

import longstream
from server_process import MODELS, SOURCE, ServerProcess

sys.path.insert(0, str(SOURCE / "client/python/examples"))
import conversation  # noqa: E402
import many_conversations  # noqa: E402

CONVERSATIONS = int(os.environ.get("LONGSTREAM_PYTHON_CONVERSATIONS", "12"))
AT_ONCE = 12
TURNS = 10
TOKENS = 24
LINES = [f"\ndef step_{turn}(lines):\n" for turn in range(TURNS)]


def model_of(number):
    return MODELS[number % len(MODELS)]


def options_of(number):
    return {"max_tokens": TOKENS, "ignore_eos": True, "temperature": 1.0,
            "presence_penalty": 0.5, "seed": number}


class Pieces:
    """What the clients have received. The killer waits until more has arrived."""

    def __init__(self):
        self.of = [[] for _ in range(CONVERSATIONS)]
        self._arrived = 0
        self._ended = False
        self._changed = threading.Condition()

    def show(self, number):
        def take(piece):
            self.of[number].append(piece)
            with self._changed:
                self._arrived += len(piece.token_ids)
                self._changed.notify_all()
        return take

    def end(self, _=None):
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, more):
        """Waits for so many more tokens. Returns whether clients still run."""
        with self._changed:
            until = self._arrived + more
            self._changed.wait_for(lambda: self._ended or self._arrived >= until)
            return not self._ended

    def answers(self):
        return [([token for piece in pieces for token in piece.token_ids],
                 "".join(map(str, pieces))) for pieces in self.of]


def run_sync(address, pieces):
    with (longstream.Client(address) as client,
          concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool):
        list(pool.map(lambda number: conversation.converse(
            client, model_of(number), LINES, pieces.show(number), **options_of(number)),
            range(CONVERSATIONS)))


def run_async(address, pieces):
    async def converse_all():
        places = asyncio.Semaphore(AT_ONCE)

        async def converse(client, number):
            async with places:
                await many_conversations.converse(
                    client, model_of(number), LINES, pieces.show(number), **options_of(number))

        async with longstream.AsyncClient(address) as client, asyncio.TaskGroup() as tasks:
            for number in range(CONVERSATIONS):
                tasks.create_task(converse(client, number))

    asyncio.run(converse_all())


class RandomKillsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        logging.getLogger("longstream").setLevel(logging.ERROR)  # every loss is logged
        cls.server = ServerProcess()
        cls.addClassCleanup(cls.server.close)
        undisturbed = Pieces()
        run_sync(cls.server.address, undisturbed)
        cls.expected = undisturbed.answers()

    def check(self, run):
        pieces = Pieces()
        randomly = random.Random(7)
        kills = 0
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            done = pool.submit(run, self.server.address, pieces)
            done.add_done_callback(pieces.end)
            while pieces.wait(randomly.randint(100, 700)):
                self.server.kill()
                self.server.start()
                kills += 1
            done.result()
        answers = pieces.answers()
        tokens = sum(len(tokens) for tokens, _ in answers)
        different = sum(found != expected
                        for (ours, _), (theirs, _) in zip(answers, self.expected)
                        for found, expected in zip(ours, theirs))
        print(f"{run.__name__}: {kills} kills; {CONVERSATIONS} conversations of {TURNS} turns;"
              f" {tokens} tokens, {different} different")
        self.assertGreater(kills, 0)
        self.assertEqual(tokens, CONVERSATIONS * TURNS * TOKENS)
        self.assertEqual(answers, self.expected)
        with longstream.Client(self.server.address) as client:
            self.assertEqual(list(client.sessions()), [])

    def test_threads(self):
        self.check(run_sync)

    def test_asyncio(self):
        self.check(run_async)

    def test_a_server_that_comes_back_is_found_soon(self):
        # Without a call that waits for its channel, gRPC of Debian needs 16 s and more.
        pauses = []
        real_sleep = time.sleep

        def sleep(seconds):
            pauses.append(seconds)
            if len(pauses) == 3:
                self.server.start()
            real_sleep(seconds)

        policy = longstream.RetryPolicy(timeout=10)
        with (longstream.Client(self.server.address, retry=policy) as client,
              client.session("dense") as session,
              mock.patch("longstream.sync_transport.time.sleep", sleep)):
            self.server.kill()
            answer = session.stream(LINES[0], max_tokens=3, ignore_eos=True).read()
        self.assertEqual(len(answer.token_ids), 3)


if __name__ == "__main__":
    unittest.main()
