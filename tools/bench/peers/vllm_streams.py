#!/usr/bin/env python3
"""vLLM on the CPU as a peer of run.py (streams.py describes the protocol).

    vllm_streams.py CHECKPOINT THREADS STEP_TOKENS
"""

import os
import sys

import streams

CACHE_GIB = 3
MOST_TOKENS = 17408  # of a prompt and its output
MOST_STREAMS = 16


def load(checkpoint, threads, step_tokens):
    processors = sorted(os.sched_getaffinity(0))[:threads]
    os.environ.update(
        VLLM_CPU_KVCACHE_SPACE=str(CACHE_GIB), VLLM_LOGGING_LEVEL="ERROR", HF_HUB_OFFLINE="1",
        VLLM_CPU_OMP_THREADS_BIND=",".join(map(str, processors)), VLLM_NO_USAGE_STATS="1",
        VLLM_ENABLE_V1_MULTIPROCESSING="0")  # in this process, so that no message passing counts
    if "ONEDNN_MAX_CPU_ISA" in os.environ:  # run.py --without-amx
        import torch  # pylint: disable=import-outside-toplevel
        torch.cpu._is_amx_tile_supported = lambda: False  # pylint: disable=protected-access
    from vllm import LLM, SamplingParams  # pylint: disable=import-outside-toplevel
    from vllm.inputs import TokensPrompt  # pylint: disable=import-outside-toplevel

    engine = LLM(model=checkpoint, dtype="bfloat16", max_model_len=MOST_TOKENS,
                 skip_tokenizer_init=True, enable_prefix_caching=False,
                 max_num_batched_tokens=step_tokens, max_num_seqs=MOST_STREAMS).llm_engine

    def run(prompts, output):
        sampling = SamplingParams(max_tokens=output, ignore_eos=True, temperature=0,
                                  detokenize=False)
        arrivals = streams.Arrivals(len(prompts))
        for number, prompt in enumerate(prompts):
            engine.add_request(str(number), TokensPrompt(prompt_token_ids=prompt), sampling)
        while engine.has_unfinished_requests():
            for request in engine.step():
                number = int(request.request_id.split("-")[0])  # newer engines add a suffix
                arrivals.have(number, len(request.outputs[0].token_ids))
        return arrivals.streams()

    return run


if __name__ == "__main__":
    streams.serve("vLLM", lambda: load(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
