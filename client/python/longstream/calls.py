"""The calls with one answer: their requests, and how to read the answers. Does no IO."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Generic, TypeVar

from google.protobuf import duration_pb2

from longstream.checks import checked, wrong
from longstream.enums import DurabilityLike, RecomputeLike
from longstream.inputs import Expectation
from longstream.model_values import Alias, ModelInfo
from longstream.options import AppendOptions, append_request
from longstream.reading import read
from longstream.v1 import longstream_pb2 as pb
from longstream.values import (
    Appended,
    CompareArmEnd,
    ComparePairSummary,
    CompareRow,
    CompareStarted,
    Comparison,
    Score,
    ScoreSummary,
    SessionInfo,
    TokenScore,
    TurnInfo,
)

R = TypeVar("R")
T = TypeVar("T")

_FILE_PIECE = 1 << 18  # bytes


@dataclasses.dataclass(frozen=True)
class Call(Generic[R]):
    """A call, which is tried until it is answered.

    Attributes:
        method: its name in the wire contract.
        request: begins a try. Returns the message, or an iterator over the messages.
        read: returns the result. Its argument is the answer, or None after a stream of answers.
        take: takes each answer of a stream; None: there is one answer.
        repeatable: a call that was lost may be made again, because it then changes nothing.
        timed: the client's timeout applies. Files take as long as they take.
        may_be_gone: NOT_FOUND is an answer too, for which `read` gets None.
        session_id: of the session that the call is about; empty: of none. Proxies route by it.
    """

    method: str
    request: Callable[[], Any]
    read: Callable[[Any], R]
    take: Callable[[Any], object] | None = None
    repeatable: bool = True
    timed: bool = True
    may_be_gone: bool = False
    session_id: str = ""


def _one(method: str, request: Any, kind: type[T], session_id: str = "") -> Call[T]:
    return Call(method, lambda: request, lambda answer: read(kind, answer), session_id=session_id)


def _duration(seconds: float | None) -> duration_pb2.Duration | None:
    if seconds is None:
        return None
    nanos = round(seconds * 1e9)
    return duration_pb2.Duration(seconds=nanos // 10**9, nanos=nanos % 10**9)


def _time(option: str, seconds: float | None) -> duration_pb2.Duration | None:
    return None if seconds is None else _duration(checked(option, seconds))


def _expectation(expect: Expectation | None) -> pb.Expectation | None:
    if expect is None:
        return None
    if not isinstance(expect, Expectation):
        raise wrong(TypeError, "expect", "an Expectation", expect)
    given = {name: value for name, value in vars(expect).items() if value is not None}
    fields = {name: checked(f"expect.{name}", value) for name, value in given.items()}
    for name in fields.keys() & {"max_time_to_first_token", "max_time_per_token"}:
        fields[name] = _duration(fields[name])
    return pb.Expectation(**fields)


def open_session(
    model: str,
    session_id: str,
    idle_timeout: float | None,
    durability: DurabilityLike,
    recompute: RecomputeLike,
    expect: Expectation | None = None,
    ttl: float | None = None,
) -> Call[SessionInfo]:
    """Open a session. With the same id it answers the session that is open."""
    enums: dict[str, Any] = {
        "durability": checked("durability", durability),
        "recompute": checked("recompute", recompute),
    }
    request = pb.OpenSessionRequest(
        model=checked("model", model),
        session_id=checked("session_id", session_id),
        idle_timeout=_time("idle_timeout", idle_timeout),
        expect=_expectation(expect),
        ttl=_time("ttl", ttl),
        **enums,
    )
    return _one("OpenSession", request, SessionInfo, session_id)


def fork(
    session_id: str,
    new_session_id: str,
    turn_id: str | None,
    position: int | None,
    model: str,
    idle_timeout: float | None,
) -> Call[SessionInfo]:
    """Fork a session. With the same id it answers the fork that is there."""
    request = pb.ForkSessionRequest(
        session_id=session_id,
        new_session_id=checked("session_id", new_session_id),
        idle_timeout=_time("idle_timeout", idle_timeout),
        model=checked("model", model),
        **_place(turn_id, position),
    )
    return _one("ForkSession", request, SessionInfo, session_id)


def rewind(
    session_id: str, turn_id: str | None, position: int | None, expected_version: int | None
) -> Call[SessionInfo]:
    """Return to a place. A repeat changes nothing, unless it expects a version that is gone."""
    version = 0 if expected_version is None else checked("expected_version", expected_version)
    request = pb.RewindSessionRequest(
        session_id=session_id, expected_version=version, **_place(turn_id, position)
    )
    call = _one("RewindSession", request, SessionInfo, session_id)
    return dataclasses.replace(call, repeatable=version == 0)


def _place(turn_id: str | None, position: int | None) -> dict[str, Any]:
    if turn_id is not None and position is not None:
        raise ValueError("a place is a turn_id or a position, and not both")
    place = {"turn_id": turn_id, "position": position}
    return {name: checked(name, value) for name, value in place.items() if value is not None}


def append(session_id: str, inputs: Sequence[pb.Input], options: AppendOptions) -> Call[Appended]:
    """Add input. The turn's id makes a repeat answer as the first call."""
    requests = [pb.AppendRequest(input=each) for each in inputs] or [pb.AppendRequest()]
    requests[0].MergeFrom(append_request(session_id, options))
    return Call(
        "Append",
        lambda: iter(requests),
        lambda answer: read(Appended, answer),
        session_id=session_id,
    )


