"""The options of a turn, and the request that they make."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypedDict, overload

from longstream.checks import checked, wrong
from longstream.enums import OnAbortLike, PenaltyScopeLike, PriorityLike, StopTextLike
from longstream.formats import FormatLike
from longstream.inputs import ChatOptions
from longstream.v1 import longstream_pb2 as pb


class SamplingOptions(TypedDict, total=False):
    """How tokens are drawn. All may be absent. The wire contract describes each.

    temperature, top_k, top_p, min_p, repetition_penalty: absent: the model's default.
    presence_penalty, frequency_penalty, penalty_scope.
    logit_bias: by token id.
    seed: absent: the server draws one.
    """

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    penalty_scope: PenaltyScopeLike
    logit_bias: Mapping[int, float]
    seed: int


class AnswerOptions(SamplingOptions, total=False):
    """Options of an answer, besides how its tokens are drawn (SamplingOptions).

    How long it is:
        max_tokens: the most tokens; 0 or absent: until a stop rule applies or the context is full.
        stop: a stop string or several. The text ends before it.
        stop_token_ids: tokens that end the turn, in addition to the model's end ids.
        ignore_eos: the model's end ids do not end the turn.
        min_tokens: no stop rule applies before this many tokens.
        stop_text: whether the session keeps the text of the stop string.

    Others:
        top_log_probs: report this many most probable tokens at each step.
        priority: its share of the batch.
        parse_special: special tokens that the input spells out become their ids.
    """

    max_tokens: int
    stop: str | Sequence[str]
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    min_tokens: int
    stop_text: StopTextLike
    top_log_probs: int
    priority: PriorityLike
    parse_special: bool


class TurnOptions(AnswerOptions, total=False):
    """Options of a turn that generates: AnswerOptions, SamplingOptions and these.

    log_probs: report the log-probability of each token.
    response_format: the form that the answer must have: a JSON Schema, a model of pydantic, or a
        format of longstream.formats.
    twin_model: a second model that reads the same tokens and is compared with the session's
        (TurnStream.twin_rows, Finish.twin). The answer is the same as without it.
    timeout: seconds above 0, after which the turn is cancelled; None: no limit.
    turn_id: 32 hexadecimal digits. Absent: drawn. A program that was started again gives the id
        that it had to get the same answer, and not another one.
    expected_position: the position that the session must have.
    on_abort: what the session keeps if the turn is cancelled.
    """

    log_probs: bool
    response_format: FormatLike
    twin_model: str
    timeout: float | None
    turn_id: str
    expected_position: int
    on_abort: OnAbortLike


@dataclasses.dataclass(frozen=True)
class Arm:
    """A model of a comparison with a sampling of its own.

    Attributes:
        model: its name.
        sampling: instead of that of the comparison.
    """

    model: str
    sampling: SamplingOptions


class AppendOptions(TypedDict, total=False):
    """Options of a turn that only adds input: see TurnOptions."""

    turn_id: str
    expected_position: int
    on_abort: OnAbortLike
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
    sampling, stop = _sampling(fields), _stop_rule(fields)
    return pb.GenerateRequest(
        session_id=session_id,
        input=turn_input,
        sampling=sampling,
        stop=stop,
        **{"turn_id": random_id(), **fields},
    )


def compare_request(
    arms: Sequence[str | Arm],
    prompt: pb.Input | None,
    session_id: str,
    forced: pb.CompareForced | None,
    options: AnswerOptions,
) -> pb.CompareRequest:
    """Return the request of a comparison."""
    if isinstance(arms, str | Mapping | AbstractSet) or not isinstance(arms, Iterable):
        raise wrong(TypeError, "arms", "a sequence of models", arms)
    fields = _fields(options, AnswerOptions)
    sampling, stop = _sampling(fields), _stop_rule(fields)
    return pb.CompareRequest(
        arms=[_arm(index, each) for index, each in enumerate(arms)],
        input=prompt,
        session_id=checked("session_id", session_id),
        forced=forced,
        sampling=sampling,
        stop=stop,
        **fields,
    )


def _arm(index: int, arm: str | Arm) -> pb.CompareArm:
    if isinstance(arm, str):
        return pb.CompareArm(model=arm)
    if not isinstance(arm, Arm):
        raise wrong(TypeError, f"arms[{index}]", "the name of a model, or an Arm", arm)
    if not isinstance(arm.model, str):
        raise wrong(TypeError, f"arms[{index}].model", "a str, the name of a model", arm.model)
    if not isinstance(arm.sampling, Mapping):
        raise wrong(TypeError, f"arms[{index}].sampling", "a mapping", arm.sampling)
    fields = _fields(arm.sampling, SamplingOptions)
    return pb.CompareArm(model=arm.model, sampling=_sampling(fields))


def _sampling(fields: dict[str, Any]) -> pb.Sampling:
    return pb.Sampling(**_taken(fields, pb.Sampling.DESCRIPTOR))


def _stop_rule(fields: dict[str, Any]) -> pb.StopRule:
    return pb.StopRule(
        strings=[each.encode() for each in fields.pop("stop", ())],
        token_ids=fields.pop("stop_token_ids", ()),
        **_taken(fields, pb.StopRule.DESCRIPTOR),
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
    fields = {"turn_id": random_id(), **_fields(options, AppendOptions)}
    return pb.AppendRequest(session_id=session_id, **fields)


def _fields(options: Any, kind: type) -> dict[str, Any]:
    """Return the options that are set. Raises TypeError or ValueError for one that is wrong."""
    unknown = options.keys() - kind.__annotations__.keys()
    if unknown:
        raise TypeError(f"there is no option {', '.join(sorted(unknown))}")
    return {name: checked(name, value) for name, value in options.items() if value is not None}


def _taken(fields: dict[str, Any], message: Any) -> dict[str, Any]:
    """Move the fields that the message has out of `fields`."""
    return {name: fields.pop(name) for name in fields.keys() & message.fields_by_name.keys()}
