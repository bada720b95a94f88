#!/usr/bin/env python3
"""Measures what a part of the server costs: runs `longstream bench` on two servers in turn, one with
the part and one without, and prints ratios (with / without).

    server_cost.py security --model models/demo/hypenet --streams 16 --pairs 20
    server_cost.py store

security: mTLS, a token and tenants. store: sessions in a store in a directory, with snapshots.

A pair is one run on each server, whose order changes from pair to pair. Two ratios are printed, each
as the geometric mean over the pairs with its 95 % interval: the generated tokens per second, which
other programs on the machine disturb, and the processor seconds of the server per token, which they
hardly disturb. Then, how much later a turn ends after its last token: the median of the differences
of the pairs' medians.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from compare import ProgramError, process_seconds

MODEL = "m"
# The 0.975 quantile of Student's distribution by degrees of freedom. Beyond the last one: normal.
QUANTILES = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179,
             2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
             2.060, 2.056, 2.052, 2.048, 2.045, 2.042]


def interval(ratios):
    """Returns the geometric mean and the ends of its 95 % interval. One ratio has no interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.mean(logs)
    if len(logs) < 2:
        return math.exp(mean), math.nan, math.nan
    freedom = len(logs) - 1
    quantile = QUANTILES[freedom - 1] if freedom <= len(QUANTILES) else 1.96
    half = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def ratios_of(pairs, key):
    return [changed[key] / plain[key] for plain, changed in pairs]


def openssl(directory, *arguments):
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


def sign(directory, name, extensions=""):
    """Makes NAME.key and NAME.pem, signed by the authority."""
    openssl(directory, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    (directory / "extensions").write_text(extensions, encoding="utf-8")
    openssl(directory, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "extensions", "-out", f"{name}.pem")


def secure(build, directory):
    """Makes certificates, a token and a configuration. Returns the flags of the server and of the
    client."""
    openssl(directory, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    sign(directory, "server", "subjectAltName=IP:127.0.0.1\n")
    sign(directory, "client")
    made = json.loads(subprocess.run(
        [str(build / "bin/longstream"), "--json", "token", "new", "--name", "bench", "--role",
         "client", "--tenant", "bench"], check=True, capture_output=True, text=True).stdout)
    (directory / "token").write_text(made["token"] + "\n", encoding="utf-8")
    (directory / "credentials").write_text(made["row"] + "\n", encoding="utf-8")
    for name in ("token", "credentials"):
        (directory / name).chmod(0o600)
    (directory / "server.yaml").write_text(
        f"tls: {{certificate: {directory}/server.pem, key: {directory}/server.key,"
        f" client_ca: {directory}/ca.pem, client_certificates: required}}\n"
        f"security: {{credentials: {directory}/credentials}}\n"
        "tenants:\n"
        "  - {name: bench, sessions: 1000, session_bytes: 8GiB, turns: 1000}\n"
        "  - {name: other}\n", encoding="utf-8")
    return (["--config", str(directory / "server.yaml")],
            ["--ca", str(directory / "ca.pem"), "--cert", str(directory / "client.pem"),
             "--key", str(directory / "client.key"), "--token-file", str(directory / "token")])


def keep(_build, directory):
    """Returns the flags of a server with a store and of its client."""
    return ["--store", str(directory / "store")], []


PARTS = {"security": secure, "store": keep}


class Server:
    """Runs longstream-server with one model, and `longstream bench` on it."""

    def __init__(self, arguments, log, server_flags=(), client_flags=()):
        self._log = log
        self._arguments = arguments
        with open(log, "w", encoding="utf-8") as file:
            self._process = subprocess.Popen(
                [str(arguments.build / "bin/longstream-server"), *server_flags,
                 "--model", f"{MODEL}={arguments.model.resolve()}", "--listen", "127.0.0.1:0",
                 "--metrics-listen", "", "--threads", str(arguments.threads)], stderr=file)
        try:
            self._client = [str(arguments.build / "bin/longstream"), "--server",
                            f"127.0.0.1:{self._port()}", *client_flags, "--wait", "300", "--json"]
            self._bench(arguments.streams)  # waits until the model is loaded
        except BaseException:
            self.close()
            raise

    def _port(self):
        while self._process.poll() is None:
            for line in self._log.read_text(encoding="utf-8").splitlines(keepends=True):
                if line.endswith("\n") and json.loads(line)["event"] == "listening":
                    return json.loads(line)["port"]
            time.sleep(0.05)
        raise ProgramError(f"longstream-server: {self._log.read_text(encoding='utf-8')}")

    def _bench(self, requests):
        words = ["bench", "-m", MODEL, "--streams", self._arguments.streams,
                 "--requests", requests, "--prompt-tokens", self._arguments.prompt_tokens,
                 "--output-tokens", self._arguments.output_tokens, "--temperature", 0]
        done = subprocess.run(self._client + [str(word) for word in words], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            raise ProgramError(f"longstream bench: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def run(self):
        """Returns the figures of one run."""
        begin = process_seconds(self._process.pid)
        report = self._bench(self._arguments.requests)
        seconds = process_seconds(self._process.pid) - begin
        rate = report["generated_tokens_per_second"]
        return {"tokens_per_second": rate, "cpu_per_token": seconds / (rate * report["seconds"]),
                "finish_ms": report["finish_latency_ms"]["p50"]}

    def close(self):
        self._process.terminate()
        self._process.wait()


def measure(servers, num_pairs, report=print):
    """Returns pairs (without, with) of figures."""
    pairs = []
    for number in range(num_pairs):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        figures = {which: servers[which].run() for which in order}
        pairs.append((figures[0], figures[1]))
        report(f"pair {number + 1}: with / without:"
               f" tokens/s {ratios_of(pairs, 'tokens_per_second')[-1]:.3f},"
               f" CPU seconds per token {ratios_of(pairs, 'cpu_per_token')[-1]:.3f}")
    return pairs


def print_summary(pairs):
    for title, key, scale, unit in (
            ("tokens/s", "tokens_per_second", 1, ""),
            ("CPU seconds of the server per token", "cpu_per_token", 1e6, " µs")):
        mean, low, high = interval(ratios_of(pairs, key))
        plain, changed = (scale * statistics.median(pair[i][key] for pair in pairs) for i in (0, 1))
        print(f"{title}: with / without {mean:.3f} (95 %: {low:.3f} to {high:.3f};"
              f" medians {changed:.1f}{unit} and {plain:.1f}{unit})")
    later = statistics.median(changed["finish_ms"] - plain["finish_ms"] for plain, changed in pairs)
    print(f"a turn ends {later:.2f} ms later after its last token (median of the pairs)")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=sorted(PARTS))
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--model", type=pathlib.Path, default=pathlib.Path("models/demo/hypenet"))
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--requests", type=int, default=64, help="of one run")
    parser.add_argument("--prompt-tokens", type=int, default=32)
    parser.add_argument("--output-tokens", type=int, default=256)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2, help="of each server")
    arguments = parser.parse_args()
    servers = []
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        try:
            servers.append(Server(arguments, directory / "plain.log"))
            servers.append(Server(arguments, directory / "changed.log",
                                  *PARTS[arguments.part](arguments.build, directory)))
            print_summary(measure(servers, arguments.pairs, lambda text: print(text, flush=True)))
        except (ProgramError, subprocess.CalledProcessError) as error:
            sys.exit(f"server_cost.py: {error}")
        finally:
            for server in servers:
                server.close()


if __name__ == "__main__":
    main()
