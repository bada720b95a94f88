"""Trains one demo model on the standard library's text and writes its checkpoint.

    python train.py --model hwfa2 --out demo/hwfa2
    python train.py --model hwfa2 --start demo/hwfa2 --tasks 4 --steps 500 --out demo/hwfa2

Starts from random weights, or from the weights of --start. In each batch, --tasks windows are
questions with their answers (tasks.py).

Muon trains the matrices of the layers, and AdamW the other weights. The learning rate is constant
and then falls linearly to zero over the last part. Every --save-every steps the whole state is
written to --state. After an interruption, the same command continues from there.
"""

import argparse
import json
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import corpus
import tasks
from demo_configs import CONFIGS, GENERATION_CONFIG, TRAINING_LENGTH
from layers import Decoder

WARMUP_STEPS = 100
COOLDOWN_FRACTION = 0.4
MUON_LR = 8e-3
ADAMW_LR = 4e-3
GRADIENT_NORM = 1.0
REPORT_EVERY = 20


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(CONFIGS), required=True)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--batch", type=int, default=8, help="windows of 512 bytes per step")
    parser.add_argument("--tasks", type=int, default=0, help="how many of these windows are tasks")
    parser.add_argument("--start", type=pathlib.Path,
                        help="checkpoint directory with the initial weights")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--stdlib", type=pathlib.Path, default=corpus.default_root())
    parser.add_argument("--out", type=pathlib.Path, required=True, help="checkpoint directory")
    parser.add_argument("--state", type=pathlib.Path, help="file with the state to continue from")
    parser.add_argument("--save-every", type=int, default=200)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


def windows(data, args, step):
    """Returns the inputs and targets of one step, [batch, N] each. They depend on seed and step."""
    random = np.random.default_rng([args.seed, step])
    starts = random.integers(0, len(data) - TRAINING_LENGTH, args.batch - args.tasks)
    rows = [data[s : s + TRAINING_LENGTH + 1] for s in starts]
    rows += [tasks.window(random, data, TRAINING_LENGTH + 1) for _ in range(args.tasks)]
    rows = np.stack(rows).astype(np.int64)
    return torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, 1:].copy())


def rate(step, steps):
    """Returns the factor for both learning rates: warm-up, then constant, then a linear fall."""
    fall = (steps - step) / (COOLDOWN_FRACTION * steps)
    return min(1.0, (step + 1) / WARMUP_STEPS, fall)


def optimizers(model):
    """Returns Muon and AdamW with their peak learning rates."""
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and ".layers." in n]
    rest = [p for n, p in model.named_parameters() if p.dim() != 2 or ".layers." not in n]
    muon = torch.optim.Muon(
        matrices, lr=MUON_LR, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"
    )
    adamw = torch.optim.AdamW(rest, lr=ADAMW_LR, betas=(0.9, 0.98), weight_decay=0.0)
    return [(muon, MUON_LR), (adamw, ADAMW_LR)]


def save_checkpoint(model, config, directory):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (directory / "generation_config.json").write_text(
        json.dumps(GENERATION_CONFIG, indent=2) + "\n")
    tensors = {n: p.detach().to(torch.bfloat16).contiguous() for n, p in model.named_parameters()}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def save_state(path, model, parts, step):
    partial = path.with_suffix(".partial")
    states = [part.state_dict() for part, _ in parts]
    torch.save({"model": model.state_dict(), "parts": states, "step": step}, partial)
    partial.replace(path)


def load_state(path, model, parts):
    """Restores the state that save_state wrote, and returns the step to continue from."""
    state = torch.load(path)
    model.load_state_dict(state["model"])
    for (part, _), saved in zip(parts, state["parts"]):
        part.load_state_dict(saved)
    return state["step"]


def train_step(run, model, parts, batch, factor):
    """Makes one update. Returns the loss in nats and the accuracy of the batch."""
    inputs, targets = batch
    with torch.autocast("cpu", torch.bfloat16):
        logits = run(inputs)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_NORM)
    for part, peak in parts:
        for group in part.param_groups:
            group["lr"] = peak * factor
        part.step()
        part.zero_grad(set_to_none=True)
    return loss.item(), (logits.detach().argmax(-1) == targets).float().mean().item()


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    data = corpus.training_bytes(args.stdlib, args.seed)
    config = CONFIGS[args.model]
    model = Decoder(config, TRAINING_LENGTH)
    if args.start:
        model.load_state_dict(load_file(args.start / "model.safetensors"))
    parts = optimizers(model)
    resume = args.state is not None and args.state.exists()
    first = load_state(args.state, model, parts) if resume else 0
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{args.model}: {parameters} parameters, {len(data)} bytes of text, from step {first}")
    run = torch.compile(model) if args.compile else model
    start, recent = time.monotonic(), []
    for step in range(first, args.steps):
        batch = windows(data, args, step)
        recent.append(train_step(run, model, parts, batch, rate(step, args.steps)))
        done = step + 1
        if done % REPORT_EVERY == 0:
            loss, accuracy = np.mean(recent, axis=0)
            pace = (time.monotonic() - start) / (done - first)
            print(
                f"step {done} loss {loss:.4f} accuracy {100 * accuracy:.2f} {pace:.3f} s/step",
                flush=True,
            )
            recent.clear()
        if args.state and done % args.save_every == 0:
            save_state(args.state, model, parts, done)
    save_checkpoint(model, config, args.out)


if __name__ == "__main__":
    main()
