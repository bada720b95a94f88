"""The package has every field, value and method of the wire contract, under its name."""

import dataclasses
import datetime
import enum
import json
import unittest

from longstream import calls, enums, inputs, model_values, notes, options, tokens, values
from longstream.reading import read
from longstream.v1 import longstream_pb2 as pb

# The dataclasses that have another name than their message.
NAMES = {"SessionInfo": "Session", "TurnInfo": "Turn", "ModelInfo": "Model",
         "Appended": "AppendResponse", "Tokens": "TokenizeResponse"}
# Those that are made of several messages.
COMPOSED = {"Comparison", "Generation", "Score"}


def dataclasses_of_the_package():
    return [kind for kind in (*vars(values).values(), *vars(model_values).values(), notes.Note,
                              tokens.Tokens)
            if dataclasses.is_dataclass(kind) and kind.__name__ not in COMPOSED]


class ContractTest(unittest.TestCase):
    def test_dataclasses_have_the_fields_of_their_messages(self):
        kinds = dataclasses_of_the_package()
        self.assertGreater(len(kinds), 15)
        for kind in kinds:
            message = getattr(pb, NAMES.get(kind.__name__, kind.__name__))
            self.assertEqual([field.name for field in dataclasses.fields(kind)],
                             [field.name for field in message.DESCRIPTOR.fields], kind.__name__)

    def test_every_message_that_is_answered_can_be_read(self):
        for kind in dataclasses_of_the_package():
            message = getattr(pb, NAMES.get(kind.__name__, kind.__name__))
            self.assertIsInstance(read(kind, message()), kind)

    def test_enumerations_have_the_values_of_the_contract(self):
        ours = {name: kind for name, kind in vars(enums).items()
                if isinstance(kind, enum.EnumMeta) and not name.startswith("_") and len(kind)}
        self.assertEqual(set(ours), set(pb.DESCRIPTOR.enum_types_by_name))
        for name, kind in ours.items():
            theirs = pb.DESCRIPTOR.enum_types_by_name[name]
            prefix = theirs.values_by_number[0].name.removesuffix("UNSPECIFIED")
            self.assertEqual({f"{prefix}{value.name}": value.value for value in kind},
                             {value.name: value.number for value in theirs.values})

    def test_a_value_of_a_later_contract_is_unspecified(self):
        self.assertEqual(enums.FinishReason(99), enums.FinishReason.UNSPECIFIED)

    def test_every_field_of_a_turn_is_an_option(self):
        fields = set()
        for message in (pb.GenerateRequest, pb.Sampling, pb.StopRule):
            fields |= set(message.DESCRIPTOR.fields_by_name)
        fields -= {"session_id", "input", "sampling", "resume"}  # set by the package
        fields = fields - {"strings", "token_ids"} | {"stop_token_ids", "timeout"}
        self.assertEqual(set(options.TurnOptions.__annotations__), fields)
        self.assertEqual(set(options.AppendOptions.__annotations__),
                         set(pb.AppendRequest.DESCRIPTOR.fields_by_name) - {"session_id", "input"})
        self.assertEqual(set(inputs.ChatOptions.__annotations__),
                         set(pb.Messages.DESCRIPTOR.fields_by_name) - {"messages"})

    def test_the_options_reach_the_request(self):
        request = options.generate_request("s", None, {
            "max_tokens": 5, "stop": "end", "stop_token_ids": [3], "min_tokens": 2,
            "stop_text": enums.StopText.DROP, "temperature": 0.0, "logit_bias": {4: -100.0},
            "seed": 0, "priority": enums.Priority.HIGH, "expected_position": 0, "timeout": 3.0,
            "top_k": None, "turn_id": "a" * 32})
        self.assertEqual(request, pb.GenerateRequest(
            session_id="s", turn_id="a" * 32, max_tokens=5, expected_position=0,
            priority=pb.PRIORITY_HIGH,
            sampling=pb.Sampling(temperature=0.0, seed=0, logit_bias={4: -100.0}),
            stop=pb.StopRule(strings=[b"end"], token_ids=[3], min_tokens=2,
                             stop_text=pb.STOP_TEXT_DROP)))
        self.assertTrue(request.sampling.HasField("temperature"))
        self.assertTrue(request.HasField("expected_position"))

    def test_every_field_of_a_comparison_is_an_argument(self):
        fields = set()
        for message in (pb.CompareRequest, pb.Sampling, pb.StopRule):
            fields |= set(message.DESCRIPTOR.fields_by_name)
        fields -= {"arms", "input", "session_id", "forced", "sampling"}  # arguments of their own
        fields = fields - {"strings", "token_ids"} | {"stop_token_ids"}
        self.assertEqual(set(options.AnswerOptions.__annotations__), fields)
        self.assertEqual(set(options.SamplingOptions.__annotations__),
                         set(pb.Sampling.DESCRIPTOR.fields_by_name))

    def test_the_arguments_of_a_comparison_reach_the_request(self):
        request = options.compare_request(
            ["a", options.Arm("b", {"temperature": 0.5})], inputs.compared_input("hi", None), "s",
            inputs.forced(None, 1, None),
            {"max_tokens": 3, "stop": ["x"], "seed": 0, "top_log_probs": 2, "top_k": None,
             "priority": enums.Priority.LOW})
        self.assertEqual(request, pb.CompareRequest(
            arms=[pb.CompareArm(model="a"),
                  pb.CompareArm(model="b", sampling=pb.Sampling(temperature=0.5))],
            input=pb.Input(text=b"hi"), session_id="s", forced=pb.CompareForced(answer_of=1),
            sampling=pb.Sampling(seed=0), stop=pb.StopRule(strings=[b"x"]), max_tokens=3,
            top_log_probs=2, priority=pb.PRIORITY_LOW))
        self.assertEqual(inputs.compared_input(None, "Hi").messages.messages[0].role, b"user")
        self.assertIsNone(inputs.compared_input(None, None))
        with self.assertRaises(ValueError):
            inputs.compared_input("hi", "Hi")
        with self.assertRaisesRegex(TypeError, "no option log_probs$"):
            options.compare_request(["a", "b"], None, "s", None, {"log_probs": True})

    def test_the_arguments_of_a_text_reach_the_request(self):
        def request(text=None, messages=None, **given):
            options_of = {"chat_options": {}} | dict.fromkeys(
                ("parse_special", "add_special", "count_only", "pieces"), False)
            return tokens.tokenize("m", text, messages, **(options_of | given)).request()

        self.assertEqual(request("hi", add_special=True, pieces=True), pb.TokenizeRequest(
            model="m", input=pb.Input(text=b"hi"), add_special=True, pieces=True))
        self.assertEqual(
            request(messages="Hi", count_only=True, chat_options={"add_generation_prompt": False}),
            pb.TokenizeRequest(model="m", count_only=True, add_special=False, input=pb.Input(
                messages=pb.Messages(messages=[pb.Message(role=b"user", content=b"Hi")],
                                     add_generation_prompt=False))))
        for wrong in ({}, {"text": "hi", "messages": "Hi"}):
            with self.assertRaisesRegex(ValueError, "a text or messages"):
                request(**wrong)
        self.assertEqual(tokens.detokenize("m", [1, 2], True).request(),
                         pb.DetokenizeRequest(model="m", token_ids=[1, 2], skip_special=True))
        with self.assertRaisesRegex(TypeError, "token_ids: expected a sequence of token ids"):
            tokens.detokenize("m", "text", False)

    def test_notes_reach_the_request(self):
        given = {"key": "ä", b"\xff": bytearray(b"\xfe"), "gone": None, "empty": b""}
        self.assertEqual(notes.put_notes("s", given).request(), pb.PutNotesRequest(
            session_id="s", notes=[pb.Note(key=b"key", value="ä".encode()),
                                   pb.Note(key=b"\xff", value=b"\xfe"),
                                   pb.Note(key=b"gone"), pb.Note(key=b"empty")]))
        self.assertEqual(notes.Search(iter(["key", b"\xff"])).call().request(),
                         pb.FindNotesRequest(keys=[b"key", b"\xff"]))

    def test_all_arms_read_one_thing(self):
        self.assertIsNone(inputs.forced(None, None, None))
        self.assertEqual(inputs.forced("", None, None), pb.CompareForced(text=b""))
        self.assertEqual(inputs.forced([1, 2], None, None),
                         pb.CompareForced(tokens=pb.Tokens(ids=[1, 2])))
        self.assertEqual(inputs.forced(None, 0, None), pb.CompareForced(answer_of=0))
        self.assertEqual(inputs.forced(None, None, 0), pb.CompareForced(prompt_from=0))
        with self.assertRaises(ValueError):
            inputs.forced("x", 0, None)

    def test_turns_have_ids_of_their_own(self):
        first, second = (options.generate_request("s", None, {}).turn_id for _ in range(2))
        self.assertRegex(first, "^[0-9a-f]{32}$")
        self.assertNotEqual(first, second)

    def test_an_unknown_option_is_an_error(self):
        with self.assertRaisesRegex(TypeError, "no option max_token$"):
            options.generate_request("s", None, {"max_token": 5})


