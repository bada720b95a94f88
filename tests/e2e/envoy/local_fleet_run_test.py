"""`make fleet` as its user sees it: clients of gRPC and of HTTP, while a replica and a gateway die."""

import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(os.environ["LONGSTREAM_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["LONGSTREAM_BINARY_DIR"])
PROMPT = "def main():"
TOKENS = 4000  # of a stream: a few seconds


class LocalFleetTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/tmp")  # PostgreSQL's user must reach it
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        self.log = pathlib.Path(folder.name) / "fleet.log"
        with self.log.open("wb") as log:
            self.fleet = subprocess.Popen(
                [sys.executable, "-B", ROOT / "deploy/local/fleet.py", "--replicas", "2", "--build", BUILD,
                 "--grace", "5", "--folder", pathlib.Path(folder.name) / "fleet"],
                stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(self.end)
        self.wait_for("Ctrl-C ends the fleet", 90)
        text = self.log.read_text()
        self.pids = {name: int(pid) for name, pid in re.findall(r"^  (\S+) +pid (\d+)", text, re.MULTILINE)}
        addresses = re.search(r"(127\.0\.0\.1:\d+) for gRPC, (http://\S+) for HTTP", text)
        self.grpc, self.http = addresses.groups()
        self.prometheus = re.search(r"^  prometheus .*(http://\S+)", text, re.MULTILINE)[1]

    def end(self):
        if self.fleet.poll() is None:
            self.fleet.kill()
            self.fleet.wait()

    def wait_for(self, words, seconds):
        """Wait until the fleet has printed the words."""
        deadline = time.monotonic() + seconds
        while words not in self.log.read_text():
            if self.fleet.poll() is not None or time.monotonic() > deadline:
                self.fail(f"'{words}' does not come:\n{self.log.read_text()}")
            time.sleep(0.1)

    def ask(self, stream, tokens):
        """Return the text of a completion."""
        body = {"model": "dense", "prompt": PROMPT, "temperature": 0, "max_tokens": tokens,
                "ignore_eos": True, "stream": stream}
        request = urllib.request.Request(f"{self.http}/v1/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            if not stream:
                return json.load(answer)["choices"][0]["text"]
            events = [line[6:].strip() for line in answer if line.startswith(b"data: ")]
        self.assertEqual(events[-1], b"[DONE]")
        chunks = [json.loads(event) for event in events[:-1]]
        return "".join(chunk["choices"][0]["text"] for chunk in chunks if chunk["choices"])

    def scraped_jobs(self):
        """Return the jobs of Prometheus that it has asked for metrics."""
        with urllib.request.urlopen(f"{self.prometheus}/api/v1/query?query=up", timeout=10) as answer:
            return {sample["metric"]["job"] for sample in json.load(answer)["data"]["result"]}

    def test_clients_go_on(self):
        whole = subprocess.run(
            [BUILD / "bin/longstream", "--server", self.grpc, "generate", "-m", "dense", "-n", str(TOKENS), "-t", "0",
             "--ignore-eos", PROMPT], capture_output=True, text=True, check=True).stdout
        with concurrent.futures.ThreadPoolExecutor() as clients:
            streams = [clients.submit(self.ask, True, TOKENS) for _ in range(4)]
            time.sleep(0.7)
            self.assertFalse(all(stream.done() for stream in streams))
            os.kill(self.pids["replica-1"], signal.SIGKILL)
            for stream in streams:
                self.assertEqual(stream.result().strip(), whole.strip())
        self.wait_for("replica-1 was started again", 30)

        os.kill(self.pids["gateway-1"], signal.SIGKILL)
        self.wait_for("gateway-1 was started again", 30)
        self.assertTrue(whole.strip().startswith(self.ask(False, 20).strip()))

        deadline = time.monotonic() + 30
        while self.scraped_jobs() != {"longstream", "longstream-gateway", "envoy"}:
            self.assertLess(time.monotonic(), deadline, self.scraped_jobs())
            time.sleep(0.5)

        self.fleet.send_signal(signal.SIGINT)
        self.assertEqual(self.fleet.wait(30), 0, self.log.read_text())


if __name__ == "__main__":
    unittest.main()
