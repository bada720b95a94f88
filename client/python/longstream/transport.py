"""What the sync and the async transport have in common. Does no IO."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterable
from typing import Any

from longstream import errors
from longstream.calls import Call
from longstream.checks import checked
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


# For the question whether a model has failed.
FAILED_MODEL_TIMEOUT = 1.0  # seconds


def may_be_final(error: errors.LongstreamError) -> bool:
    """Whether the server itself has said UNAVAILABLE, and not when it wants the call again.

    Servers before this version do not say when, also if the model is loading.
    """
    return (
        isinstance(error, errors.UnavailableError)
        and error.request_id is not None
        and error.retry_after is None
    )


def is_of_failed_model(error: errors.LongstreamError, models: Iterable[pb.Model]) -> bool:
    """Whether the error is that of a model that has failed: it cannot pass by itself.

    The error names the model and has its reason.
    """
    return any(
        model.state == pb.MODEL_STATE_FAILED
        and f"model {model.name} " in error.message
        and error.message.endswith(model.error)
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