def get_session(session_id: str) -> Call[SessionInfo]:
    """Describe a session."""
    request = pb.GetSessionRequest(session_id=checked("session_id", session_id))
    return _one("GetSession", request, SessionInfo, session_id)


def close_session(session_id: str) -> Call[None]:
    """Close a session. A repeat may find that the call that was lost has closed it."""
    request = pb.CloseSessionRequest(session_id=session_id)
    return Call(
        "CloseSession", lambda: request, lambda _: None, may_be_gone=True, session_id=session_id
    )


def cancel_turn(session_id: str, turn_id: str) -> Call[TurnInfo]:
    """Cancel a turn. A turn that has ended stays as it is."""
    request = pb.CancelTurnRequest(session_id=session_id, turn_id=checked("turn_id", turn_id))
    return _one("CancelTurn", request, TurnInfo, session_id)


def import_session(
    file: BinaryIO, session_id: str, model: str, idle_timeout: float | None
) -> Call[SessionInfo]:
    """Make a session of a file. A repeat would find the session of the call that was lost."""
    # Made here: gRPC would hide an error of the iterator.
    first = pb.ImportSessionRequest(
        session_id=checked("session_id", session_id),
        model=checked("model", model),
        idle_timeout=_time("idle_timeout", idle_timeout),
    )

    def requests() -> Iterator[pb.ImportSessionRequest]:
        yield first
        while data := file.read(_FILE_PIECE):
            yield pb.ImportSessionRequest(data=data)

    return Call(
        "ImportSession",
        requests,
        lambda answer: read(SessionInfo, answer),
        repeatable=False,
        timed=False,
        session_id=session_id,
    )


def export_session(session_id: str, file: BinaryIO, sealed: bool = False) -> Call[None]:
    """Write a session to a file. Each try begins the file again."""
    message = pb.ExportSessionRequest(session_id=session_id, sealed=checked("sealed", sealed))

    def request() -> pb.ExportSessionRequest:
        file.seek(0)
        file.truncate()
        return message

    return Call(
        "ExportSession",
        request,
        lambda _: None,
        take=lambda answer: file.write(answer.data),
        timed=False,
        session_id=session_id,
    )


def score(model: str, text: pb.Input, top_log_probs: int, parse_special: bool) -> Call[Score]:
    """Score a text."""
    answers: list[pb.ScoreResponse] = []
    message = pb.ScoreRequest(
        model=checked("model", model),
        input=text,
        top_log_probs=checked("top_log_probs", top_log_probs),
        parse_special=checked("parse_special", parse_special),
    )

    def request() -> pb.ScoreRequest:
        answers.clear()
        return message

    def result(_: object) -> Score:
        tokens = [read(TokenScore, token) for answer in answers for token in answer.tokens]
        return Score(tuple(tokens), read(ScoreSummary, answers[-1].summary))

    return Call("Score", request, result, take=answers.append)


def compare(request: pb.CompareRequest) -> Call[Comparison]:
    """Run several models on one text. Each try begins again."""
    answers: list[pb.CompareResponse] = []

    def begin() -> pb.CompareRequest:
        answers.clear()
        return request

    def result(_: object) -> Comparison:
        ends = [answer.arm_end for answer in answers if answer.HasField("arm_end")]
        return Comparison(
            started=read(CompareStarted, answers[0].started),
            rows=tuple(read(CompareRow, row) for answer in answers for row in answer.rows.rows),
            arms=tuple(read(CompareArmEnd, end) for end in sorted(ends, key=lambda end: end.arm)),
            pairs=tuple(read(ComparePairSummary, pair) for pair in answers[-1].finish.pairs),
        )

    return Call("Compare", begin, result, take=answers.append, session_id=request.session_id)


def list_models() -> Call[list[ModelInfo]]:
    """List the models."""
    request = pb.ListModelsRequest()
    return Call("ListModels", lambda: request, lambda answer: _all(ModelInfo, answer.models))


def list_aliases() -> Call[list[Alias]]:
    """List the aliases of models."""
    request = pb.ListModelsRequest()
    return Call("ListModels", lambda: request, lambda answer: _all(Alias, answer.aliases))


def get_model(name: str) -> Call[ModelInfo]:
    """Describe a model."""
    return _one("GetModel", pb.GetModelRequest(name=checked("model", name)), ModelInfo)


Page = tuple[list[T], str]


def sessions_page(model: str, alias: str, page_token: str) -> Call[Page[SessionInfo]]:
    """List a page of sessions. Its second part is the token of the next page; empty: none."""
    request = pb.ListSessionsRequest(
        model=checked("model", model),
        alias=checked("alias", alias),
        page_size=1000,
        page_token=page_token,
    )
    return Call(
        "ListSessions",
        lambda: request,
        lambda answer: (_all(SessionInfo, answer.sessions), answer.next_page_token),
    )


def turns_page(session_id: str, page_token: str) -> Call[Page[TurnInfo]]:
    """List a page of turns. Its second part is the token of the next page; empty: none."""
    request = pb.ListTurnsRequest(session_id=session_id, page_size=1000, page_token=page_token)
    return Call(
        "ListTurns",
        lambda: request,
        lambda answer: (_all(TurnInfo, answer.turns), answer.next_page_token),
        session_id=session_id,
    )


def _all(kind: type[T], messages: Iterable[Any]) -> list[T]:
    return [read(kind, each) for each in messages]
