#!/usr/bin/env python3
"""Measures the tasks of gpu_bench with other programs on the same GPU: PyTorch's flash attention and
its cuDNN attention, a whole step of transformers with a static cache and torch.compile, and the prefill of
flash-linear-attention with fixed decays and with gates.

The script prints a table and writes JSON in the format of gpu_bench. If gpu_bench's figures are
given, the table has the ratios to them. If a program cannot be imported or does not fit in memory,
its figure is reported as missing.

Usage: peers.py [--ours build/gpu/bench.json] [--json build/gpu/peers.json] [--only NAME] The exit
code is 0 if every target ratio is reached, 1 if a ratio is not reached or could not be measured,
and 2 if there is no GPU or no PyTorch. The script is written for PyTorch 2.15, transformers 5.23
and flash-linear-attention 0.6.
"""

import argparse
import functools
import json
import pathlib
import sys

HEADS, KV_HEADS, DIM = 40, 8, 128  # of the model with 14B parameters
RNN_HEADS = 32
CONTEXTS = (4096, 32768, 131072)
STEPS = 64  # number of measured steps
NO_DEVICE = 2

# Name of gpu_bench's figure: target of the other program's time divided by gpu_bench's time.
LEAST_RATIO = {
    "prefill attention 16K": 1.0,
    "prefill attention 32K": 1.0,
    "RNN prefill 32K": 1.5,
    "gated RNN prefill 32K": 1.5,
    "step dense 4K": 1.1,
    "step dense 32K": 1.1,
    "step dense 128K": 1.1,
}


