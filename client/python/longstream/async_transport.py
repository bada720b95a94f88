"""Makes calls for programs with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, TypeVar

import grpc
import grpc.aio

from longstream import calls
from longstream.channel import ChannelSettings
from longstream.errors import DeadlineExceededError, LongstreamError, NotFoundError, error_of
from longstream.transport import (
    CANCEL_PAUSES,
    CLEANUP,
    FailedModels,
    Limits,
    log,
    metadata,
    stub,
    wants_cancel,
)
from longstream.turn import ENDED_EARLY, Turn
from longstream.v1 import longstream_pb2 as pb
from longstream.values import Delta, TurnInfo

R = TypeVar("R")


class AsyncTransport:
    """A channel and the calls on it, for one event loop."""

    def __init__(self, settings: ChannelSettings, limits: Limits) -> None:
        self._channel = settings.open(grpc.aio)
        self._stub: Any = stub(self._channel)
        self.limits = limits

    async def close(self) -> None:
        """Close the channel. Calls that are running end with CANCELLED."""
        await self._channel.close()

    async def run(self, call: calls.Call[R], limits: Limits | None = None) -> R:
        """Make a call until it is answered. Raises LongstreamError."""
        tries = (limits or self.limits).tries(call)
        failed = FailedModels()
        while True:
            try:
                answer = getattr(self._stub, call.method)(
                    call.request(),
                    timeout=tries.begin(),
                    metadata=metadata(call.session_id),
                )
                if call.take is None:
                    return call.read(await answer)
                async for piece in answer:
                    call.take(piece)
                return call.read(None)
            except grpc.RpcError as lost:
                error = error_of(lost)
            if call.may_be_gone and isinstance(error, NotFoundError):
                return call.read(None)
            if failed.wants_models(error):
                await self._raise_if_final(error, call.session_id, tries.time_left())
            await asyncio.sleep(tries.pause(error))

    async def clean_up(self, call: calls.Call[R]) -> None:
        """Make a call that ends what is not wanted any more. Log its error."""
        try:
            await self.run(call, CLEANUP)
        except Exception as error:  # also: the channel is closed
            log.info("%s: %s", call.method, error)

    async def deltas(self, turn: Turn) -> AsyncGenerator[Delta, None]:
        """Read the answer of a turn, however often the server is lost."""
        failed = FailedModels()
        try:
            while not turn.ended:
                answers = self._stub.Generate(
                    turn.request(), timeout=turn.begin(), metadata=metadata(turn.session_id)
                )
                error: LongstreamError = ENDED_EARLY
                try:
                    async for answer in answers:
                        delta = turn.take(answer)
                        if delta is not None:
                            yield delta
                except grpc.RpcError as lost:
                    error = error_of(lost)
                finally:
                    answers.cancel()  # has no effect at the end of the call
                if not turn.ended:
                    if failed.wants_models(error):
                        await self._raise_if_final(error, turn.session_id, turn.time_left())
                    await asyncio.sleep(turn.lost(error))
        except BaseException as error:
            if not wants_cancel(error):
                raise
            end = await self._cancel(turn)
            if isinstance(error, DeadlineExceededError):
                raise turn.timed_out(error, end) from None
            raise

    async def _raise_if_final(
        self, error: LongstreamError, session_id: str, left: float | None
    ) -> None:
        """Raise the error if the server lists its model as failed. `left`: the call's seconds."""
        try:
            known = await self._stub.ListModels(
                pb.ListModelsRequest(),
                timeout=FailedModels.seconds(left),
                metadata=metadata(session_id),
            )
        except grpc.RpcError:
            return
        if FailedModels.has(error, known.models):
            raise error

    async def _cancel(self, turn: Turn) -> TurnInfo | Exception:
        """Cancel a turn. Return its end, or why that is not known."""
        call = calls.cancel_turn(turn.session_id, turn.id)
        end: Exception = ENDED_EARLY
        for pause in (0.0, *CANCEL_PAUSES):
            await asyncio.sleep(pause)
            try:
                return await self.run(call, CLEANUP)
            except NotFoundError as error:
                end = error
                if turn.was_seen:
                    break
            except Exception as error:  # also: the channel is closed
                end = error
                break
        log.info("%s: %s", call.method, end)
        return end
