#!/usr/bin/env python3
"""Runs all parts of `make kube-check` one after the other, in the environment of requirements.txt, and
prints the result and the seconds of each. Warns if they take long. Builds and installs nothing."""

import argparse
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_RUN = 77  # exit code of a part that cannot run here
MOST_SECONDS = 120


def parts(image):
    """{part: its command}. `image`: the folder of an installed server."""
    python = (sys.executable, "-B")
    return {
        "objects, chart, alerts": (*python, ROOT / "deploy/check/kube_check.py"),
        "planted errors": (*python, ROOT / "tests/deploy/kube_check_test.py"),
        "parts of kube-proof": (*python, ROOT / "tests/deploy/kube_proof_test.py"),
        "root of an image": (ROOT / "tests/deploy/image_root_test.sh", image, ROOT / "models/demo/hypenet"),
    }


def judge(rows, needs_all, most_seconds):
    """Returns (exit code, lines to print). rows: [(part, exit code, seconds)]. `needs_all`: a part that
    is not run is a failure."""
    lines, has_failed = [], False
    for name, code, seconds in rows:
        is_bad = code != 0 and (code != NOT_RUN or needs_all)
        has_failed = has_failed or is_bad
        text = {0: "ok", NOT_RUN: "not run"}.get(code, "failed")
        lines.append(f"{name:24} {seconds:4.0f} s  {text}" + (" (a failure here)" if text == "not run" and is_bad else ""))
    total = sum(seconds for _, _, seconds in rows)
    lines.append(f"{'all':24} {total:4.0f} s")
    if total > most_seconds:
        lines.append(f"WARNING: kube-check took {total:.0f} s, more than {most_seconds} s")
    return int(has_failed), lines


def main():
    """Runs the parts. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", type=pathlib.Path, required=True, help="the folder of an installed server")
    parser.add_argument("--all", action="store_true", help="a part that cannot run here is a failure")
    parser.add_argument("--most-seconds", type=float, default=MOST_SECONDS,
                        help=f"warn above this time (default: {MOST_SECONDS})")
    arguments = parser.parse_args()
    rows = []
    for name, command in parts(arguments.image).items():
        start = time.monotonic()
        code = subprocess.run(command, check=False).returncode
        rows.append((name, code, time.monotonic() - start))
    status, lines = judge(rows, arguments.all, arguments.most_seconds)
    print("\n".join(["", *lines]))
    return status


if __name__ == "__main__":
    sys.exit(main())
