"""The clients of OpenAI and Anthropic, as their users call them, against the HTTP API."""

import json
import os
import pathlib
import sys
import time
import typing
import unittest

import anthropic
import openai
import pydantic

sys.path.append(str(pathlib.Path(os.environ["LONGSTREAM_SOURCE_DIR"]) / "tests/client/python"))
from server_process import MODELS, ServerProcess  # noqa: E402

TOOLS = [{"type": "function",
          "function": {"name": "add", "description": "Adds.",
                       "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}}]

# The demo models would write any thoughts, without an end.
NO_THOUGHTS = {"chat_template_kwargs": {"enable_thinking": False}}


def setUpModule():
    global server, client, claude
    server = ServerProcess(["--http-listen", "127.0.0.1:0"])
    url = f"http://127.0.0.1:{server.http_port}"
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=30)
    claude = anthropic.Anthropic(base_url=url, api_key="none", max_retries=30)
    # The models are loading: until they are ready, the clients try again.
    for model in MODELS:
        client.completions.create(model=model, prompt="x", max_tokens=1)


def tearDownModule():
    client.close()
    claude.close()
    server.close()


def chat(model, messages, **more):
    return client.chat.completions.create(
        model=model, messages=messages, max_tokens=12, temperature=0, **more)


class ChatCompletionsTest(unittest.TestCase):

    def test_a_conversation_continues_in_one_session(self):
        for model in MODELS:
            with self.subTest(model):
                messages = [{"role": "user", "content": "import os"}]
                sessions = []
                for question in ("def f():", "class A:", "import sys"):
                    answer = chat(model, messages)
                    sessions.append(answer.longstream["session_id"])
                    # As an application does: the whole message of the answer, and one more.
                    messages += [answer.choices[0].message.model_dump(),
                                 {"role": "user", "content": question}]
                self.assertEqual(len(set(sessions)), 1)
                self.assertEqual(answer.longstream["session"], "continued")
                self.assertGreater(answer.usage.prompt_tokens_details.cached_tokens,
                                   answer.usage.prompt_tokens / 2)

    def test_a_stream_has_the_text_of_the_whole_answer(self):
        messages = [{"role": "user", "content": "import re"}]
        whole = chat("dense", messages)
        chunks = list(chat("dense", messages, stream=True, logprobs=True, top_logprobs=2,
                           stream_options={"include_usage": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        tokens = [token for c in chunks if c.choices and c.choices[0].logprobs
                  for token in c.choices[0].logprobs.content]
        self.assertEqual(len(tokens), 12)
        self.assertTrue(all(len(token.top_logprobs) == 2 for token in tokens))

    def test_thoughts_are_apart_from_the_text(self):
        messages = [{"role": "user", "content": "import re"}]
        more = {"extra_body": {"chat_template_kwargs": {"enable_thinking": True}}}
        message = chat("dense", messages, **more).choices[0].message
        self.assertEqual(message.content, "")
        chunks = chat("dense", messages, stream=True, **more)
        text = "".join(getattr(c.choices[0].delta, "reasoning_content", "") for c in chunks)
        self.assertTrue(text)
        self.assertEqual(text, message.reasoning_content)

    def test_functions_go_to_the_template(self):
        messages = [{"role": "user", "content": "x"},
                    {"role": "assistant", "content": None, "tool_calls": [
                        {"id": "1", "type": "function",
                         "function": {"name": "add", "arguments": '{"a": 1}'}}]},
                    {"role": "tool", "tool_call_id": "1", "content": "5"}]
        self.assertEqual(chat("dense", messages, tools=TOOLS).choices[0].finish_reason, "length")

    def test_errors_name_the_field(self):
        for field, value in (("temperature", -1), ("n", 17), ("max_token", 5),
                             ("tool_choice", "required"), ("modalities", ["audio"])):
            with self.subTest(field), self.assertRaises(openai.BadRequestError) as raised:
                chat("dense", [{"role": "user", "content": "x"}], extra_body={field: value})
            self.assertEqual(raised.exception.param, field)
        with self.assertRaises(openai.NotFoundError):
            chat("none", [{"role": "user", "content": "x"}])

    def test_answers_fit_a_schema(self):
        class Point(pydantic.BaseModel):
            x: typing.Annotated[int, pydantic.Field(ge=0, le=9)]
            label: typing.Literal["near", "far"]

        messages = [{"role": "user", "content": "x"}]
        for model in MODELS:
            with self.subTest(model):
                answer = client.chat.completions.parse(
                    model=model, messages=messages, max_tokens=500, temperature=1.5, seed=1,
                    response_format=Point, extra_body=NO_THOUGHTS)
                self.assertIn(answer.choices[0].message.parsed.x, range(10))
                self.assertEqual(answer.choices[0].finish_reason, "stop")
        parsed = client.responses.parse(model="dense", input="x", max_output_tokens=500,
                                        reasoning={"effort": "none"}, text_format=Point).output_parsed
        self.assertIn(parsed.label, ("near", "far"))
        completion = client.completions.create(
            model="dense", prompt="x", max_tokens=50,
            extra_body={"structured_outputs": {"choice": ["yes", "no"]}})
        self.assertIn(completion.choices[0].text, ("yes", "no"))
        with self.assertRaisesRegex(openai.BadRequestError, "#/minimum"):
            chat("dense", messages, response_format={"type": "json_schema", "json_schema": {
                "name": "n", "schema": {"type": "integer", "minimum": "a"}}})

    def test_a_call_can_be_forced(self):
        messages = [{"role": "user", "content": "x"}]
        for choice in ("required", {"type": "function", "function": {"name": "add"}}):
            answer = client.chat.completions.create(
                model="dense", messages=messages, max_tokens=300, temperature=0, tools=TOOLS,
                tool_choice=choice, parallel_tool_calls=False, extra_body=NO_THOUGHTS)
            call = answer.choices[0].message.tool_calls[0]
            self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
            self.assertEqual(call.function.name, "add")
            self.assertLessEqual(set(json.loads(call.function.arguments)), {"a"})
        with self.assertRaisesRegex(openai.BadRequestError, "there is no tool"):
            chat("dense", messages, tools=TOOLS,
                 tool_choice={"type": "function", "function": {"name": "other"}})

    def test_models_are_listed(self):
        self.assertEqual(sorted(model.id for model in client.models.list()), sorted(MODELS))
        self.assertEqual(client.models.retrieve("dense").id, "dense")


class CompletionsTest(unittest.TestCase):

    def test_each_prompt_has_its_choice(self):
        answer = client.completions.create(model="dense", prompt=["def ", "import "], max_tokens=5,
                                           temperature=0, logprobs=1)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        self.assertEqual([len(choice.logprobs.tokens) for choice in answer.choices], [5, 5])


class ResponsesTest(unittest.TestCase):

    def test_a_response_goes_on_behind_an_earlier_one(self):
        first = client.responses.create(model="hypenet", input="import os", max_output_tokens=8,
                                        temperature=0, instructions="Be kind.")
        with client.responses.create(model="hypenet", input="def f():", max_output_tokens=8,
                                     temperature=0, instructions="Be kind.", stream=True,
                                     previous_response_id=first.id) as stream:
            events = list(stream)
        second = events[-1].response
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        self.assertEqual(second.longstream["session_id"], first.longstream["session_id"])
        text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
        self.assertEqual(text, second.output_text)
        # The same conversation, sent by the client.
        whole = [{"role": "user", "content": "import os"}]
        whole += [item.model_dump(exclude_none=True) for item in first.output]
        whole += [{"role": "user", "content": "def f():"}]
        again = client.responses.create(model="hypenet", input=whole, max_output_tokens=8,
                                        temperature=0, instructions="Be kind.")
        self.assertEqual(again.output_text, second.output_text)

    def test_thoughts_are_items(self):
        request = {"model": "dense", "input": "import re", "max_output_tokens": 8,
                   "temperature": 0, "reasoning": {"effort": "low"}}
        whole = client.responses.create(**request)
        self.assertEqual(whole.output[0].type, "reasoning")
        with client.responses.stream(**request) as stream:
            events = list(stream)
        text = "".join(e.delta for e in events if e.type == "response.reasoning_text.delta")
        self.assertTrue(text)
        self.assertEqual(text, whole.output[0].content[0].text)
        self.assertEqual(whole.usage.output_tokens_details.reasoning_tokens, 8)

    def test_a_response_takes_the_fields_of_sampling(self):
        request = {"model": "dense", "input": "import re", "max_output_tokens": 40,
                   "temperature": 1.5}
        first = client.responses.create(**request, extra_body={"seed": 3, "ignore_eos": True})
        again = client.responses.create(**request, extra_body={"seed": 3, "ignore_eos": True})
        self.assertEqual(first.usage.output_tokens, 40)
        self.assertEqual(first.output_text, again.output_text)
        stop = first.output_text[5:7]
        cut = client.responses.create(**request, extra_body={"seed": 3, "stop": stop,
                                                               "ignore_eos": True})
        self.assertEqual(cut.output_text, first.output_text.partition(stop)[0])
        with self.assertRaises(openai.BadRequestError) as raised:
            client.responses.create(**request, extra_body={"top_k": -2})
        self.assertEqual(raised.exception.param, "top_k")

    def test_a_response_can_be_read_and_deleted(self):
        made = client.responses.create(model="dense", input="x", max_output_tokens=4)
        self.assertEqual(client.responses.retrieve(made.id).output_text, made.output_text)
        client.responses.delete(made.id)
        with self.assertRaises(openai.NotFoundError):
            client.responses.retrieve(made.id)
        with self.assertRaises(openai.NotFoundError):
            client.responses.create(model="dense", input="x", previous_response_id=made.id)

    def test_a_response_is_made_in_the_background(self):
        made = client.responses.create(model="dense", input="import os", max_output_tokens=200,
                                       temperature=0, background=True, stream=True)
        seen = [next(made) for _ in range(4)]
        made.close()  # the client leaves
        id = seen[0].response.id
        # It comes back, and reads on where it was.
        rest = list(client.responses.retrieve(id, stream=True,
                                              starting_after=seen[-1].sequence_number))
        numbers = [event.sequence_number for event in seen + rest]
        self.assertEqual(numbers, list(range(len(numbers))))
        text = "".join(e.delta for e in seen + rest if e.type == "response.output_text.delta")
        final = client.responses.retrieve(id)
        self.assertEqual(final.output_text, text)
        self.assertEqual(final.usage.output_tokens, 200)
        again = client.responses.create(model="dense", input="x", previous_response_id=id,
                                        max_output_tokens=2)
        self.assertEqual(again.longstream["session"], "continued")

    def test_a_response_in_the_background_is_cancelled(self):
        # A drawn token could end the answer before it is cancelled.
        made = client.responses.create(model="dense", input="import re", background=True,
                                       max_output_tokens=30000, temperature=0,
                                       extra_body={"ignore_eos": True})
        self.assertIn(made.status, ("queued", "in_progress"))
        with self.assertRaises(openai.BadRequestError):
            client.responses.create(model="dense", input="x", previous_response_id=made.id)
        self.assertEqual(client.responses.cancel(made.id).status, "cancelled")
        self.assertEqual(client.responses.retrieve(made.id).status, "cancelled")

    def test_a_response_in_the_background_that_fails_says_why(self):
        made = client.responses.create(model="none", input="x", background=True)
        while made.status in ("queued", "in_progress"):
            time.sleep(0.01)
            made = client.responses.retrieve(made.id)
        self.assertEqual(made.status, "failed")
        self.assertIn("no model", made.error.message)


class MessagesTest(unittest.TestCase):

    def test_a_conversation_continues_in_one_session(self):
        messages = [{"role": "user", "content": "import os"}]
        sessions = []
        for _ in range(3):
            answer = claude.messages.create(model="hypenet", max_tokens=8, messages=messages,
                                            system="Be brief.", extra_body={"temperature": 0})
            sessions.append(answer.longstream["session_id"])
            messages += [{"role": "assistant", "content": answer.content},
                         {"role": "user", "content": [{"type": "text", "text": "def f():"}]}]
        self.assertEqual(len(set(sessions)), 1)
        self.assertGreater(answer.usage.cache_read_input_tokens, answer.usage.input_tokens)

    def test_a_stream_has_the_text_of_the_whole_answer(self):
        tools = [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}]
        request = {"model": "dense", "max_tokens": 8, "tools": tools,
                   "messages": [{"role": "user", "content": "import re"}],
                   "extra_body": {"temperature": 0}}
        whole = claude.messages.create(**request)
        with claude.messages.stream(**request) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual(final.stop_reason, "max_tokens")
        self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)

    def test_thoughts_are_blocks(self):
        request = {"model": "dense", "max_tokens": 8, "extra_body": {"temperature": 0},
                   "messages": [{"role": "user", "content": "import re"}],
                   "thinking": {"type": "enabled", "budget_tokens": 1024}}
        whole = claude.messages.create(**request)
        with claude.messages.stream(**request) as stream:
            final = stream.get_final_message()
        self.assertEqual([block.type for block in final.content], ["thinking"])
        self.assertTrue(final.content[0].thinking)
        self.assertEqual(final.content[0].thinking, whole.content[0].thinking)
        request["messages"] += [{"role": "assistant", "content": final.content},
                                {"role": "user", "content": "def f():"}]
        again = claude.messages.create(**request)
        self.assertEqual(again.longstream["session"], "continued")

    def test_the_tokens_of_a_prompt_are_counted(self):
        request = {"model": "dense", "system": "Be brief.",
                   "tools": [{"name": "add", "input_schema": {"type": "object"}}],
                   "messages": [{"role": "user", "content": "import re"}]}
        counted = claude.messages.count_tokens(**request)
        answer = claude.messages.create(max_tokens=1, **request)
        self.assertEqual(counted.input_tokens,
                         answer.usage.input_tokens + answer.usage.cache_read_input_tokens)
        with self.assertRaises(anthropic.NotFoundError):
            claude.messages.count_tokens(model="none", messages=request["messages"])

    def test_answers_fit_a_schema_and_calls_are_forced(self):
        message = claude.messages.create(
            model="dense", max_tokens=100, messages=[{"role": "user", "content": "x"}],
            extra_body={"output_format": {"type": "json_schema", "schema": {"enum": ["a", "b"]}},
                        "thinking": {"type": "disabled"}})
        self.assertIn(message.content[0].text, ('"a"', '"b"'))
        message = claude.messages.create(
            model="dense", max_tokens=300, messages=[{"role": "user", "content": "x"}],
            tools=[{"name": "add", "input_schema": {"type": "object", "required": ["a"],
                                                    "properties": {"a": {"type": "boolean"}}}}],
            tool_choice={"type": "tool", "name": "add"}, thinking={"type": "disabled"})
        self.assertEqual(message.stop_reason, "tool_use")
        self.assertIn(message.content[-1].input["a"], (True, False))

    def test_errors_have_the_form_of_the_api(self):
        with self.assertRaises(anthropic.BadRequestError) as raised:
            claude.messages.create(model="dense", max_tokens=3, messages=[
                {"role": "user", "content": [{"type": "image", "source": {}}]}])
        self.assertIn("messages[0].content[0].type", json.dumps(raised.exception.body))


if __name__ == "__main__":
    unittest.main()
