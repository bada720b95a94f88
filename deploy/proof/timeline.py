"""The events of a run, for people and for the plot."""

import threading
import time


class Timeline:
    """Events with their times. Thread-safe."""

    def __init__(self):
        """Begin now."""
        self.begin = time.time()
        self.events = []  # (seconds since the begin, kind, text)
        self._lock = threading.Lock()

    def now(self):
        """Return the seconds since the begin."""
        return time.time() - self.begin

    def say(self, text, kind=""):
        """Add an event, and print it."""
        with self._lock:
            self.events.append((self.now(), kind, text))
            print(f"  {self.now():6.1f} s  {text}", flush=True)
