"""Headless Chromium, driven by the DevTools protocol over two pipes.

LONGSTREAM_CHROMIUM names another program than `chromium`. The sandbox is off because it needs rights
that containers do not give; the pages are ours.
"""

import base64
import contextlib
import fcntl
import itertools
import json
import os
import queue
import subprocess
import tempfile
import threading
import time

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--disable-background-networking", "--disable-extensions", "--hide-scrollbars",
         "--remote-debugging-pipe")
TIMEOUT = 60


class Browser:
    """A Chromium with a profile of its own. The thread that made it must outlive it."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self._commands = os.pipe()
        self._messages, messages = os.pipe()
        # Chromium reads commands from file descriptor 3 and writes messages to 4. The copies do not
        # overlap with these.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (commands, messages)]

        def connect():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", os.environ.get("LONGSTREAM_CHROMIUM", "chromium"),
             *FLAGS, f"--user-data-dir={self._profile.name}/profile"],
            preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self._profile.name})
        for end in (commands, messages, *ends):
            os.close(end)
        self._ids = itertools.count(1)
        self._answers = {}
        self._pages = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        rest = b""
        while part := os.read(self._messages, 1 << 20):
            *whole, rest = (rest + part).split(b"\0")
            for text in whole:
                message = json.loads(text)
                if "id" in message:
                    self._answers.pop(message["id"]).put(message)
                elif message.get("sessionId") in self._pages:
                    self._pages[message["sessionId"]].heard(message["method"], message["params"])

    def call(self, method, session=None, **parameters):
        """Returns the result of a command. Without a session it is for the browser."""
        number, answer = next(self._ids), queue.Queue()
        self._answers[number] = answer
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        with self._lock:
            rest = json.dumps(message).encode() + b"\0"
            while rest:
                rest = rest[os.write(self._commands, rest):]
        result = answer.get(timeout=TIMEOUT)
        if "error" in result:
            raise RuntimeError(f"{method}: {result['error']}")
        return result["result"]

    def open(self, url):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session, target)
        page.load(url)
        return page

    def close(self):
        with contextlib.suppress(RuntimeError, queue.Empty):
            self.call("Browser.close")
        self._process.wait(TIMEOUT)
        os.close(self._commands)
        self._profile.cleanup()


class Page:
    """A tab. `problems`: the errors of its console, its uncaught exceptions, what its policy has
    stopped."""

    def __init__(self, browser, session, target):
        self._browser = browser
        self._session = session
        self._target = target
        self._loaded = threading.Event()
        self.problems = []

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def heard(self, method, parameters):
        if method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"] + " " + parameters["entry"].get("url", ""))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.problems.append(json.dumps(parameters["args"]))

    def load(self, url):
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self._loaded.clear()
        self.call("Page.navigate", url=url)
        if not self._loaded.wait(TIMEOUT):
            raise RuntimeError(f"{url} does not load")

    def evaluate(self, expression):
        """Returns the value of an expression, or of its promise."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression):
        """Waits until an expression is true. Returns its value, which is no element."""
        end = time.monotonic() + TIMEOUT
        while not (value := self.evaluate(expression)):
            if time.monotonic() > end:
                raise RuntimeError(f"never true: {expression}; the page: "
                                   + self.evaluate("document.body.innerText"))
            time.sleep(0.02)
        return value

    def type(self, selector, text):
        """Replaces the text of a field, as its user does."""
        self.evaluate(f"{_find(selector)}.focus(), {_find(selector)}.select()")
        if text:
            self.call("Input.insertText", text=text)
        else:
            self.press("Delete", 46)

    def press(self, key, code, text=None, shift=False):
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode=code, modifiers=8 if shift else 0, **more)

    def press_enter(self, shift=False):
        self.press("Enter", 13, "\r", shift)

    def click(self, selector):
        """Clicks in the middle of an element, which must be visible there."""
        x, y = self.evaluate(f"""(element => {{
            element.scrollIntoView({{block: "center"}});
            const box = element.getBoundingClientRect();
            const at = [box.x + box.width / 2, box.y + box.height / 2];
            const hit = document.elementFromPoint(...at);
            if (!element.contains(hit)) throw new Error("covered by " + hit?.outerHTML);
            return at;
        }})({_find(selector)})""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def choose(self, selector, value):
        self.evaluate(f"""(select => {{ select.value = {json.dumps(value)};
            select.dispatchEvent(new Event("change", {{bubbles: true}})); }})({_find(selector)})""")

    def text(self, selector):
        return self.evaluate(f"{_find(selector)}.textContent")

    def look(self, width, dark=False, height=900):
        """Makes the window as wide as `width`, light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def close(self):
        self._browser.call("Target.closeTarget", targetId=self._target)

    def picture(self, file):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"]
        with open(file, "wb") as picture:
            picture.write(base64.b64decode(data))


def _find(selector):
    return f"document.querySelector({json.dumps(selector)})"
