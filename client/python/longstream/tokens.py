"""Texts as token ids: what Client.tokenize answers, and the requests. Does no IO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from longstream.calls import Call
from longstream.checks import checked
from longstream.inputs import ChatOptions, Conversation, Text, messages_input, text_input
from longstream.reading import read
from longstream.v1 import longstream_pb2 as pb


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text as a model reads it. `pieces`: the bytes of each token, if they were asked for."""

    token_ids: tuple[int, ...]
    count: int
    context_limit: int
    model: str
    pieces: tuple[bytes, ...]


def tokenize(
    model: str,
    text: Text | None,
    messages: Conversation | None,
    chat_options: ChatOptions,
    parse_special: bool,
    add_special: bool,
    count_only: bool,
    pieces: bool,
) -> Call[Tokens]:
    """Convert a text or messages to token ids."""
    if (text is None) == (messages is None):
        raise ValueError("give a text or messages, and not both")
    source = text_input(text) if text is not None else messages_input(messages or (), chat_options)
    request = pb.TokenizeRequest(
        model=checked("model", model),
        input=source,
        parse_special=checked("parse_special", parse_special),
        add_special=checked("add_special", add_special),
        count_only=checked("count_only", count_only),
        pieces=checked("pieces", pieces),
    )
    return Call("Tokenize", lambda: request, lambda answer: read(Tokens, answer))


def detokenize(model: str, token_ids: Sequence[int], skip_special: bool) -> Call[str]:
    """Convert token ids to their text."""
    source = text_input(token_ids, "token_ids")
    if not source.HasField("tokens"):
        raise TypeError("token_ids: expected a sequence of token ids, found a text")
    request = pb.DetokenizeRequest(
        model=checked("model", model),
        token_ids=source.tokens.ids,
        skip_special=checked("skip_special", skip_special),
    )

    def result(answer: pb.DetokenizeResponse) -> str:
        return answer.text

    return Call("Detokenize", lambda: request, result)
