"""Values of options that are wrong: the error names the option, the value, and what is expected."""

import re
import unittest

from longstream import calls, checks, enums, inputs, options
from longstream.v1 import longstream_pb2 as pb


def turn(**turn_options):
    return options.generate_request("s", None, turn_options)


def messages(conversation, **chat_options):
    return inputs.messages_input(conversation, chat_options)


def session(**arguments):
    return calls.open_session(**{"model": "m", "session_id": "s", "idle_timeout": None,
                                 "durability": enums.Durability.TURN,
                                 "recompute": enums.Recompute.EXACT, **arguments})


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
)


class OptionsTest(unittest.TestCase):
    def test_an_error_names_the_option_the_value_and_what_is_expected(self):
        for call, kind, option, expected, value in WRONG:
            with self.subTest(option=option, value=value), self.assertRaises(kind) as raised:
                call()
            self.assertRegex(
                str(raised.exception), "^" + re.escape(f"{option}: expected ") + ".*"
                + re.escape(expected) + ".*, found " + re.escape(repr(value)) + "$")

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

    def test_values_that_are_right(self):
        request = turn(temperature=1, seed=2**64 - 1, stop=("a", "b"), ignore_eos=1)
        self.assertEqual((request.sampling.temperature, request.sampling.seed), (1.0, 2**64 - 1))
        self.assertEqual(list(request.stop.strings), [b"a", b"b"])
        self.assertTrue(request.stop.ignore_eos)


if __name__ == "__main__":
    unittest.main()
