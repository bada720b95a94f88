"""The client for programs with threads: Client and Session."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import grpc

from longstream import calls, history, inputs, notes, options, tokens
from longstream.channel import ChannelSettings, Token
from longstream.enums import Durability, DurabilityLike, Recompute, RecomputeLike
from longstream.errors import LongstreamError
from longstream.files import whole_file
from longstream.history import HistoryEntry
from longstream.inputs import Expectation
from longstream.model_values import Alias, ModelInfo
from longstream.notes import Note
from longstream.retries import RetryPolicy
from longstream.streams import TurnStream
from longstream.sync_transport import Transport
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


class Client:
    """A connection to a server. Thread-safe.

    A call that loses its connection or its server is made again, as `retry` says. A call that fails
    all the same raises a LongstreamError.
    """

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
        """Make a client. It connects with its first call.

        Args:
            target: the server's address, such as "127.0.0.1:50051".
            credentials: such as grpc.ssl_channel_credentials(). None: as LONGSTREAM_TLS,
                LONGSTREAM_CA, LONGSTREAM_CERT and LONGSTREAM_KEY say; without them no TLS.
            token: a bearer token, or a function that returns one. Needs credentials. None: as
                LONGSTREAM_TOKEN or LONGSTREAM_TOKEN_FILE say.
            channel_options: gRPC's channel arguments.
            timeout: seconds for each call; None: no limit. It does not apply to turns, which have
                an option of their own, and to exports and imports.
            retry: how long lost calls are made again.
        """
        settings = ChannelSettings(target, credentials, token, channel_options)
        self._transport = Transport(settings, Limits(timeout, retry))

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
    ) -> Session:
        """Open a session.

        Args:
            model: a model, or an alias of models; empty: the server's only model.
            session_id: 32 hexadecimal digits; None: drawn.
            idle_timeout: seconds without a turn, after which the server closes the session; None:
                the server's default.
            ttl: seconds without a turn, after which a session in the server's store ends; None: the
                server's default.
            durability: whether the session outlives the server.
            recompute: how its caches are computed again after an eviction.
            expect: what the first turn will be and may cost. An alias with a route chooses the
                model by it; Session.info().routing says why.
            keep: the session stays open at the end of its `with` block.
        """
        session_id = session_id or options.random_id()
        return _made(
            self._transport,
            calls.open_session(model, session_id, idle_timeout, durability, recompute, expect, ttl),
            session_id,
            keep,
        )

    def attach(self, session_id: str, *, keep: bool = True) -> Session:
        """Return a session that is open at the server, such as that of an earlier program.

        Args:
            session_id: its id.
            keep: the session stays open at the end of its `with` block.
        """
        info = self._transport.run(calls.get_session(session_id))
        return Session(self._transport, info, keep)

    def import_session(
        self,
        path: str | os.PathLike[str],
        *,
        session_id: str = "",
        model: str = "",
        idle_timeout: float | None = None,
        keep: bool = True,
    ) -> Session:
        """Make a session of a file that Session.export has written.

        A call that is lost is not made again; sessions() tells whether the session is there.

        Args:
            path: the file.
            session_id: empty: the id that the session had.
            model: empty: the model that the session had.
            idle_timeout: seconds; None: that of the session.
            keep: the session stays open at the end of its `with` block.
        """
        with pathlib.Path(path).open("rb") as file:
            call = calls.import_session(file, session_id, model, idle_timeout)
            return Session(self._transport, self._transport.run(call), keep)

    def sessions(self, model: str = "", alias: str = "") -> Iterator[SessionInfo]:
        """List the sessions with this model and this alias; empty: with any."""
        return _pages(self._transport, lambda page: calls.sessions_page(model, alias, page))

    def models(self) -> list[ModelInfo]:
        """List all models, including those that are loading or have failed."""
        return self._transport.run(calls.list_models())

    def aliases(self) -> list[Alias]:
        """List all aliases, the other names of models, with their arms."""
        return self._transport.run(calls.list_aliases())

    def model(self, name: str = "") -> ModelInfo:
        """Describe a model; empty: the server's only model."""
        return self._transport.run(calls.get_model(name))

    def tokenize(
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
        """Convert a text, token ids or messages to the token ids of a model, without a turn.

        Args:
            text: a text or token ids. Without it there are messages.
            messages: a whole conversation, which the model's chat template renders.
            model: a model, or an alias, whose arm is drawn; empty: the server's only model.
            parse_special: special tokens that the text spells out become their ids.
            add_special: begin with the tokens that begin the first text of a session.
            count_only: answer the number of tokens, and no ids.
            pieces: answer the bytes of each token, too.
            chat_options: see ChatOptions.
        """
        call = tokens.tokenize(
            model, text, messages, chat_options, parse_special, add_special, count_only, pieces
        )
        return self._transport.run(call)

    def detokenize(
        self, token_ids: Sequence[int], *, model: str = "", skip_special: bool = False
    ) -> str:
        """Return the text of token ids."""
        return self._transport.run(tokens.detokenize(model, token_ids, skip_special))

    def find_notes(self, keys: Iterable[notes.Key]) -> list[Note]:
        """Find notes by their keys in all sessions of the server's store.

        Returns a note for each key that was found, in the order of the keys. If several sessions
        have a note with the key, it is the one that was written last.

        Args:
            keys: bytes or texts, any number of them.
        """
        search = notes.Search(keys)
        while search.keys:
            self._transport.run(search.call())
        return search.notes

    def score(
        self,
        text: inputs.Text,
        *,
        model: str = "",
        top_log_probs: int = 0,
        parse_special: bool = False,
    ) -> Score:
        """Return the log-probabilities of a text under a model. Uses no session."""
        text_input = inputs.text_input(text)
        return self._transport.run(calls.score(model, text_input, top_log_probs, parse_special))

    def compare(
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
        """Run 2 to 8 models on one prompt, and compare their tokens.

        Without force, answer_of and prompt_from, each arm generates an answer of its own. With one
        of them all arms read the same tokens. The answer is there when all arms have ended.

        Args:
            arms: names of models, or Arm. The others are compared with the first.
            text: the prompt, or what follows the session.
            messages: the prompt as a conversation, instead of a text.
            session_id: the prompt begins with the tokens of this session, which stays as it is.
            force: all arms read this text, or these token ids, behind the prompt.
            answer_of: all arms read the answer of the arm with this index.
            prompt_from: all arms read the prompt; it is compared from this token on.
            answer_options: see AnswerOptions.
        """
        request = options.compare_request(
            arms,
            inputs.compared_input(text, messages),
            session_id,
            inputs.forced(force, answer_of, prompt_from),
            answer_options,
        )
        return self._transport.run(calls.compare(request))

    def close(self) -> None:
        """Close the connection. Sessions stay open at the server."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Session:
    """The memory of one conversation on one model. A session runs one turn at a time.

    At the end of a `with` block the session is closed, unless it is kept.
    """

    def __init__(self, transport: Transport, info: SessionInfo, keep: bool) -> None:
        """Use Client.session, Client.attach or Session.fork."""
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
    ) -> TurnStream:
        """Add text or token ids to the session, and generate.

        The turn starts when its stream is read.

        Args:
            text: None: generate after the session's last token.
            on_prefill: is called with the progress while the model reads the prompt.
            on_twin: is called with each row of the twin_model.
            turn_options: see TurnOptions.
        """
        text_input = None if text is None else inputs.text_input(text)
        return self._turn(text_input, turn_options, on_prefill, on_twin)

    def chat(
        self,
        messages: inputs.Conversation,
        *,
        on_prefill: OnPrefill | None = None,
        on_twin: OnTwin | None = None,
        **turn_options: Unpack[options.ChatTurnOptions],
    ) -> TurnStream:
        """Add messages to the conversation, and generate the reply.

        The session remembers earlier messages and replies, so a turn sends only new messages. The
        turn starts when its stream is read.

        Args:
            messages: one or several. A string is a message of the user.
            on_prefill: is called with the progress while the model reads the prompt.
            on_twin: is called with each row of the twin_model.
            turn_options: see TurnOptions and ChatOptions.
        """
        of_chat, of_turn = options.split(turn_options)
        return self._turn(inputs.messages_input(messages, of_chat), of_turn, on_prefill, on_twin)

    def append(
        self, *texts: inputs.Text, **append_options: Unpack[options.AppendOptions]
    ) -> Appended:
        """Add texts or token ids without generating: all of them or none."""
        pieces = inputs.text_inputs(texts)
        return self._transport.run(calls.append(self.id, pieces, append_options))

    def append_chat(
        self, messages: inputs.Conversation, **append_options: Unpack[options.ChatAppendOptions]
    ) -> Appended:
        """Add messages to the conversation without generating."""
        of_chat, of_append = options.split(append_options)
        pieces = [inputs.messages_input(messages, of_chat)]
        return self._transport.run(calls.append(self.id, pieces, of_append))

    def score(
        self, text: inputs.Text, *, top_log_probs: int = 0, parse_special: bool = False
    ) -> Score:
        """Return the log-probabilities of a text under the session's model.

        The text stands alone: the session's history is not before it, and it is not added.
        """
        text_input = inputs.text_input(text)
        return self._transport.run(
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
    ) -> Session:
        """Create a second session with the same history.

        Args:
            turn_id: the fork begins at the end of this turn.
            position: the fork begins at this position. Neither: at the session's end.
            model: of the fork, with the same tokenizer. Empty: that of this session.
            session_id: of the fork; None: drawn.
            idle_timeout: seconds; None: the server's default.
            keep: the fork stays open at the end of its `with` block.
        """
        session_id = session_id or options.random_id()
        call = calls.fork(self.id, session_id, turn_id, position, model, idle_timeout)
        return _made(self._transport, call, session_id, keep)

    def rewind(
        self,
        *,
        turn_id: str | None = None,
        position: int | None = None,
        expected_version: int | None = None,
    ) -> SessionInfo:
        """Return to an earlier place.

        Args:
            turn_id: the end of this turn.
            position: this position. 0: the empty session.
            expected_version: the version that the session must have; None or 0: it is not
                checked. With a version a call that is lost is not made again.
        """
        return self._transport.run(calls.rewind(self.id, turn_id, position, expected_version))

    def export(self, path: str | os.PathLike[str], *, sealed: bool = False) -> None:
        """Write the session to a file, which is there in whole or not at all.

        With sealed, only servers with the key of this one can read the file.
        """
        with whole_file(path) as file:
            self._transport.run(calls.export_session(self.id, file, sealed))

    def put_notes(self, values: Mapping[notes.K, notes.Value]) -> None:
        """Write notes, which Client.find_notes finds by their keys: all of them or none.

        The session must be in the server's store. It stays as it is, and its turns go on.

        Args:
            values: the value of each key. A note with the same key is replaced; None or an empty
                value removes it.
        """
        self._transport.run(notes.put_notes(self.id, values))

    def info(self) -> SessionInfo:
        """Describe the session as it stands."""
        return self._transport.run(calls.get_session(self.id))

    def turns(self) -> Iterator[TurnInfo]:
        """List the session's turns, in the order in which they started."""
        return _pages(self._transport, lambda page: calls.turns_page(self.id, page))

    def history(self) -> list[HistoryEntry]:
        """Return what the turns have read and written, from the first one to the last.

        Turns that were rewound past, and a turn that is running, are not part of it. A session
        that the server does not store has prompts in place of messages: the text that the chat
        template has made of them.
        """
        reading = history.Reading(self.id)
        while not reading.ended:
            self._transport.run(reading.call())
        return reading.entries

    def cancel(self, turn_id: str) -> TurnInfo:
        """Cancel a turn, also one that another program reads. Returns when it has ended."""
        return self._transport.run(calls.cancel_turn(self.id, turn_id))

    def close(self) -> None:
        """End the session and free its memory. A session that has ended stays as it is."""
        self._transport.run(calls.close_session(self.id))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._keep:
            return
        if error is None:
            self.close()
        else:
            self._transport.clean_up(calls.close_session(self.id))

    def _turn(
        self,
        turn_input: pb.Input | None,
        turn_options: options.TurnOptions,
        on_prefill: OnPrefill | None,
        on_twin: OnTwin | None,
    ) -> TurnStream:
        request = options.generate_request(self.id, turn_input, turn_options)
        timeout = turn_options.get("timeout")
        turn = Turn(request, self._transport.limits.turn_tries(timeout), on_prefill, on_twin)
        return TurnStream(self._transport, turn)


def _made(
    transport: Transport, call: calls.Call[SessionInfo], session_id: str, keep: bool
) -> Session:
    """Return the session that `call` makes."""
    try:
        return Session(transport, transport.run(call), keep)
    except LongstreamError:
        raise
    except BaseException:  # interrupted: the session may be there all the same
        transport.clean_up(calls.close_session(session_id))
        raise


def _pages(
    transport: Transport, page_call: Callable[[str], calls.Call[calls.Page[T]]]
) -> Iterator[T]:
    page_token = ""
    while True:
        elements, page_token = transport.run(page_call(page_token))
        yield from elements
        if not page_token:
            return
