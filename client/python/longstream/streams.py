"""The streams of a turn, sync and async, and what they have in common: the view of what came."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from longstream.async_transport import AsyncTransport
from longstream.sync_transport import Transport
from longstream.turn import Turn
from longstream.values import Delta, Finish, Generation, TurnStarted, TwinRow


class TurnView:
    """What has arrived of a turn so far."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    @property
    def turn_id(self) -> str:
        """The id of the turn."""
        return self._turn.id

    @property
    def text(self) -> str:
        """The text that has arrived."""
        return self._turn.text

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens that have arrived."""
        return tuple(self._turn.token_ids)

    @property
    def twin_rows(self) -> tuple[TwinRow, ...]:
        """What the twin has said so far: a row for each token, from the first one on."""
        return tuple(self._turn.twin_rows)

    @property
    def started(self) -> TurnStarted | None:
        """How the latest call came to the turn. None: it has not started."""
        return self._turn.started

    @property
    def finish(self) -> Finish | None:
        """The end of the turn. None: it has not ended."""
        return self._turn.finish


class TurnStream(TurnView):
    """The answer of a turn: an iterator over its deltas, each of which comes once.

    If the connection or the server is lost, the stream goes on by itself. A stream that is closed
    or dropped before its end cancels the turn.
    """

    def __init__(self, transport: Transport, turn: Turn) -> None:
        """Use Session.stream or Session.chat."""
        super().__init__(turn)
        self._deltas = transport.deltas(turn)

    def read(self) -> Generation:
        """Read the turn to its end, and return the whole answer."""
        for _ in self:
            pass
        return self._turn.generation()

    def close(self) -> None:
        """Cancel the turn if it has not ended, and wait until it has."""
        self._deltas.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delta:
        return next(self._deltas)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncTurnStream(TurnView):
    """The answer of a turn: an iterator over its deltas, each of which comes once.

    If the connection or the server is lost, the stream goes on by itself. A stream that is closed
    or dropped before its end cancels the turn.
    """

    def __init__(self, transport: AsyncTransport, turn: Turn) -> None:
        """Use AsyncSession.stream or AsyncSession.chat."""
        super().__init__(turn)
        self._deltas = transport.deltas(turn)

    async def read(self) -> Generation:
        """Read the turn to its end, and return the whole answer."""
        async for _ in self:
            pass
        return self._turn.generation()

    async def close(self) -> None:
        """Cancel the turn if it has not ended, and wait until it has."""
        await self._deltas.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        return await anext(self._deltas)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
