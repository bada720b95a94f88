"""Prints the demo's table from the client's JSON results. Usage: demo_table.py DIRECTORY MODEL..."""

import json
import pathlib
import sys


def human(count):
    """Formats a number of bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024


def row(results, model):
    read = lambda name: json.loads((results / f"{model}.{name}.json").read_text())
    turn, short, long = read("generate"), read("score.512"), read("score.4096")
    gap = turn["inter_token_milliseconds"]
    return [
        model,
        f"{1e3 * turn['time_to_first_token_seconds']:.1f}",
        f"{gap:.2f}",
        f"{1e3 / gap:.0f}" if gap > 0 else "-",
        *(human(long["bytes"][kind]) for kind in ("kv", "window", "state")),
        f"{100 * short['top1_accuracy']:.1f}",
        f"{100 * long['top1_accuracy']:.1f}",
    ]


def main():
    results = pathlib.Path(sys.argv[1])
    header = ["model", "TTFT ms", "ITL ms", "tokens/s", "kv", "window", "state",
              "% at 512", "% at 4096"]
    rows = [header] + [row(results, model) for model in sys.argv[2:]]
    widths = [max(len(line[i]) for line in rows) for i in range(len(header))]
    print("\nBytes are those of a session of 4096 tokens; % is next-byte accuracy on held-out text.\n")
    for line in rows:
        print("  ".join(cell.rjust(width) if i else cell.ljust(width)
                        for i, (cell, width) in enumerate(zip(line, widths))))


if __name__ == "__main__":
    main()
