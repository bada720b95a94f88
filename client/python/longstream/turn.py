"""One turn: what has arrived of its answer, and how it goes on after a loss. Does no IO.

A turn has an id, so that its request can be sent again. Then it says how much has arrived, and the
server goes on behind that: it attaches to the turn, reads it from the store, or computes it again
(values.TurnStarted.how). In each case all tokens that have arrived stand, and none comes twice.
"""

from __future__ import annotations

from collections.abc import Callable

from longstream import errors
from longstream.enums import FinishReason, TurnState
from longstream.reading import read
from longstream.retries import Retries
from longstream.v1 import longstream_pb2 as pb
from longstream.values import (
    Delta,
    Finish,
    Generation,
    PrefillProgress,
    TokenLogProb,
    TurnInfo,
    TurnStarted,
    TwinRow,
)

OnPrefill = Callable[[PrefillProgress], None]
OnTwin = Callable[[TwinRow], None]


class Turn:
    """The state of a turn. `request` has a turn_id."""

    def __init__(
        self,
        request: pb.GenerateRequest,
        retries: Retries,
        on_prefill: OnPrefill | None,
        on_twin: OnTwin | None = None,
    ) -> None:
        self._request = request
        self._retries = retries
        self._on_prefill = on_prefill
        self._on_twin = on_twin
        self._text: list[str] = []
        self._log_probs: list[TokenLogProb] = []
        self._position = 0  # of the last delta; 0: there was none
        self.token_ids: list[int] = []
        self.twin_rows: list[TwinRow] = []  # from the first token on
        self.started: TurnStarted | None = None
        self.finish: Finish | None = None
        self.was_seen = False  # the server has answered the latest call

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self._request.session_id

    @property
    def id(self) -> str:
        """The id of the turn."""
        return self._request.turn_id

    @property
    def text(self) -> str:
        """The text that has arrived."""
        return "".join(self._text)

    @property
    def ended(self) -> bool:
        """Whether the whole answer has arrived."""
        return self.finish is not None

    def request(self) -> pb.GenerateRequest:
        """Return the request for the rest of the answer."""
        if self._position:
            resume = pb.Resume(position=self._position, token_ids=self.token_ids)
            self._request.resume.CopyFrom(resume)
        return self._request

    def begin(self) -> float | None:
        """Begin a call. Return its seconds; None: no limit. Raise if there are none left."""
        seconds = self._retries.begin()
        self.was_seen = False
        return seconds

    def time_left(self) -> float | None:
        """Return the seconds that the turn has left; None: no limit."""
        return self._retries.time_left()

    def take(self, response: pb.GenerateResponse) -> Delta | None:
        """Add a message of the answer. Return its delta, if it has one."""
        self.was_seen = True
        kind = response.WhichOneof("kind")
        if kind == "delta":
            return self._take_delta(response.delta)
        if kind == "started":
            self.started = read(TurnStarted, response.started)
        elif kind == "finish":
            self.finish = read(Finish, response.finish)
        elif kind == "twin":
            self._take_rows(response.twin)
        elif kind == "prefill" and self._on_prefill:
            self._on_prefill(read(PrefillProgress, response.prefill))
        return None

    def lost(self, error: errors.LongstreamError) -> float:
        """Return the seconds after which to call again. Raise `error` if the turn has failed."""
        self.was_seen = self.was_seen or error.request_id is not None
        return self._retries.pause(error)

    def timed_out(
        self, error: errors.LongstreamError, end: TurnInfo | Exception
    ) -> errors.DeadlineExceededError:
        """Return the error of a turn whose timeout has passed, with what became of the turn.

        `end`: the answer to CancelTurn, or its error.
        """
        outcome, committed = _outcome(end)
        return errors.DeadlineExceededError(
            f"{error.message}; turn {self.id} {outcome}",
            turn_id=self.id,
            committed=committed,
            request_id=error.request_id,
            retry_after=error.retry_after,
        )

    def generation(self) -> Generation:
        """Return the whole answer. REQUIRES: ended."""
        if self.started is None or self.finish is None:
            raise RuntimeError("the turn was closed before its end, so it has no whole answer")
        return Generation(
            text=self.text,
            token_ids=tuple(self.token_ids),
            log_probs=tuple(self._log_probs),
            started=self.started,
            finish=self.finish,
        )

    def _take_rows(self, source: pb.TwinRows) -> None:
        # A turn that was resumed may send rows again.
        for row in source.rows[max(0, len(self.twin_rows) - source.first_index) :]:
            self.twin_rows.append(read(TwinRow, row))
            if self._on_twin:
                self._on_twin(self.twin_rows[-1])

    def _take_delta(self, source: pb.Delta) -> Delta:
        delta = Delta(
            text=source.text,
            token_ids=tuple(source.token_ids),
            position=source.position,
            log_probs=tuple(read(TokenLogProb, each) for each in source.log_probs),
        )
        # Tokens follow each other. The prompt may lie between them and a text without tokens.
        if self.token_ids and delta.position != self._position + len(delta.token_ids):
            raise errors.DataLossError(
                f"the server sent {len(delta.token_ids)} tokens up to position {delta.position},"
                f" after those up to {self._position}"
            )
        self._position = delta.position
        self._text.append(delta.text)
        self.token_ids += delta.token_ids
        self._log_probs += delta.log_probs
        self._retries.progressed()
        return delta


def _outcome(end: TurnInfo | Exception) -> tuple[str, bool | None]:
    """Return what became of a turn that was cancelled, and whether it is part of its session."""
    if isinstance(end, errors.NotFoundError):
        return "is not known to the server", None
    if not isinstance(end, TurnInfo):
        return "may have been committed all the same: it could not be cancelled", None
    if end.state is TurnState.ABANDONED:
        return "was cancelled", False
    if end.state is not TurnState.COMMITTED:
        return f"may be committed all the same: its state is {end.state.name}", None
    if end.finish_reason is FinishReason.ABORTED:
        return "was cancelled, and the session keeps what had been generated", True
    return "had been committed before it could be cancelled", True


ENDED_EARLY = errors.InternalError("the stream ended without the end of the turn")