class InputsTest(unittest.TestCase):
    def test_texts(self):
        self.assertEqual(inputs.text_input("ä"), pb.Input(text="ä".encode()))
        self.assertEqual(inputs.text_input(b"\xff"), pb.Input(text=b"\xff"))
        self.assertEqual(inputs.text_input([1, 2]), pb.Input(tokens=pb.Tokens(ids=[1, 2])))

    def messages(self, conversation, **chat_options):
        return inputs.messages_input(conversation, chat_options).messages

    def test_a_string_is_a_message_of_the_user(self):
        self.assertEqual(self.messages("Hi"),
                         pb.Messages(messages=[pb.Message(role=b"user", content=b"Hi")]))

    def test_mappings_and_messages_are_the_same(self):
        calls_of_tools = [{"type": "function", "function": {"name": "f"}}]
        self.assertEqual(
            self.messages([{"role": "assistant", "tool_calls": calls_of_tools}, "ok"]),
            self.messages([inputs.Message("assistant", members={"tool_calls": calls_of_tools}),
                           inputs.Message("user", "ok")]))

    def test_a_content_that_is_no_text_is_a_member(self):
        content = [{"type": "text", "text": "Hi"}]
        (message,) = self.messages({"role": "user", "content": content}).messages
        self.assertFalse(message.HasField("content"))
        self.assertEqual(json.loads(message.json), {"content": content})

    def test_options(self):
        messages = self.messages("Hi", tools=[{"name": "f"}], add_generation_prompt=False,
                                 template_arguments={"enable_thinking": False})
        self.assertEqual(json.loads(messages.tools), [{"name": "f"}])
        self.assertEqual(json.loads(messages.template_arguments), {"enable_thinking": False})
        self.assertTrue(messages.HasField("add_generation_prompt"))
        of_chat, of_turn = options.split({"tools": [], "max_tokens": 3})
        self.assertEqual((of_chat, of_turn), ({"tools": []}, {"max_tokens": 3}))


