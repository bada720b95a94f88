#!/usr/bin/env python3
"""OpenVINO GenAI as a peer of run.py (streams.py describes the protocol).

    openvino_streams.py MODEL THREADS STEP_TOKENS
"""

import sys

import streams

CACHE_GIB = 3


def load(model, threads, step_tokens):
    import numpy  # pylint: disable=import-outside-toplevel
    import openvino  # pylint: disable=import-outside-toplevel
    import openvino_genai  # pylint: disable=import-outside-toplevel

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = CACHE_GIB
    scheduler.max_num_batched_tokens = step_tokens
    scheduler.enable_prefix_caching = False
    scheduler.dynamic_split_fuse = True
    properties = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "bf16"}
    pipeline = openvino_genai.ContinuousBatchingPipeline(model, scheduler, "CPU", properties, {})

    def run(prompts, output):
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = output
        config.ignore_eos = True
        config.eos_token_id = 0  # the checkpoint has none, and OpenVINO refuses that
        config.stop_token_ids = {0}
        config.do_sample = False
        arrivals = streams.Arrivals(len(prompts))
        handles = [
            pipeline.add_request(number, openvino.Tensor(numpy.array([prompt], numpy.int64)), config)
            for number, prompt in enumerate(prompts)]
        while pipeline.has_non_finished_requests():
            pipeline.step()
            for number, handle in enumerate(handles):
                while handle.can_read():
                    arrivals.add(number, sum(len(each.generated_ids)
                                             for each in handle.read().values()))
        return arrivals.streams()

    return run


if __name__ == "__main__":
    streams.serve("OpenVINO GenAI", lambda: load(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
