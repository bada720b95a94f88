"""How a channel is made: TLS, tokens, and gRPC's options."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import grpc

# A bearer token, or a function that returns the present one. gRPC calls it for each call, on a
# thread of its own.
Token: TypeAlias = str | Callable[[], str]

# Reconnects soon, because a server that was started again serves within seconds. Notices within a
# minute that the server's host has gone, by pings as the server allows them.
_OPTIONS: dict[str, Any] = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1000,
    "grpc.keepalive_time_ms": 30000,
    "grpc.keepalive_timeout_ms": 20000,
    "grpc.http2.max_pings_without_data": 0,
}


def _environment(name: str) -> str | None:
    return os.environ.get(f"LONGSTREAM_{name}") or None


def _credentials_of_environment() -> grpc.ChannelCredentials | None:
    names = [_environment(name) for name in ("CA", "KEY", "CERT")]
    wanted = (_environment("TLS") or "").lower() in ("1", "true", "on", "yes")
    if not wanted and not any(names):
        return None
    root, key, chain = (pathlib.Path(name).read_bytes() if name else None for name in names)
    return grpc.ssl_channel_credentials(root, key, chain)


def _token_of_environment() -> Token | None:
    if token := _environment("TOKEN"):
        return token
    if path := _environment("TOKEN_FILE"):
        file = pathlib.Path(path)
        return lambda: file.read_text(encoding="ascii").strip()
    return None


class _BearerToken(grpc.AuthMetadataPlugin):
    def __init__(self, token: Token) -> None:
        self._token = token

    def __call__(
        self, context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback
    ) -> None:
        try:
            token = self._token if isinstance(self._token, str) else self._token()
        except Exception as error:  # gRPC ends the call with it
            callback((), error)
        else:
            callback((("authorization", f"Bearer {token}"),), None)


@dataclasses.dataclass(frozen=True)
class ChannelSettings:
    """What a sync and an async channel are made of.

    What is None comes from the environment variables of the command `longstream`, if they are set.
    Raises ValueError for a token without credentials: the token would be readable on its way.
    """

    target: str
    credentials: grpc.ChannelCredentials | None
    token: Token | None
    options: Sequence[tuple[str, Any]]

    def __post_init__(self) -> None:
        if self.credentials is None:
            object.__setattr__(self, "credentials", _credentials_of_environment())
        if self.token is None:
            object.__setattr__(self, "token", _token_of_environment())
        if self.token is not None and self.credentials is None:
            raise ValueError(
                "a token needs TLS: give credentials too, such as grpc.ssl_channel_credentials()"
            )

    def open(self, module: Any) -> Any:
        """Return a channel of `module`, which is grpc or grpc.aio."""
        options = list({**_OPTIONS, **dict(self.options)}.items())
        if self.credentials is None:
            return module.insecure_channel(self.target, options=options)
        credentials = self.credentials
        if self.token is not None:
            credentials = grpc.composite_channel_credentials(
                credentials, grpc.metadata_call_credentials(_BearerToken(self.token), "bearer")
            )
        return module.secure_channel(self.target, credentials, options=options)