class ReadingTest(unittest.TestCase):
    def test_times_and_absent_fields(self):
        session = pb.Session(session_id="s", bytes=pb.SessionBytes(kv=7),
                             durability=pb.DURABILITY_TURN)
        session.create_time.FromJsonString("2026-01-02T03:04:05.5Z")
        session.idle_timeout.FromJsonString("1.5s")
        session.ttl.FromJsonString("86400s")
        info = read(values.SessionInfo, session)
        self.assertEqual(info.create_time, datetime.datetime(2026, 1, 2, 3, 4, 5, 500000,
                                                             datetime.timezone.utc))
        self.assertEqual((info.idle_timeout, info.ttl, info.bytes.kv), (1.5, 86400, 7))
        self.assertIsNone(info.last_use_time)
        self.assertIs(info.durability, enums.Durability.TURN)

    def test_texts_and_bytes(self):
        finish = read(values.Finish, pb.Finish(stop_string="ß".encode(),
                                               incomplete_character=b"\xc3"))
        self.assertEqual((finish.stop_string, finish.incomplete_character), ("ß", b"\xc3"))

    def test_nested_lists(self):
        top = pb.TopToken(token_id=2, token=b"\xff", log_prob=-0.5)
        log_prob = read(values.TokenLogProb, pb.TokenLogProb(token_id=1, top=[top]))
        self.assertEqual(log_prob.top, (values.TopToken(2, b"\xff", -0.5),))

    def test_durations_are_sent(self):
        call = calls.open_session("m", "s", 1.25, enums.Durability.MEMORY, enums.Recompute.FAST)
        request = call.request()
        self.assertEqual(request.idle_timeout.ToMilliseconds(), 1250)
        self.assertEqual(request.durability, pb.DURABILITY_MEMORY)
        self.assertEqual(request.recompute, pb.RECOMPUTE_FAST)
        self.assertFalse(request.HasField("ttl"))
        call = calls.open_session("m", "s", None, enums.Durability.TURN, enums.Recompute.FAST, ttl=90.5)
        self.assertEqual(call.request().ttl.ToMilliseconds(), 90500)
        self.assertFalse(call.request().HasField("idle_timeout"))

    def test_a_place_is_one_thing(self):
        with self.assertRaises(ValueError):
            calls.rewind("s", "t", 3, 0)


if __name__ == "__main__":
    unittest.main()
