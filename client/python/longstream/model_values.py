"""What the server answers about models and aliases, as dataclasses: see values.py."""

from __future__ import annotations

from dataclasses import dataclass

from longstream.enums import ModelState


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
class AliasRoute:
    """The budgets of an alias that chooses by the length of the request, and its defaults."""

    max_time_to_first_token: float | None
    max_time_per_token: float | None
    max_session_bytes: int  # 0: no limit
    prompt_tokens: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Alias:
    """A name behind which one of several models serves each session."""

    name: str
    arms: tuple[AliasArm, ...]
    route: AliasRoute | None  # None: the arms have weights
