"""What the server answers, as dataclasses.

Fields have the names and the meaning that they have in the wire contract (longstream.proto), which
describes each of them. Durations are seconds; times are in UTC; an absent field is None.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from longstream.enums import (
    Attach,
    Durability,
    FinishReason,
    ModelState,
    RestoreSource,
    TurnState,
)


@dataclass(frozen=True, slots=True)
class SessionBytes:
    """Memory that one session holds, in bytes."""

    kv: int
    window: int
    state: int
    host: int


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session, as it stood when the server answered."""

    session_id: str
    model: str
    position: int
    context_limit: int
    turn_running: bool
    bytes: SessionBytes
    create_time: datetime.datetime | None
    last_use_time: datetime.datetime | None
    idle_timeout: float | None
    forked_from: str
    durability: Durability
    version: int
    head_turn_id: str
    stored_bytes: int  # known only from Session.info()
    recompute_tokens: int
    alias: str


@dataclass(frozen=True, slots=True)
class TurnInfo:
    """A turn of a session, as turns() lists it."""

    turn_id: str
    state: TurnState
    running: bool
    start_position: int
    position: int
    finish_reason: FinishReason
    prompt_tokens: int
    generated_tokens: int
    start_time: datetime.datetime | None
    end_time: datetime.datetime | None


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The server has admitted the turn."""

    position: int
    prompt_tokens: int
    seed: int
    turn_id: str
    how: Attach


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """How many tokens of the prompt the model has read."""

    done_tokens: int
    total_tokens: int


@dataclass(frozen=True, slots=True)
class TopToken:
    """One of the most probable tokens at a step."""

    token_id: int
    token: bytes
    log_prob: float


@dataclass(frozen=True, slots=True)
class TokenLogProb:
    """A generated token. `token`: its bytes, which may be a part of a character."""

    token_id: int
    token: bytes
    log_prob: float
    top: tuple[TopToken, ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer. str(delta) is its text, which is empty within a character."""

    text: str
    token_ids: tuple[int, ...]
    position: int
    log_probs: tuple[TokenLogProb, ...]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """The tokens, times and memory of a turn."""

    prompt_tokens: int
    generated_tokens: int
    reused_tokens: int
    recomputed_tokens: int
    recompute_reason: str
    queue_time: float | None
    prefill_time: float | None
    decode_time: float | None
    time_to_first_token: float | None
    bytes: SessionBytes
    restored_tokens: int
    restore_source: RestoreSource
    forced_tokens: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a turn. `stop_string` and `stop_token` have a value if they were the reason."""

    reason: FinishReason
    position: int
    stop_string: str
    stop_token: int
    usage: TurnUsage
    kept_text_bytes: int
    incomplete_character: bytes


@dataclass(frozen=True, slots=True)
class Generation:
    """The whole answer of a turn."""

    text: str
    token_ids: tuple[int, ...]
    log_probs: tuple[TokenLogProb, ...]
    started: TurnStarted
    finish: Finish

    @property
    def usage(self) -> TurnUsage:
        """The tokens, times and memory of the turn."""
        return self.finish.usage


@dataclass(frozen=True, slots=True)
class Appended:
    """The end of a turn that only added input."""

    position: int
    usage: TurnUsage
    turn_id: str


@dataclass(frozen=True, slots=True)
class TokenScore:
    """A token of a scored text. The first token has no log_prob."""

    token_id: int
    log_prob: float | None
    top1: bool
    top: tuple[TopToken, ...]


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Sums over the scored tokens: all but the first."""

    tokens: int
    sum_log_prob: float
    top1_tokens: int
    bytes: SessionBytes
    model: str


@dataclass(frozen=True, slots=True)
class Score:
    """The log-probabilities of a text."""

    tokens: tuple[TokenScore, ...]
    summary: ScoreSummary


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of a model."""

    kind: str
    position: str
    window: int
    bytes_per_token: int
    bytes_fixed: int


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes that a model holds right now."""

    weights: int
    pages: int
    rings: int
    states: int
    checkpoints: int
    workspace: int
    budget: int
    reserved: int


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """The model's values for sampling options that a turn does not set; None: off."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that the server has. Most fields are empty until `state` is READY."""

    name: str
    state: ModelState
    error: str
    backend: str
    device: str
    backend_version: str
    architecture: str
    vocabulary_size: int
    parameters: int
    context_limit: int
    tokenizer: str
    fingerprint: str
    kv_bytes_per_token: int
    window_bytes_per_session: int
    state_bytes_per_session: int
    layers: tuple[Layer, ...]
    capabilities: tuple[str, ...]
    end_token_ids: tuple[int, ...]
    memory: ModelMemory
    prefill_grid: int
    kernels: str
    page_tokens: int
    chat: bool
    chat_error: str
    sampling_defaults: SamplingDefaults


@dataclass(frozen=True, slots=True)
class AliasArm:
    """A model of an alias. Its part of the sessions is its weight by the sum of the weights."""

    model: str
    weight: int


@dataclass(frozen=True, slots=True)
class Alias:
    """A name behind which one of several models serves each session."""

    name: str
    arms: tuple[AliasArm, ...]
