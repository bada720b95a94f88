"""longstream-server with the demo models, as a process that a test kills and starts again."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading

from private_host import private_host

BUILD = pathlib.Path(os.environ["LONGSTREAM_BINARY_DIR"])
SOURCE = pathlib.Path(os.environ["LONGSTREAM_SOURCE_DIR"])
MODELS = ("dense", "hwfa2", "hypenet")

# The demo models get this template, so that they accept messages. It begins their thoughts if the
# request asks for some, and leaves out earlier ones.
TEMPLATE = ("{% for m in messages %}# {{ m.role }}\n{{ (m.content or '').split('</think>')[-1] }}\n"
            "{% endfor %}{% if add_generation_prompt %}# assistant\n"
            "{{ '<think>\n' if enable_thinking or reasoning_effort == 'low' }}{% endif %}")


class ServerProcess:
    """A server with a store, or without. Each start has the same address and the same store.

    `arguments`: further ones. `http_port`: that of --http-listen, or 0.
    """

    def __init__(self, arguments=(), has_store=True):
        self._folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._folder.name)
        self._port = 0
        self.http_port = 0
        self._arguments = ["--metrics-listen", f"{private_host()}:0", "--threads", "2", *arguments]
        if has_store:
            self._arguments += ["--store", str(folder / "store")]
        for model in MODELS:
            self._arguments += ["--model", f"{model}={self._with_template(folder, model)}"]
        self.starts = 0
        self.start()

    @staticmethod
    def _with_template(folder, model):
        copy = folder / model
        copy.mkdir()
        for file in (SOURCE / "models/demo" / model).iterdir():
            (copy / file.name).symlink_to(file)
        (copy / "chat_template.jinja").write_text(TEMPLATE)
        return copy

    @property
    def address(self):
        return f"{private_host()}:{self._port}"

    def start(self):
        """Starts the server. The thread that called this must outlive it."""
        # A test that is killed leaves no server behind.
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", BUILD / "bin/longstream-server", *self._arguments,
             "--listen", self.address], stderr=subprocess.PIPE, text=True)
        lines = []
        for line in self._process.stderr:
            lines.append(line)
            found = re.search(r'"event":"listening","port":"(\d+)"', line)
            if found:
                self._port = int(found[1])
                self.http_port = int(re.search(r'"http_port":"(\d+)"', line)[1])
                break
        else:
            raise RuntimeError("the server does not listen: " + "".join(lines))
        self.starts += 1
        threading.Thread(target=self._drain, args=(self._process.stderr,), daemon=True).start()

    @staticmethod
    def _drain(log):
        with contextlib.suppress(ValueError), log:
            for _ in log:
                pass

    def kill(self):
        """Ends the server with SIGKILL."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self):
        self.kill()
        self._folder.cleanup()
