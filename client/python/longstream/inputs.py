"""What a program gives to the model: text, token ids, or messages of a conversation."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

from longstream.v1 import longstream_pb2 as pb

# Text, as a string or in UTF-8 (the tokenizer "byte" accepts any bytes), or token ids.
Text: TypeAlias = str | bytes | Sequence[int]


@dataclasses.dataclass(frozen=True)
class Message:
    """A message of a conversation.

    Attributes:
        role: "system", "user", "assistant", "tool" or another role that the template knows.
        content: None: the message has no content.
        members: further members, such as "tool_calls" and "reasoning_content". A content that is
            not a text is a member too.
    """

    role: str
    content: str | None = None
    members: Mapping[str, Any] = dataclasses.field(default_factory=dict)


# One message or several. A string is a message of the user. A mapping has "role", "content" and
# further members, as in the APIs of other servers.
Conversation: TypeAlias = (
    str | Message | Mapping[str, Any] | Iterable[str | Message | Mapping[str, Any]]
)


@dataclasses.dataclass(frozen=True)
class Expectation:
    """What the first turn of a session is expected to be and to cost, for an alias with a route.

    Times are seconds. None: the value of the alias counts.

    Attributes:
        prompt_tokens: the tokens of the prompt.
        prompt_bytes: the bytes of its text, if the tokens are not known.
        max_tokens: the tokens to generate.
        max_time_to_first_token: on a server that does nothing else, as the next one.
        max_time_per_token: of each token after the first.
        max_session_bytes: of caches, when the answer is complete.
    """

    prompt_tokens: int | None = None
    prompt_bytes: int | None = None
    max_tokens: int | None = None
    max_time_to_first_token: float | None = None
    max_time_per_token: float | None = None
    max_session_bytes: int | None = None


class ChatOptions(TypedDict, total=False):
    """Options of messages: see Messages in the wire contract.

    tools: the functions that the model may call, as JSON objects. Absent: as in the previous turn.
    template_arguments: further variables of the template, such as {"enable_thinking": False}.
    add_generation_prompt: end the text with the template's beginning of the model's answer.
    continue_final_message: end the text within the last message, which the model continues.
    whole_conversation: the messages are the whole conversation, and not only the new ones.
    require_unchanged: fail if the template changes the text of earlier messages.
    """

    tools: Sequence[Mapping[str, Any]]
    template_arguments: Mapping[str, Any]
    add_generation_prompt: bool
    continue_final_message: bool
    whole_conversation: bool
    require_unchanged: bool


def text_input(text: Text) -> pb.Input:
    """Return text or token ids as the wire has them."""
    if isinstance(text, str):
        return pb.Input(text=text.encode())
    if isinstance(text, bytes):
        return pb.Input(text=text)
    return pb.Input(tokens=pb.Tokens(ids=text))


def messages_input(conversation: Conversation, options: ChatOptions) -> pb.Input:
    """Return messages as the wire has them."""
    if isinstance(conversation, str | Message | Mapping):
        conversation = [conversation]
    messages = pb.Messages(messages=[_message(each) for each in conversation])
    for name, value in options.items():
        is_json = name in ("tools", "template_arguments")
        setattr(messages, name, json.dumps(value).encode() if is_json else value)
    return pb.Input(messages=messages)


def compared_input(text: Text | None, messages: Conversation | None) -> pb.Input | None:
    """Return the prompt of a comparison; None: only that of its session."""
    if text is not None and messages is not None:
        raise ValueError("a comparison has a text or messages, and not both")
    if messages is not None:
        return messages_input(messages, {})
    return None if text is None else text_input(text)


def forced(
    text: Text | None, answer_of: int | None, prompt_from: int | None
) -> pb.CompareForced | None:
    """Return the tokens that all arms read; None: each arm generates its own."""
    given = [each for each in (text, answer_of, prompt_from) if each is not None]
    if len(given) > 1:
        raise ValueError("all arms read one of force, answer_of and prompt_from")
    if text is None:
        return pb.CompareForced(answer_of=answer_of, prompt_from=prompt_from) if given else None
    read = text_input(text)
    if read.HasField("tokens"):
        return pb.CompareForced(tokens=read.tokens)
    return pb.CompareForced(text=read.text)


def _message(source: str | Message | Mapping[str, Any]) -> pb.Message:
    if isinstance(source, str):
        source = Message("user", source)
    elif not isinstance(source, Message):
        members = dict(source)
        role = members.pop("role")
        content = members.get("content")
        if isinstance(content, str):
            del members["content"]
        source = Message(role, content if isinstance(content, str) else None, members)
    return pb.Message(
        role=source.role.encode(),
        content=None if source.content is None else source.content.encode(),
        json=json.dumps(source.members).encode() if source.members else b"",
    )
