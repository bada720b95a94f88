"""The client for programs with asyncio: AsyncClient and AsyncSession."""

from __future__ import annotations

import os
import pathlib
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import grpc

from longstream import calls, history, inputs, notes, options, tokens
from longstream.async_transport import AsyncTransport
from longstream.channel import ChannelSettings, Token
from longstream.enums import Durability, DurabilityLike, Recompute, RecomputeLike
from longstream.errors import LongstreamError
from longstream.files import whole_file
from longstream.history import HistoryEntry
from longstream.inputs import Expectation
from longstream.model_values import Alias, ModelInfo
from longstream.notes import Note
from longstream.retries import RetryPolicy
from longstream.streams import AsyncTurnStream
from longstream.tokens import Tokens
from longstream.transport import Limits
from longstream.turn import OnPrefill, OnTwin, Turn
from longstream.v1 import longstream_pb2 as pb
from longstream.values import (
    Appended,
    Comparison,
    Score,
    SessionInfo,
    TurnInfo,
)

T = TypeVar("T")


class AsyncClient:
    """A connection to a server, for one event loop. Otherwise as Client."""

    def __init__(
        self,
        target: str,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        token: Token | None = None,
        channel_options: Sequence[tuple[str, Any]] = (),
        timeout: float | None = None,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 (immutable)
    ) -> None:
        """Make a client in a running event loop. The arguments are those of Client."""
        settings = ChannelSettings(target, credentials, token, channel_options)
        self._transport = AsyncTransport(settings, Limits(timeout, retry))

    def session(
        self,
        model: str = "",
        *,
        session_id: str | None = None,
        idle_timeout: float | None = None,
        ttl: float | None = None,
        durability: DurabilityLike = Durability.UNSPECIFIED,
        recompute: RecomputeLike = Recompute.UNSPECIFIED,
        expect: Expectation | None = None,
        keep: bool = False,
    ) -> Opening:
        """Open a session: see Client.session."""
        session_id = session_id or options.random_id()
        made = _made(
            self._transport,
            calls.open_session(model, session_id, idle_timeout, durability, recompute, expect, ttl),
            session_id,
            keep,
        )
        return Opening(made)

    def attach(self, session_id: str, *, keep: bool = True) -> Opening:
        """Return a session that is open at the server: see Client.attach."""
        call = calls.get_session(session_id)

        async def attached() -> AsyncSession:
            info = await self._transport.run(call)
            return AsyncSession(self._transport, info, keep)

        return Opening(attached())

    def import_session(
        self,
        path: str | os.PathLike[str],
        *,
        session_id: str = "",
        model: str = "",
        idle_timeout: float | None = None,
        keep: bool = True,
    ) -> Opening:
        """Make a session of a file: see Client.import_session."""

        async def imported() -> AsyncSession:
            with pathlib.Path(path).open("rb") as file:
                call = calls.import_session(file, session_id, model, idle_timeout)
                return AsyncSession(self._transport, await self._transport.run(call), keep)

        return Opening(imported())

    def sessions(self, model: str = "", alias: str = "") -> AsyncIterator[SessionInfo]:
        """List the sessions with this model and this alias; empty: with any."""
        return _pages(self._transport, lambda page: calls.sessions_page(model, alias, page))

    async def models(self) -> list[ModelInfo]:
        """List all models, including those that are loading or have failed."""
        return await self._transport.run(calls.list_models())

    async def aliases(self) -> list[Alias]:
        """List all aliases, the other names of models, with their arms."""
        return await self._transport.run(calls.list_aliases())

    async def model(self, name: str = "") -> ModelInfo:
        """Describe a model; empty: the server's only model."""
        return await self._transport.run(calls.get_model(name))

    async def tokenize(
        self,
        text: inputs.Text | None = None,
        *,
        messages: inputs.Conversation | None = None,
        model: str = "",
        parse_special: bool = False,
        add_special: bool = True,
        count_only: bool = False,
        pieces: bool = False,
        **chat_options: Unpack[inputs.ChatOptions],
    ) -> Tokens:
        """Convert a text or messages to the token ids of a model: see Client.tokenize."""
        call = tokens.tokenize(
            model, text, messages, chat_options, parse_special, add_special, count_only, pieces
        )
        return await self._transport.run(call)

    async def detokenize(
        self, token_ids: Sequence[int], *, model: str = "", skip_special: bool = False
    ) -> str:
        """Return the text of token ids."""
        return await self._transport.run(tokens.detokenize(model, token_ids, skip_special))

    async def find_notes(self, keys: Iterable[notes.Key]) -> list[Note]:
        """Find notes by their keys: see Client.find_notes."""
        search = notes.Search(keys)
        while search.keys:
            await self._transport.run(search.call())
        return search.notes

    async def score(
        self,
        text: inputs.Text,
        *,
        model: str = "",
        top_log_probs: int = 0,
        parse_special: bool = False,
    ) -> Score:
        """Return the log-probabilities of a text under a model. Uses no session."""
        text_input = inputs.text_input(text)
        return await self._transport.run(
            calls.score(model, text_input, top_log_probs, parse_special)
        )

    async def compare(
        self,
        arms: Sequence[str | options.Arm],
        text: inputs.Text | None = None,
        *,
        messages: inputs.Conversation | None = None,
        session_id: str = "",
        force: inputs.Text | None = None,
        answer_of: int | None = None,
        prompt_from: int | None = None,
        **answer_options: Unpack[options.AnswerOptions],
    ) -> Comparison:
        """Run 2 to 8 models on one prompt, and compare their tokens: see Client.compare."""
        request = options.compare_request(
            arms,
            inputs.compared_input(text, messages),
            session_id,
            inputs.forced(force, answer_of, prompt_from),
            answer_options,
        )
        return await self._transport.run(calls.compare(request))

    async def close(self) -> None:
        """Close the connection. Sessions stay open at the server."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class AsyncSession:
    """The memory of one conversation on one model. A session runs one turn at a time.

    At the end of a `async with` block the session is closed, unless it is kept.
    """

    def __init__(self, transport: AsyncTransport, info: SessionInfo, keep: bool) -> None:
        """Use AsyncClient.session, AsyncClient.attach or AsyncSession.fork."""
        self._transport = transport
        self._keep = keep
        self.id = info.session_id
        self.model = info.model

    def stream(
        self,
        text: inputs.Text | None = None,
        *,
        on_prefill: OnPrefill | None = None,
        on_twin: OnTwin | None = None,
        **turn_options: Unpack[options.TurnOptions],
    ) -> AsyncTurnStream:
        """Add text or token ids to the session, and generate: see Session.stream."""
        text_input = None if text is None else inputs.text_input(text)
        return self._turn(text_input, turn_options, on_prefill, on_twin)

    def chat(
        self,
        messages: inputs.Conversation,
        *,
        on_prefill: OnPrefill | None = None,
        on_twin: OnTwin | None = None,
        **turn_options: Unpack[options.ChatTurnOptions],
    ) -> AsyncTurnStream:
        """Add messages to the conversation, and generate the reply: see Session.chat."""
        of_chat, of_turn = options.split(turn_options)
        return self._turn(inputs.messages_input(messages, of_chat), of_turn, on_prefill, on_twin)

    async def append(
        self, *texts: inputs.Text, **append_options: Unpack[options.AppendOptions]
    ) -> Appended:
        """Add texts or token ids without generating: all of them or none."""
        pieces = inputs.text_inputs(texts)
        return await self._transport.run(calls.append(self.id, pieces, append_options))

    async def append_chat(
        self, messages: inputs.Conversation, **append_options: Unpack[options.ChatAppendOptions]
    ) -> Appended:
        """Add messages to the conversation without generating."""
        of_chat, of_append = options.split(append_options)
        pieces = [inputs.messages_input(messages, of_chat)]
        return await self._transport.run(calls.append(self.id, pieces, of_append))

    async def score(
        self, text: inputs.Text, *, top_log_probs: int = 0, parse_special: bool = False
    ) -> Score:
        """Return the log-probabilities of a text under the session's model: see Session.score."""
        text_input = inputs.text_input(text)
        return await self._transport.run(
            calls.score(self.model, text_input, top_log_probs, parse_special)
        )

    def fork(
        self,
        *,
        turn_id: str | None = None,
        position: int | None = None,
        model: str = "",
        session_id: str | None = None,
        idle_timeout: float | None = None,
        keep: bool = False,
    ) -> Opening:
        """Create a second session with the same history: see Session.fork."""
        session_id = session_id or options.random_id()
        call = calls.fork(self.id, session_id, turn_id, position, model, idle_timeout)
        return Opening(_made(self._transport, call, session_id, keep))

    async def rewind(
        self,
        *,
        turn_id: str | None = None,
        position: int | None = None,
        expected_version: int | None = None,
    ) -> SessionInfo:
        """Return to an earlier place: see Session.rewind."""
        return await self._transport.run(calls.rewind(self.id, turn_id, position, expected_version))

    async def export(self, path: str | os.PathLike[str], *, sealed: bool = False) -> None:
        """Write the session to a file, which is there in whole or not at all.

        With sealed, only servers with the key of this one can read the file.
        """
        with whole_file(path) as file:
            await self._transport.run(calls.export_session(self.id, file, sealed))

    async def put_notes(self, values: Mapping[notes.K, notes.Value]) -> None:
        """Write notes, which AsyncClient.find_notes finds by their keys: see Session.put_notes."""
        await self._transport.run(notes.put_notes(self.id, values))

    async def info(self) -> SessionInfo:
        """Describe the session as it stands."""
        return await self._transport.run(calls.get_session(self.id))

    def turns(self) -> AsyncIterator[TurnInfo]:
        """List the session's turns, in the order in which they started."""
        return _pages(self._transport, lambda page: calls.turns_page(self.id, page))

    async def history(self) -> list[HistoryEntry]:
        """Return what the turns have read and written: see Session.history."""
        reading = history.Reading(self.id)
        while not reading.ended:
            await self._transport.run(reading.call())
        return reading.entries

    async def cancel(self, turn_id: str) -> TurnInfo:
        """Cancel a turn, also one that another program reads. Returns when it has ended."""
        return await self._transport.run(calls.cancel_turn(self.id, turn_id))

    async def close(self) -> None:
        """End the session and free its memory. A session that has ended stays as it is."""
        await self._transport.run(calls.close_session(self.id))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._keep:
            return
        if error is None:
            await self.close()
        else:
            await self._transport.clean_up(calls.close_session(self.id))

    def _turn(
        self,
        turn_input: pb.Input | None,
        turn_options: options.TurnOptions,
        on_prefill: OnPrefill | None,
        on_twin: OnTwin | None,
    ) -> AsyncTurnStream:
        request = options.generate_request(self.id, turn_input, turn_options)
        timeout = turn_options.get("timeout")
        turn = Turn(request, self._transport.limits.turn_tries(timeout), on_prefill, on_twin)
        return AsyncTurnStream(self._transport, turn)


class Opening:
    """A session that is about to open: await it, or use it in `async with`."""

    def __init__(self, session: Coroutine[Any, Any, AsyncSession]) -> None:
        self._opening = session
        self._session: AsyncSession | None = None

    def __await__(self) -> Generator[Any, None, AsyncSession]:
        return self._opening.__await__()

    async def __aenter__(self) -> AsyncSession:
        self._session = await self._opening
        return self._session

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.__aexit__(kind, error, trace)


async def _made(
    transport: AsyncTransport, call: calls.Call[SessionInfo], session_id: str, keep: bool
) -> AsyncSession:
    """Return the session that `call` makes."""
    try:
        return AsyncSession(transport, await transport.run(call), keep)
    except LongstreamError:
        raise
    except BaseException:  # interrupted: the session may be there all the same
        await transport.clean_up(calls.close_session(session_id))
        raise


async def _pages(
    transport: AsyncTransport, page_call: Callable[[str], calls.Call[calls.Page[T]]]
) -> AsyncIterator[T]:
    page_token = ""
    while True:
        elements, page_token = await transport.run(page_call(page_token))
        for element in elements:
            yield element
        if not page_token:
            return
