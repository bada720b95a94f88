"""Values of options that are wrong: the error names the option, the value, and what is expected."""

import asyncio
import re
import reprlib
import unittest

import longstream
from longstream import calls, checks, enums, inputs, notes, options
from longstream.v1 import longstream_pb2 as pb


def turn(**turn_options):
    return options.generate_request("s", None, turn_options)


def messages(conversation, **chat_options):
    return inputs.messages_input(conversation, chat_options)


def session(**arguments):
    return calls.open_session(**{"model": "m", "session_id": "s", "idle_timeout": None,
                                 "durability": enums.Durability.TURN,
                                 "recompute": enums.Recompute.EXACT, **arguments})


def fork(**arguments):
    return calls.fork(**{"session_id": "s", "new_session_id": "t", "turn_id": None, "position": None,
                         "model": "m", "idle_timeout": None, **arguments})


def arms(*given):
    return options.compare_request(given, None, "", None, {})


# Arguments of import_session, each of which is wrong.
WRONG_IMPORTS = ({"idle_timeout": "x"}, {"session_id": 5}, {"model": 5})

# The call, the error, the option that it names, and the words about what is expected.
WRONG = (
    (lambda: turn(max_tokens=-1), ValueError, "max_tokens", "a whole number from 0 to 4294967295", -1),
    (lambda: turn(max_tokens=2**32), ValueError, "max_tokens", "a whole number", 2**32),
    (lambda: turn(max_tokens=1.5), TypeError, "max_tokens", "a whole number", 1.5),
    (lambda: turn(max_tokens=True), TypeError, "max_tokens", "a whole number", True),
    (lambda: turn(seed=-1), ValueError, "seed", "a whole number from 0 to 18446744073709551615", -1),
    (lambda: turn(top_k=-1), ValueError, "top_k", "a whole number from 0 to 2147483647", -1),
    (lambda: turn(temperature="hot"), TypeError, "temperature", "a number", "hot"),
    (lambda: turn(top_p=True), TypeError, "top_p", "a number", True),
    (lambda: turn(priority="urgent"), ValueError, "priority",
     "a longstream.Priority, or one of 'low', 'normal', 'high'", "urgent"),
    (lambda: turn(priority=17), ValueError, "priority", "a longstream.Priority", 17),
    (lambda: turn(priority=enums.OnAbort.KEEP), TypeError, "priority", "a longstream.Priority",
     enums.OnAbort.KEEP),
    (lambda: turn(on_abort="unspecified"), ValueError, "on_abort",
     "a longstream.OnAbort, or one of 'rollback', 'keep', 'continue'", "unspecified"),
    (lambda: turn(response_format=5), TypeError, "response_format", "a mapping (a JSON Schema)", 5),
    (lambda: turn(response_format=int), TypeError, "response_format", "a mapping (a JSON Schema)", int),
    (lambda: turn(timeout="5"), TypeError, "timeout", "a number of seconds above 0", "5"),
    (lambda: turn(timeout=0), ValueError, "timeout", "a number of seconds above 0", 0),
    (lambda: turn(timeout=-1), ValueError, "timeout", "a number of seconds above 0", -1),
    (lambda: turn(timeout=float("inf")), ValueError, "timeout", "a number of seconds", float("inf")),
    (lambda: turn(timeout=float("nan")), ValueError, "timeout", "a number of seconds", float("nan")),
    (lambda: turn(stop=3), TypeError, "stop", "a str or a sequence of them", 3),
    (lambda: turn(stop=["a", 3]), TypeError, "stop", "a str or a sequence of them", ["a", 3]),
    (lambda: turn(stop_token_ids=["a"]), TypeError, "stop_token_ids", "a sequence of whole numbers", ["a"]),
    (lambda: turn(logit_bias=[3]), TypeError, "logit_bias", "a mapping from token ids to numbers", [3]),
    (lambda: turn(ignore_eos="yes"), TypeError, "ignore_eos", "True or False", "yes"),
    (lambda: turn(turn_id=7), TypeError, "turn_id", "a str of 32 hexadecimal digits", 7),
    (lambda: options.append_request("s", {"expected_position": -1}), ValueError, "expected_position",
     "a whole number", -1),
    (lambda: options.compare_request("dense", None, "", None, {}), TypeError, "arms",
     "a sequence of models", "dense"),
    (lambda: options.compare_request(["a", 3], None, "", None, {}), TypeError, "arms[1]",
     "the name of a model, or an Arm", 3),
    (lambda: options.compare_request([options.Arm("a", {"seed": -1})], None, "", None, {}), ValueError,
     "seed", "a whole number", -1),
    (lambda: inputs.forced(None, -1, None), ValueError, "answer_of", "a whole number", -1),
    (lambda: inputs.forced(3, None, None), TypeError, "force", "a str, bytes, or a sequence of token ids", 3),
    (lambda: inputs.text_input(3), TypeError, "text", "a str, bytes, or a sequence of token ids", 3),
    (lambda: inputs.text_input([1, "x"]), TypeError, "text[1]", "a token id", "x"),
    (lambda: inputs.text_input([2**31]), ValueError, "text[0]", "a token id", 2**31),
    (lambda: inputs.text_inputs(["a", 3]), TypeError, "texts[1]", "a str, bytes, or", 3),
    (lambda: messages(3), TypeError, "messages", "a str, a Message, or a mapping", 3),
    (lambda: messages(["Hi", 3]), TypeError, "messages[1]", "a str, a Message, or a mapping", 3),
    (lambda: messages({"content": "Hi"}), ValueError, "messages[0]", "a message with a 'role'",
     {"content": "Hi"}),
    (lambda: messages({"role": 3}), TypeError, "messages[0].role", "a str", 3),
    (lambda: messages(inputs.Message("user", 3)), TypeError, "messages[0].content", "a str or None", 3),
    (lambda: messages("Hi", tools="f"), TypeError, "tools", "a sequence of mappings", "f"),
    (lambda: messages("Hi", template_arguments=[1]), TypeError, "template_arguments", "a mapping", [1]),
    (lambda: session(model=3), TypeError, "model", "a str, the name of a model", 3),
    (lambda: session(idle_timeout="5"), TypeError, "idle_timeout", "a number of seconds", "5"),
    (lambda: session(ttl="5"), TypeError, "ttl", "a number of seconds above 0", "5"),
    (lambda: session(ttl=0), ValueError, "ttl", "a number of seconds above 0", 0),
    (lambda: session(ttl=float("inf")), ValueError, "ttl", "a number of seconds", float("inf")),
    (lambda: session(durability="disk"), ValueError, "durability", "one of 'turn', 'memory'", "disk"),
    (lambda: calls.rewind("s", None, -1, 0), ValueError, "position", "a whole number", -1),
    (lambda: calls.score("m", pb.Input(), -1, False), ValueError, "top_log_probs", "a whole number", -1),
    (lambda: turn(temperature=10**400), ValueError, "temperature", "a number", 10**400),
    (lambda: turn(logit_bias={1: 10**400}), ValueError, "logit_bias", "a mapping", {1: 10**400}),
    (lambda: turn(timeout=10**400), ValueError, "timeout", "a number of seconds", 10**400),
    (lambda: turn(stop_token_ids=bytearray(b"ab")), TypeError, "stop_token_ids", "a sequence",
     bytearray(b"ab")),
    (lambda: session(idle_timeout=1e300), ValueError, "idle_timeout", "at most 315576000000", 1e300),
    (lambda: session(expect={"max_tokens": 1}), TypeError, "expect", "an Expectation", {"max_tokens": 1}),
    (lambda: session(expect=inputs.Expectation(prompt_tokens=-1)), ValueError, "expect.prompt_tokens",
     "a whole number", -1),
    (lambda: session(expect=inputs.Expectation(max_time_per_token="1")), TypeError,
     "expect.max_time_per_token", "a number of seconds", "1"),
    (lambda: fork(model=5), TypeError, "model", "a str, the name of a model", 5),
    (lambda: fork(new_session_id=5), TypeError, "session_id", "a str of 32", 5),
    (lambda: fork(idle_timeout=1e300), ValueError, "idle_timeout", "a number of seconds", 1e300),
    (lambda: calls.rewind("s", None, 0, -1), ValueError, "expected_version", "a whole number", -1),
    (lambda: calls.get_session(5), TypeError, "session_id", "a str of 32", 5),
    (lambda: calls.get_session(None), TypeError, "session_id", "a str of 32", None),
    (lambda: calls.cancel_turn("s", 5), TypeError, "turn_id", "a str of 32", 5),
    (lambda: calls.sessions_page(5, "", ""), TypeError, "model", "a str, the name of a model", 5),
    (lambda: calls.sessions_page("", 5, ""), TypeError, "alias", "a str, the name of an alias", 5),
    (lambda: calls.export_session("s", None, "x"), TypeError, "sealed", "True or False", "x"),
    (lambda: options.compare_request(["a"], None, 5, None, {}), TypeError, "session_id", "a str of 32", 5),
    (lambda: options.compare_request(5, None, "", None, {}), TypeError, "arms", "a sequence of models", 5),
    (lambda: options.compare_request({"a": 1}, None, "", None, {}), TypeError, "arms",
     "a sequence of models", {"a": 1}),
    (lambda: arms(options.Arm(5, {})), TypeError, "arms[0].model", "a str, the name of a model", 5),
    (lambda: arms("a", options.Arm("b", None)), TypeError, "arms[1].sampling", "a mapping", None),
    (lambda: longstream.Client("localhost:1", retry=5), TypeError, "retry", "a longstream.RetryPolicy", 5),
    (lambda: notes.put_notes("s", ["key"]), TypeError, "values", "a mapping from keys", ["key"]),
    (lambda: notes.put_notes("s", {1: "v"}), TypeError, "values", "a mapping from keys", {1: "v"}),
    (lambda: notes.put_notes("s", {"key": 1}), TypeError, "values", "to str, bytes or None", {"key": 1}),
    (lambda: notes.Search("key"), TypeError, "keys", "a sequence of str or bytes", "key"),
    (lambda: notes.Search(["key", 1]), TypeError, "keys", "a sequence of str or bytes", ["key", 1]),
    (lambda: inputs.text_input({1: 2}), TypeError, "text", "a str, bytes, or a sequence", {1: 2}),
    (lambda: inputs.text_input({1}), TypeError, "text", "a str, bytes, or a sequence", {1}),
)


