"""What a program gives to the model: text, token ids, or messages of a conversation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias, TypedDict

from longstream.checks import as_json, checked, wrong
from longstream.v1 import longstream_pb2 as pb

# Text, as a string or in UTF-8 (the tokenizer "byte" accepts any bytes), or token ids.
Text: TypeAlias = str | bytes | bytearray | memoryview | Sequence[int]


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


def text_input(text: Text, option: str = "text") -> pb.Input:
    """Return text or token ids as the wire has them. An error names the option."""
    if isinstance(text, str):
        return pb.Input(text=text.encode())
    if isinstance(text, bytes | bytearray | memoryview):
        return pb.Input(text=bytes(text))
    if isinstance(text, Mapping | AbstractSet):  # the wire would take its keys, in any order
        raise _wrong_ids(TypeError, option, text)
    try:
        return pb.Input(tokens=pb.Tokens(ids=text))
    except (TypeError, ValueError) as error:
        raise _wrong_ids(type(error), option, text) from None


def _wrong_ids(kind: type[Exception], option: str, text: Any) -> Exception:
    """Return the error for what is neither text nor token ids. It names the first wrong id."""
    if isinstance(text, Sequence):
        for index, each in enumerate(text):
            try:
                pb.Tokens(ids=[each])
            except (TypeError, ValueError) as error:
                return wrong(type(error), f"{option}[{index}]", "a token id", each)
    return wrong(kind, option, "a str, bytes, or a sequence of token ids", text)


def text_inputs(texts: Sequence[Text]) -> list[pb.Input]:
    """Return several texts as the wire has them."""
    return [text_input(text, f"texts[{index}]") for index, text in enumerate(texts)]


def messages_input(conversation: Conversation, options: ChatOptions) -> pb.Input:
    """Return messages as the wire has them."""
    if isinstance(conversation, str | Message | Mapping):
        conversation = [conversation]
    if not isinstance(conversation, Iterable):
        raise wrong(TypeError, "messages", f"{_A_MESSAGE}, or several", conversation)
    messages = pb.Messages(
        messages=[_message(f"messages[{index}]", each) for index, each in enumerate(conversation)]
    )
    for name, value in options.items():
        if value is None:
            continue
        taken = checked(name, value)
        is_json = name in ("tools", "template_arguments")
        setattr(messages, name, as_json(name, taken) if is_json else taken)
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
        if answer_of is not None:
            return pb.CompareForced(answer_of=checked("answer_of", answer_of))
        if prompt_from is not None:
            return pb.CompareForced(prompt_from=checked("prompt_from", prompt_from))
        return None
    read = text_input(text, "force")
    if read.HasField("tokens"):
        return pb.CompareForced(tokens=read.tokens)
    return pb.CompareForced(text=read.text)


_A_MESSAGE = "a str, a Message, or a mapping such as {'role': 'user', 'content': 'Hi'}"


def _message(option: str, source: str | Message | Mapping[str, Any]) -> pb.Message:
    if isinstance(source, str):
        source = Message("user", source)
    elif not isinstance(source, Message):
        if not isinstance(source, Mapping):
            raise wrong(TypeError, option, _A_MESSAGE, source)
        if "role" not in source:
            raise wrong(ValueError, option, "a message with a 'role', such as 'user'", source)
        members = dict(source)
        role = members.pop("role")
        content = members.get("content")
        if isinstance(content, str):
            del members["content"]
        source = Message(role, content if isinstance(content, str) else None, members)
    if not isinstance(source.role, str):
        raise wrong(TypeError, f"{option}.role", "a str, such as 'user'", source.role)
    if not isinstance(source.content, str | None):
        raise wrong(TypeError, f"{option}.content", "a str or None", source.content)
    return pb.Message(
        role=source.role.encode(),
        content=None if source.content is None else source.content.encode(),
        json=as_json(option, source.members) if source.members else b"",
    )
