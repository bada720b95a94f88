"""The options of a turn, and the request that they make."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, overload

from longstream.enums import OnAbort, PenaltyScope, Priority, StopText
from longstream.inputs import ChatOptions
from longstream.v1 import longstream_pb2 as pb


class TurnOptions(TypedDict, total=False):
    """Options of a turn that generates. All may be absent. The wire contract describes each.

    How long it is:
        max_tokens: the most tokens; 0 or absent: until a stop rule applies or the context is full.
        stop: a stop string or several. The text ends before it.
        stop_token_ids: tokens that end the turn, in addition to the model's end ids.
        ignore_eos: the model's end ids do not end the turn.
        min_tokens: no stop rule applies before this many tokens.
        stop_text: whether the session keeps the text of the stop string.

    How tokens are drawn; an absent one of the first five is the model's default:
        temperature, top_k, top_p, min_p, repetition_penalty,
        presence_penalty, frequency_penalty, penalty_scope,
        logit_bias: by token id.
        seed: absent: the server draws one (TurnStarted.seed).

    What it reports:
        log_probs: the log-probability of each token.
        top_log_probs: and of this many most probable tokens at each step.
        twin_model: a second model that reads the same tokens and is compared with the session's
            (TurnStream.twin_rows, Finish.twin). The answer is the same as without it.

    How it runs:
        priority: its share of the batch.
        timeout: seconds, after which the turn is cancelled.
        turn_id: 32 hexadecimal digits. Absent: drawn. A program that was started again gives the
            id that it had to get the same answer, and not another one.
        expected_position: the position that the session must have.
        on_abort: what the session keeps if the turn is cancelled.
        parse_special: special tokens that the input spells out become their ids.
    """

    max_tokens: int
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    min_tokens: int
    stop_text: StopText
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    penalty_scope: PenaltyScope
    logit_bias: Mapping[int, float]
    seed: int
    log_probs: bool
    top_log_probs: int
    twin_model: str
    priority: Priority
    timeout: float | None
    turn_id: str
    expected_position: int
    on_abort: OnAbort
    parse_special: bool


class AppendOptions(TypedDict, total=False):
    """Options of a turn that only adds input: see TurnOptions."""

    turn_id: str
    expected_position: int
    on_abort: OnAbort
    parse_special: bool


class ChatTurnOptions(TurnOptions, ChatOptions, total=False):
    """Options of a turn with messages that generates."""


class ChatAppendOptions(AppendOptions, ChatOptions, total=False):
    """Options of a turn with messages that only adds them."""


def random_id() -> str:
    """Return a random id of a session or a turn: 32 hexadecimal digits."""
    return secrets.token_hex(16)


def generate_request(
    session_id: str, turn_input: pb.Input | None, options: TurnOptions
) -> pb.GenerateRequest:
    """Return the request of a turn. Its timeout is not a part of it."""
    fields = _fields(options, TurnOptions)
    fields.pop("timeout", None)
    stop = fields.pop("stop", ())
    strings = [stop] if isinstance(stop, str) else stop
    return pb.GenerateRequest(
        session_id=session_id,
        input=turn_input,
        sampling=pb.Sampling(**_taken(fields, pb.Sampling.DESCRIPTOR)),
        stop=pb.StopRule(
            strings=[each.encode() for each in strings],
            token_ids=fields.pop("stop_token_ids", ()),
            **_taken(fields, pb.StopRule.DESCRIPTOR),
        ),
        **fields,
    )


@overload
def split(options: ChatTurnOptions) -> tuple[ChatOptions, TurnOptions]: ...
@overload
def split(options: ChatAppendOptions) -> tuple[ChatOptions, AppendOptions]: ...
def split(options: Any) -> tuple[Any, Any]:
    """Return the options of the messages, and those of the turn."""
    names = options.keys() & ChatOptions.__annotations__.keys()
    of_turn = {name: value for name, value in options.items() if name not in names}
    return {name: options[name] for name in names}, of_turn


def append_request(session_id: str, options: AppendOptions) -> pb.AppendRequest:
    """Return the first message of a turn that only adds input."""
    return pb.AppendRequest(session_id=session_id, **_fields(options, AppendOptions))


def _fields(options: Any, kind: type) -> dict[str, Any]:
    """Return the options that are set, with an id for the turn."""
    unknown = options.keys() - kind.__annotations__.keys()
    if unknown:
        raise TypeError(f"a turn has no option {', '.join(sorted(unknown))}")
    fields = {name: value for name, value in options.items() if value is not None}
    return {"turn_id": random_id(), **fields}


def _taken(fields: dict[str, Any], message: Any) -> dict[str, Any]:
    """Move the fields that the message has out of `fields`."""
    return {name: fields.pop(name) for name in fields.keys() & message.fields_by_name.keys()}