class OptionsTest(unittest.TestCase):
    def test_an_error_names_the_option_the_value_and_what_is_expected(self):
        for call, kind, option, expected, value in WRONG:
            with self.subTest(option=option, value=value), self.assertRaises(kind) as raised:
                call()
            self.assertRegex(
                str(raised.exception), "^" + re.escape(f"{option}: expected ") + ".*"
                + re.escape(expected) + ".*, found " + re.escape(reprlib.repr(value)) + "$")

    def test_a_wrong_option_of_an_import_is_named_before_the_call(self):
        async def import_from(arguments):
            async with longstream.AsyncClient("localhost:1") as client:
                await client.import_session(__file__, **arguments)

        for wrong in WRONG_IMPORTS:
            option = next(iter(wrong))
            with longstream.Client("localhost:1") as client:
                with self.assertRaisesRegex(TypeError, f"^{option}: expected "):
                    client.import_session(__file__, **wrong)
            with self.assertRaisesRegex(TypeError, f"^{option}: expected "):
                asyncio.run(import_from(wrong))

    def test_other_calls_of_both_clients_name_the_option(self):
        async def attach():
            async with longstream.AsyncClient("localhost:1") as client:
                await client.attach(None)

        with self.assertRaisesRegex(TypeError, "^session_id: expected "):
            asyncio.run(attach())
        with longstream.Client("localhost:1") as client:
            for call, option in ((lambda: client.attach(5), "session_id"),
                                 (lambda: list(client.sessions(model=5)), "model"),
                                 (lambda: list(client.sessions(alias=5)), "alias"),
                                 (lambda: client.compare(5, "Hi"), "arms")):
                with self.assertRaisesRegex(TypeError, f"^{option}: expected "):
                    call()

    def test_what_is_no_json_is_named(self):
        for call, option in ((lambda: messages("Hi", tools=[{"name": {1}}]), "tools"),
                             (lambda: messages({"role": "user", "x": {1}}), "messages[0]")):
            with self.assertRaisesRegex(TypeError, f"^{re.escape(option)}: .*JSON"):
                call()

    def test_a_long_value_is_not_shown_in_whole(self):
        with self.assertRaises(TypeError) as raised:
            turn(temperature="x" * 10000)
        self.assertLess(len(str(raised.exception)), 200)

    def test_every_option_is_checked(self):
        for kind in (options.TurnOptions, options.AppendOptions, inputs.ChatOptions):
            self.assertLessEqual(set(kind.__annotations__), set(checks.CHECKS))

    def test_the_limits_are_those_of_the_wire(self):
        tried = 0
        for message in (pb.GenerateRequest, pb.Sampling, pb.StopRule):
            for field in message.DESCRIPTOR.fields:
                found = re.search(r"whole number from 0 to (\d+)$",
                                  checks.CHECKS[field.name].expected
                                  if field.name in checks.CHECKS else "")
                if found is None:
                    continue
                most, tried = int(found[1]), tried + 1
                message(**{field.name: most})
                with self.assertRaises(ValueError):
                    message(**{field.name: most + 1})
        self.assertEqual(tried, 6)

    def test_enumerations_may_be_given_as_words(self):
        self.assertEqual(
            turn(turn_id="t", priority="high", on_abort="keep", stop_text="drop",
                 penalty_scope="session"),
            turn(turn_id="t", priority=enums.Priority.HIGH, on_abort=2, stop_text=enums.StopText.DROP,
                 penalty_scope=enums.PenaltyScope.SESSION))
        self.assertEqual(session(durability="memory").request().durability, pb.DURABILITY_MEMORY)
        for like, kind in ((enums.PriorityLike, enums.Priority), (enums.OnAbortLike, enums.OnAbort),
                           (enums.StopTextLike, enums.StopText),
                           (enums.PenaltyScopeLike, enums.PenaltyScope),
                           (enums.DurabilityLike, enums.Durability),
                           (enums.RecomputeLike, enums.Recompute)):
            words = like.__args__[1].__args__
            self.assertEqual(list(words), [each.name.lower() for each in kind if each.value])

    def test_none_is_absent(self):
        self.assertEqual(turn(turn_id="t", seed=None, timeout=None, stop=None), turn(turn_id="t"))
        self.assertEqual(messages("Hi", tools=None), messages("Hi"))
        rewinds = [calls.rewind("s", None, 3, version) for version in (0, None)]
        self.assertEqual(rewinds[0].request(), rewinds[1].request())
        self.assertTrue(rewinds[1].repeatable)

    def test_bytes_of_all_kinds_are_text(self):
        for given in (b"abc", bytearray(b"abc"), memoryview(b"abc")):
            self.assertEqual(inputs.text_input(given), pb.Input(text=b"abc"))
            self.assertEqual(inputs.text_inputs([given]), [pb.Input(text=b"abc")])

    def test_an_expectation_has_all_its_fields(self):
        expect = inputs.Expectation(1, 2, 3, 0.5, 1.5, 6)
        message = session(expect=expect).request().expect
        self.assertEqual(message.max_time_to_first_token.nanos, 500_000_000)
        self.assertEqual((message.prompt_tokens, message.prompt_bytes, message.max_tokens,
                          message.max_time_per_token.seconds, message.max_session_bytes),
                         (1, 2, 3, 1, 6))

    def test_values_that_are_right(self):
        request = turn(temperature=1, seed=2**64 - 1, stop=("a", "b"), ignore_eos=1)
        self.assertEqual((request.sampling.temperature, request.sampling.seed), (1.0, 2**64 - 1))
        self.assertEqual(list(request.stop.strings), [b"a", b"b"])
        self.assertTrue(request.stop.ignore_eos)


if __name__ == "__main__":
    unittest.main()
