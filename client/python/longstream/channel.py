"""How a channel is made: TLS, tokens, and gRPC's options."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import grpc

from longstream.checks import wrong

# A bearer token, or a function that returns the present one. gRPC calls it for each call, on a
# thread of its own.
Token: TypeAlias = str | Callable[[], str]

# Reconnects soon, because a server that was started again serves within seconds. Notices within a
# minute that the server's host has gone, by pings as the server allows them.
_OPTIONS: dict[str, Any] = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1000,
    "grpc.max_receive_message_length": -1,  # a page of a history may have a message of 64 MiB
    "grpc.keepalive_time_ms": 30000,
    "grpc.keepalive_timeout_ms": 20000,
    "grpc.http2.max_pings_without_data": 0,
}


@dataclasses.dataclass(frozen=True)
class _Variable:
    """A setting in the environment. Its errors name it, and do not repeat a token."""

    name: str

    @property
    def value(self) -> str | None:
        """The setting; None: it is not set, or empty."""
        return os.environ.get(self.name) or None

    def error(self, why: object) -> ValueError:
        return ValueError(f"{self.name}: {why}")

    def switch(self) -> bool:
        """Whether it is on."""
        value = (self.value or "off").lower()
        if value not in _ON + _OFF:
            raise self.error(f"expected one of {', '.join(_ON + _OFF)}, found {self.value!r}")
        return value in _ON

    def contents(self) -> bytes | None:
        """Read the file that it names. None: it names none."""
        if self.value is None:
            return None
        return self.read(self.value)

    def read(self, path: str) -> bytes:
        """Read a file that it has named."""
        try:
            contents = pathlib.Path(path).read_bytes()
        except OSError as error:
            raise self.error(error) from error
        if not contents:
            raise self.error(f"{path} is empty")
        return contents

    def token(self, text: bytes) -> str:
        """Return a token without the spaces around it."""
        token = text.strip()
        if not token:
            raise self.error("the token is empty")
        if not all(ord("!") <= character <= ord("~") for character in token):
            raise self.error("the token has a character that is not allowed")
        return token.decode("ascii")


_ON = ("1", "true", "on", "yes")
_OFF = ("0", "false", "off", "no")
_TLS = _Variable("LONGSTREAM_TLS")
_CA = _Variable("LONGSTREAM_CA")
_CERT = _Variable("LONGSTREAM_CERT")
_KEY = _Variable("LONGSTREAM_KEY")
_TOKEN = _Variable("LONGSTREAM_TOKEN")
_TOKEN_FILE = _Variable("LONGSTREAM_TOKEN_FILE")


def _credentials_of_environment() -> grpc.ChannelCredentials | None:
    if (_CERT.value is None) != (_KEY.value is None):
        raise ValueError(f"{_CERT.name} and {_KEY.name}: set both or none of them")
    wanted = _TLS.switch()
    if not wanted and _CA.value is None and _CERT.value is None:
        return None
    return grpc.ssl_channel_credentials(_CA.contents(), _KEY.contents(), _CERT.contents())


def _token_of_environment() -> tuple[_Variable, Token] | None:
    if (text := _TOKEN.value) is not None:
        return _TOKEN, _TOKEN.token(os.fsencode(text))
    if (path := _TOKEN_FILE.value) is not None:

        def present_token() -> str:
            return _TOKEN_FILE.token(_TOKEN_FILE.read(path))

        present_token()  # a file that is wrong is an error now, and not at the first call
        return _TOKEN_FILE, present_token
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


_SCHEMES = ("unix:", "unix-abstract:", "dns:", "ipv4:", "ipv6:", "vsock:")
_PORT = re.compile("[1-9][0-9]{0,4}")


def _check_address(target: str) -> None:
    """Raise unless this is an address, by the rule of the command `longstream`.

    gRPC itself would read "localhost" as localhost:443, and a URL as the name of a host. Then each
    call would be tried again until its time has passed.
    """
    expected = "host:port, such as 127.0.0.1:50051, or unix:PATH"
    if not isinstance(target, str):
        raise wrong(TypeError, "target", expected, target)
    host, _, port = target.rpartition(":")
    is_port = _PORT.fullmatch(port) is not None and int(port) <= 65535
    if not target.startswith(_SCHEMES) and not (host and "/" not in target and is_port):
        raise wrong(ValueError, "target", expected, target)


@dataclasses.dataclass(frozen=True)
class ChannelSettings:
    """What a sync and an async channel are made of.

    What is None comes from the environment variables of the command `longstream`, if they are set.
    Raises ValueError for a token without credentials, which would be readable on its way, and for a
    variable that is wrong; the message names the variable. A target that is no address is a
    ValueError too.
    """

    target: str
    credentials: grpc.ChannelCredentials | None
    token: Token | None
    options: Sequence[tuple[str, Any]]

    def __post_init__(self) -> None:
        _check_address(self.target)
        if self.credentials is None:
            object.__setattr__(self, "credentials", _credentials_of_environment())
        found = _token_of_environment() if self.token is None else None
        if found is not None:
            variable, token = found
            if self.credentials is None:
                raise variable.error(f"a token needs TLS: set {_TLS.name}=1, or give credentials")
            object.__setattr__(self, "token", token)
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
