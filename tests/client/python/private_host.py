"""A loopback address that no other process uses.

A server that is started again on it finds its port free, and no client reaches another server
meanwhile.
"""

import os


def private_host():
    pid = os.getpid()
    return f"127.{1 + (pid >> 14) % 254}.{(pid >> 7) & 127}.{1 + (pid & 127)}"