def median_microseconds(torch, run, count):
    """The median time of run(i), i = 0, 1, ..., measured with CUDA events after three warm-up
    calls."""
    for i in range(3):
        run(i)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for i in range(count):
        run(3 + i)
        events[i + 1].record()
    torch.cuda.synchronize()
    times = sorted(1e3 * a.elapsed_time(b) for a, b in zip(events, events[1:]))
    return times[count // 2]


def only_backend(name):
    """The context in which scaled_dot_product_attention only uses one backend."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(getattr(SDPBackend, name))


def prefill_attention(torch, tokens, backend="FLASH_ATTENTION"):
    """Causal attention of a whole prompt."""
    attend = torch.nn.functional.scaled_dot_product_attention
    make = lambda heads: torch.randn(1, heads, tokens, DIM, device="cuda", dtype=torch.bfloat16)
    q, k, v = make(HEADS), make(KV_HEADS), make(KV_HEADS)
    with only_backend(backend):
        run = lambda i: attend(q, k, v, is_causal=True, enable_gqa=True)
        return median_microseconds(torch, run, 5)


def decode_attention(torch, context, sequences):
    """Attention of one query row per sequence over all keys of the sequence. Two layers run in
    turn, so that the keys of neither are in a cache."""
    attend = torch.nn.functional.scaled_dot_product_attention
    make = lambda heads, rows: torch.randn(
        sequences, heads, rows, DIM, device="cuda", dtype=torch.bfloat16)
    q = make(HEADS, 1)
    layers = [(make(KV_HEADS, context), make(KV_HEADS, context)) for _ in range(2)]
    with only_backend("FLASH_ATTENTION"):
        run = lambda i: attend(q, *layers[i % 2], enable_gqa=True)
        return median_microseconds(torch, run, 30)


def recurrence_inputs(torch, tokens, count):
    """Returns `count` tensors with random rows for all heads."""
    return [torch.randn(1, tokens, RNN_HEADS, DIM, device="cuda", dtype=torch.bfloat16)
            for _ in range(count)]


def chunked_prefill(torch, tokens):
    """flash-linear-attention's recurrence with gpu_bench's fixed decays. Measures two kernels and
    returns the faster: one writes a state per chunk, the other keeps the state on chip."""
    from fla.ops.simple_gla import chunk_simple_gla, fused_chunk_simple_gla

    q, k, v = recurrence_inputs(torch, tokens, 3)
    log_decay = -torch.exp2(-0.25 * torch.arange(1, RNN_HEADS + 1, device="cuda"))
    return min(median_microseconds(torch, lambda i: attend(q, k, v, g_gamma=log_decay), 5)
               for attend in (chunk_simple_gla, fused_chunk_simple_gla))


def gated_prefill(torch, tokens):
    """flash-linear-attention's recurrence with a gate per key element."""
    from fla.ops.gla import chunk_gla

    q, k, v, gate = recurrence_inputs(torch, tokens, 4)
    log_gate = torch.nn.functional.logsigmoid(gate)
    return median_microseconds(torch, lambda i: chunk_gla(q, k, v, log_gate), 5)


@functools.lru_cache(maxsize=1)
def qwen3(torch):
    """A Qwen3 with the sizes of the 14B model and random weights."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        hidden_size=5120, intermediate_size=17408, num_hidden_layers=40, num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS, head_dim=DIM, vocab_size=151936, tie_word_embeddings=False,
        max_position_embeddings=max(CONTEXTS) + 256)
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            return Qwen3ForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(usual)


def filled_cache(torch, model, context):
    """A static cache of random numbers, after `context` tokens. Its memory is allocated before anything
    is compiled, because a tensor that appears while a graph is traced prevents CUDA graphs."""
    from transformers import StaticCache

    config = model.config
    cache = StaticCache(config=config, max_cache_len=context + 128)
    cache.early_initialization(batch_size=1, num_heads=config.num_key_value_heads,
                               head_dim=config.head_dim, dtype=model.dtype, device=model.device)
    for layer in cache.layers:
        layer.keys.normal_()
        layer.values.normal_()
        layer.cumulative_length.fill_(context)
    return cache


def whole_step(torch, context, make_model=qwen3, steps=STEPS):
    """A greedy decode step with a static cache, compiled only for this context's shapes, because a
    graph for several shapes would be slower."""
    model = make_model(torch)
    with torch.no_grad():
        cache = filled_cache(torch, model, context)
        torch.compiler.reset()
        step = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True, dynamic=False)
        token = torch.zeros(1, 1, dtype=torch.long, device=model.device)

        def run(i):
            position = torch.full((1, 1), context + i, device=model.device)
            logits = step(input_ids=token, past_key_values=cache, position_ids=position,
                          use_cache=True).logits
            token.copy_(logits[:, -1:].argmax(-1))

        microseconds = median_microseconds(torch, run, steps)
    end = int(cache.layers[0].cumulative_length)
    if end <= context:
        raise RuntimeError(f"the cache is at {end}, not behind {context}: another transformers")
    return microseconds


def measurements():
    """Returns (name of gpu_bench's figure, function of torch) for every measurement."""
    rows = [(f"prefill attention {tokens // 1024}K",
             lambda torch, tokens=tokens: prefill_attention(torch, tokens))
            for tokens in (16384, 32768)]
    rows += [(f"prefill attention {tokens // 1024}K, cuDNN",
              lambda torch, tokens=tokens: prefill_attention(torch, tokens, "CUDNN_ATTENTION"))
             for tokens in (16384, 32768)]
    rows += [("decode attention 1 x 256K", lambda torch: decode_attention(torch, 262144, 1)),
             ("decode attention 16 x 16K", lambda torch: decode_attention(torch, 16384, 16)),
             ("RNN prefill 32K", lambda torch: chunked_prefill(torch, 32768)),
             ("gated RNN prefill 32K", lambda torch: gated_prefill(torch, 32768))]
    rows += [(f"step dense {context // 1024}K",
              lambda torch, context=context: whole_step(torch, context)) for context in CONTEXTS]
    return rows


def measure(torch, name, function):
    """Returns a figure, or the reason why it is missing. An error in one program only affects its
    own figure."""
    figure = {"name": name, "unit": "us"}
    try:
        figure["value"] = function(torch)
    except ImportError as error:
        figure["missing"] = f"cannot be imported: {error}"
    except Exception as error:  # out of memory, another version's interface, a compiler's failure
        first_line = (str(error).strip() or "no message").splitlines()[0]
        figure["missing"] = f"{type(error).__name__}: {first_line}"
    torch.cuda.empty_cache()
    return figure


def compare(figure, ours):
    """Adds the ratio peer / ours if both figures exist, the target of the ratio, and whether the
    ratio reaches it. The part of a peer's name after a comma is not in the name of our figure."""
    mine = ours.get(figure["name"].split(",")[0])
    least = LEAST_RATIO.get(figure["name"])
    if least is not None:
        figure["least"] = least
    if "value" not in figure or mine is None:
        return
    figure["ratio"] = figure["value"] / mine
    if least is not None:
        figure["pass"] = figure["ratio"] >= least


def line(figure):
    if "value" not in figure:
        return f"{figure['name']:<32} missing: {figure['missing']}"
    text = f"{figure['name']:<32} {figure['value']:12.1f} us"
    if "ratio" in figure:
        text += f"  {figure['ratio']:6.2f} x ours"
    elif "least" in figure:
        text += "  no figure of ours"
    if "pass" in figure:
        text += f"  least {figure['least']:.1f}  {'pass' if figure['pass'] else 'FAIL'}"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", type=pathlib.Path, help="JSON of gpu_bench")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the figures")
    parser.add_argument("--only", help="a part of the name")
    arguments = parser.parse_args()

    try:
        import torch
    except ImportError as error:
        return no_device(f"no peer can be measured: {error}")
    if not torch.cuda.is_available():
        return no_device("no CUDA device: PyTorch finds none")
    ours = {}
    if arguments.ours and arguments.ours.is_file():
        ours = {figure["name"]: figure["value"]
                for figure in json.loads(arguments.ours.read_text())["figures"]
                if "value" in figure}
    figures = []
    for name, function in measurements():
        if arguments.only and arguments.only not in name:
            continue
        figure = measure(torch, name, function)
        compare(figure, ours)
        figures.append(figure)
        print(line(figure), flush=True)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(
            json.dumps({"device": torch.cuda.get_device_name(), "figures": figures}, indent=1))
    failed = sum("least" in figure and not figure.get("pass", False) for figure in figures)
    print(f"{failed} of what is asked for is not reached or could not be taken")
    return 1 if failed else 0


def no_device(sentence):
    print(sentence, file=sys.stderr)
    return NO_DEVICE


if __name__ == "__main__":
    sys.exit(main())
