#!/usr/bin/env python3
"""Checks deploy/: `make kube-check`. Runs in the environment of requirements.txt, without a cluster
and without a network."""

import argparse
import concurrent.futures
import pathlib
import sys
import time

import alert_tests
import by_hand
import chart
import label_values
import labels
import metrics
import names
import notes
import objectives
import programs
import readme
import references
import render
import same
import schemas
import words

CHECKS = {
    "yamllint": programs.yamllint,
    "hadolint": programs.hadolint,
    "schemas": schemas.check,
    "references": references.check,
    "words": words.check,
    "by hand": by_hand.check,
    "objectives": objectives.check,
    "other names": names.check,
    "examples": readme.check,
    "chart = kustomize": same.check,
    "helm lint": chart.check,
    "notes of the chart": notes.check,
    "metrics and runbooks": metrics.check,
    "labels": labels.check,
    "values of labels": label_values.check,
    "server.yaml": programs.server,
    "PromQL": programs.promql,
    "alerts": programs.promtool,
    "tests of alerts": alert_tests.check,
    "checkov": programs.checkov,
}

# Those that judge an overlay of somebody else.
OF_AN_OVERLAY = ("schemas", "references", "by hand", "objectives")


def run(name, deploy):
    """Returns the problems that a check finds, and its seconds."""
    start = time.monotonic()
    try:
        problems = list(CHECKS[name](deploy))
    except render.RenderError as error:
        problems = [str(error)]
    return problems, time.monotonic() - start


def main():
    """Runs the checks, some at a time. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"default: all; {', '.join(CHECKS)}")
    parser.add_argument("--deploy", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[1])
    parser.add_argument("--overlay", type=pathlib.Path, metavar="DIR", help="look only at this overlay of "
                        f"your own; CHECK is {', '.join(OF_AN_OVERLAY)} then, or also checkov or server.yaml")
    arguments = parser.parse_args()
    names = arguments.checks or list(CHECKS if not arguments.overlay else OF_AN_OVERLAY)
    if arguments.overlay:
        render.OVERLAYS, render.FURTHER = (str(arguments.overlay.resolve()),), ()
    if unknown := [name for name in names if name not in CHECKS]:
        parser.error(f"there is no check {', '.join(unknown)}")
    failed = False
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        runs = {name: pool.submit(run, name, arguments.deploy) for name in reversed(names)}
        for name in names:
            problems, seconds = runs[name].result()
            print(f"{name}: {f'{len(problems)} problem(s)' if problems else 'ok'} ({seconds:.0f} s)")
            for problem in problems:
                print(f"  {problem}")
            failed = failed or bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
