"""Errors of calls: one exception for each gRPC status code."""

from __future__ import annotations

from typing import Any, ClassVar

import grpc

from longstream.v1 import error_details_pb2

# Names a call in the server's log; the server sends it back with each error.
REQUEST_ID = "x-request-id"


class LongstreamError(Exception):
    """A call that the server refused or did not answer. Each status code has a subclass.

    Attributes:
        code: the gRPC status code.
        message: the server's message, which names the field, the value and the limit.
        request_id: the id of the call in the server's log; None if the server did not answer.
        retry_after: seconds after which the server would have the call sent again; None if it does
            not say.
    """

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.UNKNOWN

    def __init__(
        self, message: str, *, request_id: str | None = None, retry_after: float | None = None
    ) -> None:
        logged = f" (request id {request_id})" if request_id else ""
        super().__init__(f"{self.code.name}: {message}{logged}")
        self.message = message
        self.request_id = request_id
        self.retry_after = retry_after


class CancelledError(LongstreamError):
    """The call was cancelled."""

    code = grpc.StatusCode.CANCELLED


class UnknownError(LongstreamError):
    """The outcome is not known; the same turn can be sent again."""

    code = grpc.StatusCode.UNKNOWN


class InvalidArgumentError(LongstreamError):
    """The request is malformed, or a value is out of its range."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class DeadlineExceededError(LongstreamError):
    """The timeout has passed, or cannot be met.

    Attributes:
        turn_id: the turn whose timeout has passed; None: the call was no turn.
        committed: whether the turn's tokens are part of the session all the same: it ended before
            it could be cancelled, or on_abort keeps them. None: that is not known.
    """

    code = grpc.StatusCode.DEADLINE_EXCEEDED

    def __init__(
        self,
        message: str,
        *,
        turn_id: str | None = None,
        committed: bool | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, request_id=request_id, retry_after=retry_after)
        self.turn_id = turn_id
        self.committed = committed


class NotFoundError(LongstreamError):
    """The session, the turn or the model is unknown, or the session has expired."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExistsError(LongstreamError):
    """The id of the session or the turn is in use for another request."""

    code = grpc.StatusCode.ALREADY_EXISTS


class PermissionDeniedError(LongstreamError):
    """The caller may not make this call."""

    code = grpc.StatusCode.PERMISSION_DENIED


class ResourceExhaustedError(LongstreamError):
    """The queue, the memory or the store is full; see retry_after."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class FailedPreconditionError(LongstreamError):
    """The session is not in the state that the call needs."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class SessionElsewhereError(FailedPreconditionError):
    """Another server of the fleet has the session, and this one does not fetch it.

    Attributes:
        address: host:port of that server. The same request may be sent there.
    """

    def __init__(
        self,
        message: str,
        *,
        address: str,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, request_id=request_id, retry_after=retry_after)
        self.address = address


class AbortedError(LongstreamError):
    """Another turn is running on the session, or another call has attached to the turn."""

    code = grpc.StatusCode.ABORTED


class OutOfRangeError(LongstreamError):
    """A value is out of its range."""

    code = grpc.StatusCode.OUT_OF_RANGE


class UnimplementedError(LongstreamError):
    """The server or the model's backend cannot do this."""

    code = grpc.StatusCode.UNIMPLEMENTED


class InternalError(LongstreamError):
    """The backend failed; the session is as it was before the turn."""

    code = grpc.StatusCode.INTERNAL


class UnavailableError(LongstreamError):
    """The server cannot be reached, is draining, or still loads the model."""

    code = grpc.StatusCode.UNAVAILABLE


class DataLossError(LongstreamError):
    """The store's rows of the session are damaged, or an imported file is."""

    code = grpc.StatusCode.DATA_LOSS


class UnauthenticatedError(LongstreamError):
    """The credentials are missing or wrong."""

    code = grpc.StatusCode.UNAUTHENTICATED


_BY_CODE: dict[grpc.StatusCode, type[LongstreamError]] = {
    kind.code: kind for kind in LongstreamError.__subclasses__()
}


def error_of(error: Any) -> LongstreamError:
    """Return the exception for the grpc.RpcError of a call, sync or async."""
    metadata = dict(tuple(error.trailing_metadata() or ()))
    request_id = metadata.get(REQUEST_ID)
    message = error.details() or ""
    if error.code() is grpc.StatusCode.UNAVAILABLE and "reset by peer" in message:
        message += "; does the server use TLS? See credentials="  # so a TLS port ends plain text
    known = request_id if isinstance(request_id, str) else None
    details = _details(metadata.get("grpc-status-details-bin"))
    address = _address(details)
    if address is not None and error.code() is grpc.StatusCode.FAILED_PRECONDITION:
        return SessionElsewhereError(message, address=address, request_id=known)
    return _BY_CODE[error.code()](message, request_id=known, retry_after=_retry_after(details))


def _details(details: str | bytes | None) -> list[Any]:
    if not isinstance(details, bytes):
        return []
    return list(error_details_pb2.ErrorStatus.FromString(details).details)


def _retry_after(details: list[Any]) -> float | None:
    for detail in details:
        if detail.type_url.endswith("/google.rpc.RetryInfo"):
            retry = error_details_pb2.ErrorRetryInfo.FromString(detail.value)
            return retry.retry_delay.ToTimedelta().total_seconds()
    return None


def _address(details: list[Any]) -> str | None:
    """Return the address of the server that has the session, if the error names it."""
    for detail in details:
        if detail.type_url.endswith("/google.rpc.ErrorInfo"):
            info = error_details_pb2.ErrorErrorInfo.FromString(detail.value)
            if (info.domain, info.reason) == ("longstream", "SESSION_ELSEWHERE"):
                return info.metadata.get("address")
    return None
