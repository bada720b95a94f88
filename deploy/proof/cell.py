"""A world of its own for the proof: its processes, mounts and networks end with it."""

import ctypes
import os
import signal
import subprocess
import sys
import traceback

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

BRIDGE = "pods"
NODE_ADDRESS = "10.244.0.1"  # of this machine, for pods
PODS = "10.244.0"  # pods have the addresses .2 to .250


def run(function):
    """Call a function as the first process of new namespaces. Return its exit status.

    When it ends, or when this program is killed, the kernel ends all processes that it has started.
    """
    flags = _CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET
    if _libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare: namespaces cannot be made; it needs root")
    child = os.fork()  # the first process of the new namespace
    if child == 0:
        status = 1
        try:
            os.setpgid(0, 0)  # Ctrl-C is for the parent, which passes it on once
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            _set_up()
            status = function()
        except BaseException:  # nobody else would hear of it
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: _pass_on(child, received))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _pass_on(child, number):
    try:
        os.kill(child, number)
    except ProcessLookupError:
        pass


def _set_up():
    ip("link", "set", "lo", "up")
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("addr", "add", f"{NODE_ADDRESS}/24", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")
    command("mount", "--make-rprivate", "/")
    command("mount", "-t", "proc", "proc", "/proc")
    command("mount", "-t", "tmpfs", "tmpfs", "/run")  # for the names of the pods' networks


def ip(*arguments):
    """Run `ip` of the package iproute2."""
    command("ip", *arguments)


def command(*arguments):
    """Run a program to its end. Raises OSError with what it says."""
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise OSError(f"{' '.join(arguments)}: {result.stderr.strip()}")
