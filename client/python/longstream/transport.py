"""What the sync and the async transport have in common. Does no IO."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterable
from typing import Any

from longstream import errors
from longstream.calls import Call
from longstream.checks import checked, wrong
from longstream.retries import Retries, RetryPolicy
from longstream.v1 import longstream_pb2 as pb
from longstream.v1 import longstream_pb2_grpc

log = logging.getLogger("longstream")

_NEVER = RetryPolicy(timeout=0)
_CLEANUP_TIMEOUT = 5.0  # seconds
_SESSION_ID = re.compile("[0-9a-fA-F]{32}")


@dataclasses.dataclass(frozen=True)
class Limits:
    """How long calls may take. `timeout`: seconds for a call that is no turn; None: no limit."""

    timeout: float | None
    retry: RetryPolicy

    def __post_init__(self) -> None:
        if self.timeout is not None:
            checked("timeout", self.timeout)
        if not isinstance(self.retry, RetryPolicy):
            raise wrong(TypeError, "retry", "a longstream.RetryPolicy", self.retry)

    def tries(self, call: Call[Any]) -> Retries:
        """Return the tries of a call."""
        policy = self.retry if call.repeatable else _NEVER
        return Retries(policy, self.timeout if call.timed else None)

    def turn_tries(self, timeout: float | None) -> Retries:
        """Return the tries of a turn that has `timeout` seconds; None: no limit."""
        return Retries(self.retry, timeout)


def stub(channel: Any) -> Any:
    """Return the stub on a channel of grpc or grpc.aio. Generated code has no types."""
    generated: Any = longstream_pb2_grpc
    return generated.LongstreamStub(channel)


def metadata(session_id: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call about a session; empty: about none.

    A proxy before several servers sends all calls of a session to one server by it. An argument
    that is no id is left to the server to refuse.
    """
    if not _SESSION_ID.fullmatch(session_id):
        return ()
    return (("x-session-id", session_id.lower()),)


# For calls that end what is not wanted any more: a server that hangs must not hold the program.
CLEANUP = Limits(_CLEANUP_TIMEOUT, _NEVER)


_LONGEST_QUESTION = 1.0  # seconds
_NOT_LOADED = " could not be loaded: "


class FailedModels:
    """Finds out whether a call has the error of a model that could not be loaded.

    Such an error cannot pass by itself, so the call is not made again. A model that has lost its
    device is served again when the server was started again, or by another replica. Calls ask the
    server for its models at most once.
    """

    def __init__(self) -> None:
        self._has_asked = False

    def wants_models(self, error: errors.LongstreamError) -> bool:
        """Whether to ask the server for its models: it has said that a model was not loaded."""
        wanted = (
            not self._has_asked
            and isinstance(error, errors.UnavailableError)
            and error.request_id is not None
            and error.retry_after is None  # otherwise the server wants the call again
            and _NOT_LOADED in error.message
        )
        self._has_asked = self._has_asked or wanted
        return wanted

    @staticmethod
    def seconds(left: float | None) -> float:
        """Return how long the question may take, of the seconds that the call has left."""
        return _LONGEST_QUESTION if left is None else min(left, _LONGEST_QUESTION)

    @staticmethod
    def has(error: errors.LongstreamError, models: Iterable[pb.Model]) -> bool:
        """Whether the server lists the model that the error is about as failed."""
        return any(
            model.state == pb.MODEL_STATE_FAILED
            and f"model {model.name}{_NOT_LOADED}" in error.message
            for model in models
        )


# The pauses between the tries to cancel a turn that the server does not know: the call that starts
# the turn may still be on its way. If CancelTurn overtakes it, the turn runs without a reader.
CANCEL_PAUSES = (0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.3)  # seconds


def wants_cancel(error: BaseException) -> bool:
    """Whether a turn that its reader has left with `error` is cancelled at the server.

    It is if the reader has had enough, by closing the stream, by an interrupt or by its timeout. It
    is not if the turn has failed or the server was lost: its id goes on with it.
    """
    return not isinstance(error, errors.LongstreamError) or isinstance(
        error, errors.DeadlineExceededError
    )
