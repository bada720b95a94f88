"""Sessions on a server with the demo models: what each call of the package does."""

import asyncio
import io
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import longstream
from longstream import formats
from server_process import SOURCE, ServerProcess

sys.path.insert(0, str(SOURCE / "client/python/examples"))
import conversation  # noqa: E402
import many_conversations  # noqa: E402

PROMPT = "def read_lines(path):\n"


class SessionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ServerProcess()
        cls.addClassCleanup(cls.server.close)
        cls.client = cls.enterClassContext(longstream.Client(cls.server.address))

    def session(self, model="hypenet", **options):
        return self.enterContext(self.client.session(model, **options))

    def test_a_stream_is_its_answer(self):
        session = self.session()
        stream = session.stream(PROMPT, max_tokens=20, seed=7, ignore_eos=True)
        pieces = list(stream)
        answer = session.stream(PROMPT, max_tokens=3).read()
        self.assertEqual("".join(map(str, pieces)), stream.text)
        self.assertEqual(len(stream.token_ids), 20)
        self.assertEqual(stream.finish.reason, longstream.FinishReason.MAX_TOKENS)
        self.assertEqual(stream.finish.position, len(PROMPT) + 20)
        self.assertEqual(stream.started.turn_id, stream.turn_id)
        self.assertEqual(answer.started.position, stream.finish.position)
        info = session.info()
        self.assertEqual(info.position, answer.finish.position)
        self.assertGreater(info.stored_bytes, 0)  # the server has a store

    def test_a_session_has_the_ttl_that_it_was_opened_with(self):
        self.assertEqual(self.session(ttl=90.5).info().ttl, 90.5)
        self.assertEqual(self.session().info().ttl, 30 * 24 * 3600)
        self.assertIsNone(self.session(durability="memory").info().ttl)
        with self.assertRaisesRegex(longstream.InvalidArgumentError, "ttl: expected none"):
            self.session(durability="memory", ttl=90)

        async def opened():
            async with longstream.AsyncClient(self.server.address) as client:
                async with client.session("hypenet", ttl=60) as session:
                    return (await session.info()).ttl

        self.assertEqual(asyncio.run(opened()), 60)

    def test_a_twin_reads_along(self):
        options = {"max_tokens": 30, "seed": 3, "temperature": 1.0, "ignore_eos": True}
        alone = self.session("dense").stream(PROMPT, **options).read()
        for twin in ("dense", "hypenet"):
            rows = []
            stream = self.session("dense").stream(
                PROMPT, twin_model=twin, on_twin=rows.append, **options)
            answer = stream.read()
            self.assertEqual(answer.token_ids, alone.token_ids)
            self.assertEqual(tuple(rows), stream.twin_rows)
            self.assertEqual([row.token_id for row in rows], list(answer.token_ids))
            self.assertTrue(answer.started.twin.comparable)
            self.assertEqual(answer.finish.twin.model, twin)
            self.assertEqual((answer.finish.twin.code, answer.finish.twin.rows), (0, 30))
            self.assertEqual(sum(row.kl for row in rows), answer.finish.twin.sum_kl)
            self.assertEqual(answer.finish.twin.sum_kl == 0, twin == "dense")
            self.assertEqual(b"".join(row.token for row in rows).decode(errors="replace"),
                             answer.text)
        self.assertIsNone(alone.finish.twin)

    def test_the_same_seed_gives_the_same_tokens(self):
        one, two = (self.session().stream(PROMPT, max_tokens=30, seed=3, temperature=1.0).read()
                    for _ in range(2))
        self.assertEqual(one.token_ids, two.token_ids)

    def test_the_same_turn_is_replayed_to_another_program(self):
        session = self.session(keep=True)
        options = {"max_tokens": 12, "turn_id": longstream.random_id()}
        answer = session.stream(PROMPT, **options).read()
        with self.client.attach(session.id, keep=False) as again:
            replayed = again.stream(PROMPT, **options).read()
        self.assertEqual(replayed.started.how, longstream.Attach.REPLAYED)
        self.assertEqual(replayed.token_ids, answer.token_ids)
        self.assertEqual(replayed.text, answer.text)
        with self.assertRaises(longstream.NotFoundError):
            session.info()

    def test_log_probs(self):
        answer = self.session().stream(PROMPT, max_tokens=4, log_probs=True, top_log_probs=2,
                                       temperature=0.0).read()
        self.assertEqual([each.token_id for each in answer.log_probs], list(answer.token_ids))
        for each in answer.log_probs:
            self.assertEqual([each.token_id, 2], [each.top[0].token_id, len(each.top)])
            self.assertEqual(each.log_prob, each.top[0].log_prob)

    def test_stop_rules(self):
        session = self.session()
        plain = session.stream(PROMPT, max_tokens=40, seed=1).read().text
        session.rewind(position=0)
        stop = plain[10:13]
        stopped = session.stream(PROMPT, max_tokens=40, seed=1, stop=[stop]).read()
        self.assertEqual(stopped.finish.reason, longstream.FinishReason.STOP_STRING)
        self.assertEqual(stopped.finish.stop_string, stop)
        self.assertEqual(stopped.text, plain[:plain.index(stop)])

    def test_an_answer_has_its_format(self):
        session = self.session()
        schema = {"type": "object", "required": ["left"],
                  "properties": {"left": {"type": "integer", "minimum": 0, "maximum": 9}}}
        for response_format in (schema, formats.json_schema(schema)):
            answer = session.stream(PROMPT, max_tokens=200, temperature=2.0,
                                    response_format=response_format).read()
            self.assertIn(json.loads(answer.text)["left"], range(10))
        choice = formats.any_of("yes", formats.sequence("n", formats.repeat("o", 1, 3)))
        answer = session.stream(PROMPT, max_tokens=100, response_format=choice).read()
        self.assertIn(answer.text, ("yes", "no", "noo", "nooo"))
        with self.assertRaisesRegex(longstream.InvalidArgumentError, " response_format.regex: "):
            session.stream(PROMPT, response_format=formats.regex("(")).read()

    def test_chat(self):
        session = self.session("dense")
        stream = session.chat([{"role": "system", "content": "Be brief."}, "Hi"], max_tokens=5,
                              priority=longstream.Priority.HIGH)
        first = stream.read()
        self.assertEqual(first.started.prompt_tokens,
                         len("# system\nBe brief.\n# user\nHi\n# assistant\n"))
        session.append_chat("More", require_unchanged=True)
        session.chat(longstream.Message("user", "Bye"), max_tokens=5).read()
        with self.assertRaisesRegex(longstream.InvalidArgumentError, "role"):
            session.chat({"role": "no role", "content": ""}).read()

    def test_score(self):
        session = self.session()
        score = session.score("def f():", top_log_probs=1)
        self.assertEqual(len(score.tokens), 8)
        self.assertEqual(score.summary.tokens, 7)
        self.assertAlmostEqual(sum(each.log_prob or 0.0 for each in score.tokens),
                               score.summary.sum_log_prob, 3)
        self.assertEqual(score, self.client.score("def f():", model="hypenet", top_log_probs=1))
        self.assertEqual(session.info().position, 0)

    def test_texts_and_tokens(self):
        read = self.client.tokenize("def ä", model="hypenet", pieces=True)
        self.assertEqual(bytes(read.token_ids), "def ä".encode())
        self.assertEqual(b"".join(read.pieces), "def ä".encode())
        self.assertEqual((read.count, read.model), (6, "hypenet"))
        self.assertEqual(self.client.detokenize(read.token_ids, model="hypenet"), "def ä")
        counted = self.client.tokenize(messages="Hi", model="hypenet", count_only=True)
        self.assertEqual((counted.count, counted.token_ids),
                         (len("# user\nHi\n# assistant\n"), ()))
        with self.assertRaisesRegex(longstream.InvalidArgumentError, r"token_ids\[1\]"):
            self.client.detokenize([1, 999], model="hypenet")

    def test_two_models_are_compared(self):
        options = {"max_tokens": 12, "seed": 3, "temperature": 1.0, "ignore_eos": True}
        free = self.client.compare(["dense", "hypenet"], PROMPT, top_log_probs=2, **options)
        for arm, model in enumerate(("dense", "hypenet")):
            answer = self.session(model).stream(PROMPT, **options).read()
            self.assertEqual([each.token_id for each in free.tokens(arm)], list(answer.token_ids))
            self.assertEqual(free.text(arm), answer.text)
            self.assertEqual(free.arms[arm].reason, longstream.FinishReason.MAX_TOKENS)
            self.assertIsNone(free.arms[arm].bits_per_byte)
            self.assertEqual(len(free.tokens(arm)[0].top), 2)
        forced = self.client.compare(["dense", "hypenet"], PROMPT, force=free.text(0))
        self.assertEqual(forced.text(1), free.text(0))
        self.assertGreater(forced.arms[1].bits_per_byte, 0)
        self.assertEqual(forced.pairs[0].rows, len(forced.rows))
        self.assertGreater(forced.pairs[0].sum_kl, 0)
        session = self.session("dense")
        session.append(PROMPT)
        behind = self.client.compare(
            ["dense", longstream.Arm("dense", {"temperature": 0.0})], session_id=session.id,
            **options)
        self.assertEqual(behind.text(0), free.text(0))
        self.assertEqual(session.info().position, len(PROMPT))
        with self.assertRaisesRegex(longstream.NotFoundError, r"arms\[1\].model"):
            self.client.compare(["dense", "nothing"], PROMPT)

    def test_append(self):
        session = self.session()
        appended = session.append("def ", b"f", [40, 41])
        self.assertEqual((appended.position, session.info().position), (7, 7))
        again = session.append("def ", b"f", [40, 41], turn_id=longstream.random_id(),
                               expected_position=7)
        self.assertEqual(again.position, 14)
        with self.assertRaises(longstream.FailedPreconditionError):
            session.append("x", expected_position=7)

    def test_forks_and_rewinds(self):
        session = self.session()
        first = session.stream(PROMPT, max_tokens=8, seed=1).read()
        second = session.stream("# next\n", max_tokens=8, seed=2).read()
        with session.fork(turn_id=first.started.turn_id) as fork:
            self.assertEqual(fork.info().forked_from, session.id)
            repeated = fork.stream("# next\n", max_tokens=8, seed=2).read()
        self.assertEqual(repeated.token_ids, second.token_ids)
        version = session.info().version
        info = session.rewind(turn_id=first.started.turn_id, expected_version=version)
        self.assertEqual(info.position, first.finish.position)
        with self.assertRaises(longstream.FailedPreconditionError):
            session.rewind(position=0, expected_version=version)
        self.assertEqual(session.rewind(position=3).position, 3)
        self.assertEqual([turn.turn_id for turn in session.turns()],
                         [first.started.turn_id, second.started.turn_id])
        self.assertIn(session.id, [each.session_id for each in self.client.sessions("hypenet")])
        self.assertEqual(list(self.client.sessions(alias="none")), [])

    def test_a_history(self):
        session = self.session()
        first = session.stream(PROMPT, max_tokens=8, seed=1).read()
        session.append("# note\n")
        second = session.stream("# next\n", max_tokens=8, seed=2).read()
        prompt, answer = longstream.HistoryKind.PROMPT, longstream.HistoryKind.ANSWER
        history = session.history()
        self.assertEqual([(entry.kind, entry.text) for entry in history],
                         [(prompt, PROMPT), (answer, first.text), (prompt, "# note\n"), (prompt, "# next\n"),
                          (answer, second.text)])
        self.assertEqual(history[1].turn_id, first.started.turn_id)
        self.assertEqual(history[4].position, second.finish.position)
        session.rewind(turn_id=first.started.turn_id)
        self.assertEqual(session.history(), history[:2])

    def test_export_and_import(self):
        session = self.session()
        session.stream(PROMPT, max_tokens=8, seed=1).read()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "session.bin"
            with self.assertRaises(longstream.FailedPreconditionError) as no_keys:
                session.export(path, sealed=True)
            self.assertIn("store.keys", str(no_keys.exception))
            self.assertFalse(path.exists())
            session.export(path)
            expected = session.stream("# next\n", max_tokens=8, seed=2).read()
            with self.assertRaises(longstream.AlreadyExistsError):
                self.client.import_session(path)
            session.close()
            with self.client.import_session(path, session_id=longstream.random_id(),
                                            keep=False) as moved:
                self.assertNotEqual(moved.id, session.id)
                answer = moved.stream("# next\n", max_tokens=8, seed=2).read()
            self.assertEqual(answer.token_ids, expected.token_ids)
            path.write_bytes(path.read_bytes()[:-5])
            with self.assertRaises(longstream.DataLossError):
                self.client.import_session(path, session_id=longstream.random_id())

    def test_a_stream_that_is_left_cancels_its_turn(self):
        session = self.session()
        for _ in session.stream(PROMPT, ignore_eos=True):
            break
        (turn,) = session.turns()
        self.assertEqual(turn.state, longstream.TurnState.ABANDONED)
        self.assertEqual(session.stream(PROMPT, max_tokens=1).read().started.position, 0)

    def test_a_turn_whose_timeout_has_passed_is_not_committed_later(self):
        for timeout in (1e-6, 1e-4, 3e-4, 1e-3, 3e-3) * 2:
            session = self.session("dense")
            stream = session.stream(PROMPT, max_tokens=3, timeout=timeout)
            try:
                stream.read()
            except longstream.DeadlineExceededError as error:
                committed = error.committed
            else:
                committed = True
            time.sleep(0.05)  # a turn without a reader would end in this time
            states = [turn.state for turn in session.turns()]
            self.assertIs(longstream.TurnState.COMMITTED in states, bool(committed), (timeout, states))

    def test_cancel_keeps_what_the_turn_says(self):
        session = self.session()
        stream = session.stream(PROMPT, ignore_eos=True, on_abort=longstream.OnAbort.KEEP)
        next(stream)
        self.assertEqual(session.cancel(stream.turn_id).state, longstream.TurnState.COMMITTED)
        self.assertGreater(session.info().position, len(PROMPT))

    def test_expectations(self):
        expect = longstream.Expectation(prompt_tokens=5, max_time_to_first_token=1.5)
        with self.client.session("dense", expect=expect) as session:
            self.assertIsNone(session.info().routing)  # only a route chooses
            self.assertEqual(session.info().model, "dense")
        with self.assertRaisesRegex(longstream.InvalidArgumentError, "expect.max_time_per_token"):
            self.client.session("dense", expect=longstream.Expectation(max_time_per_token=0))

    def test_models(self):
        names = sorted(model.name for model in self.client.models())
        self.assertEqual(names, ["dense", "hwfa2", "hypenet"])
        self.assertEqual(self.client.aliases(), [])
        model = self.client.model("dense")
        self.assertEqual((model.state, model.chat), (longstream.ModelState.READY, True))
        self.assertIn("score", model.capabilities)
        self.assertGreater(model.memory.weights, 0)
        with self.assertRaises(longstream.NotFoundError) as raised:
            self.client.model("none")
        self.assertTrue(raised.exception.request_id)

    def test_the_async_half(self):
        async def use():
            async with (longstream.AsyncClient(self.server.address) as client,
                        client.session("hypenet") as session):
                first = await session.stream(PROMPT, max_tokens=8, seed=1).read()
                async with session.fork(turn_id=first.started.turn_id) as fork:
                    await fork.append("more")
                    self.assertEqual((await fork.info()).position, first.finish.position + 4)
                stream = session.stream(PROMPT, ignore_eos=True)
                self.assertTrue(await anext(stream))
                await stream.close()
                history = await session.history()
                self.assertEqual([entry.text for entry in history], [PROMPT, first.text])
                turns = [turn async for turn in session.turns()]
                self.assertEqual(turns[1].state, longstream.TurnState.ABANDONED)
                again = await session.chat("Hi", whole_conversation=True, max_tokens=1).read()
                self.assertEqual(again.finish.reason, longstream.FinishReason.MAX_TOKENS)
                with tempfile.TemporaryDirectory() as folder:
                    path = pathlib.Path(folder) / "session.bin"
                    await session.export(path)
                    moved = await client.import_session(path, session_id=longstream.random_id())
                    await moved.close()
                read = await client.tokenize("text", model=session.model)
                self.assertEqual(await client.detokenize(read.token_ids, model=read.model), "text")
                score = await session.score("text")
                self.assertEqual(score.summary.tokens, 3)
                kept = await client.attach(session.id)
                await kept.rewind(position=0)

        asyncio.run(use())

    def test_the_programs_of_the_page(self):
        page = (SOURCE / "docs/python.md").read_text(encoding="utf-8")
        readme = (SOURCE / "README.md").read_text(encoding="utf-8")
        programs = [each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
                    if "Client(\"127.0.0.1:50051\") as client" in each]
        self.assertEqual(len(programs), 2)
        self.assertIn(programs[0], readme)
        printed = []
        for program in programs:
            program = program.replace("127.0.0.1:50051", self.server.address)
            result = subprocess.run([sys.executable, "-c", program], check=True, text=True,
                                    stdout=subprocess.PIPE)
            printed.append(result.stdout)
        self.assertTrue(printed[0])
        self.assertEqual(*printed)

    def test_the_examples(self):
        shown = []
        conversation.converse(self.client, "dense", ["def f():\n", "# "], shown.append,
                              max_tokens=6, ignore_eos=True)
        self.assertEqual(sum(len(each.token_ids) for each in shown), 12)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            asyncio.run(many_conversations.main(self.server.address, "dense", "hypenet"))
        # The models may generate dashes, too.
        for model in ("dense", "hypenet"):
            self.assertIn(f"--- {model}\n", printed.getvalue())


if __name__ == "__main__":
    unittest.main()
