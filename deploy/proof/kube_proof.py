#!/usr/bin/env python3
"""Lets a real control plane of Kubernetes scale a fleet from one replica to four and back, under load.

`make kube-proof` builds and installs what it needs, and runs it (docs/kube-proof.md). It needs root,
because it makes namespaces; nothing of it is seen outside of them.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "deploy" / room) for room in ("proof", "proof/node", "local")]

import cell  # noqa: E402
import image  # noqa: E402
from api import ApiError  # noqa: E402
from folder import FleetFolder  # noqa: E402
from limits import Limits  # noqa: E402
from proof import Proof  # noqa: E402
from service import ServiceError  # noqa: E402

PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def _options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", nargs="+", default=["60:3", "210:40", "250:3"],
                        metavar="SECONDS:TURNS", help="how many turns clients want at once")
    parser.add_argument("--sessions", type=int, default=120, help="that take turns (default: 120)")
    parser.add_argument("--tokens", type=int, default=128, help="of an answer (default: 128)")
    parser.add_argument("--turns", type=int, default=70, help="of a session, at most (default: 70)")
    parser.add_argument("--replicas", nargs=2, type=int, default=[1, 4], metavar=("LEAST", "MOST"),
                        help="that the run must have had (default: 1 4)")
    parser.add_argument("--no-rollout", action="store_true",
                        help="do not restart the Deployment when it is at LEAST replicas again")
    parser.add_argument("--keep", action="store_true", help="leave the files of a run that is good")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/kube-proof",
                        help="of the control plane's programs, for the result and for files")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release",
                        help="build tree with the programs (default: build/release)")
    parser.add_argument("--envoy", type=pathlib.Path,
                        default=ROOT / "build/venv-services/bin/envoy", help="Envoy's program")
    parser.add_argument("--kubectl", type=pathlib.Path,
                        default=ROOT / "build/venv-kube-proof/bin/kubectl", help="kubectl's program")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    options.source = ROOT
    wanted = [options.build / "bin/longstream-server", options.build / "bin/longstream",
              options.build / "tests/fleet_load", options.envoy, options.kubectl,
              *(options.folder / "bin" / name for name in PROGRAMS)]
    for path in wanted:
        if not os.access(path, os.X_OK):
            parser.error(f"there is no program {path}: run `make kube-proof`")
    for name in ("build", "envoy", "kubectl"):
        setattr(options, name, getattr(options, name).absolute())
    return options


def _in_cell(options, folder, limits):
    """Run the proof in its namespaces. Returns the exit status."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    proof = None
    status = 1
    try:
        proof = Proof(options, folder, limits)
        status = proof.run()
    except KeyboardInterrupt:
        print("\nStopping.", flush=True)
        status = 130
    except (ApiError, OSError, RuntimeError, ServiceError, subprocess.SubprocessError) as error:
        print(f"kube_proof: {error}", file=sys.stderr, flush=True)
    try:
        if proof is not None:
            proof.stop()
    except KeyboardInterrupt:
        status = 130  # the kernel ends what is left
    return status


def main():
    """Run the proof, and remove what it leaves behind. Returns the exit status."""
    options = _options()
    if os.geteuid() != 0:
        print("kube_proof: it needs root, because it makes namespaces", file=sys.stderr)
        return 1
    run = options.folder / "run"
    try:
        folder = FleetFolder(run)
    except ServiceError as error:
        print(f"kube_proof: {error}", file=sys.stderr)
        return 1
    folder.clear()
    image.make(run / "image", options.build)
    limits = Limits()
    began = time.monotonic()
    try:
        status = cell.run(lambda: _in_cell(options, run, limits))
    finally:
        limits.remove()
    if status in (0, 130) and not options.keep:
        shutil.rmtree(run)
    else:
        print(f"logs: {run}/*/log, {run}/pods/*/log")
    print(f"{time.monotonic() - began:.0f} s in all")
    return status


if __name__ == "__main__":
    sys.exit(main())
