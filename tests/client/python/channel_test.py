"""TLS, client certificates and bearer tokens, with a server of grpcio."""

import asyncio
import os
import pathlib
import subprocess
import tempfile
import unittest
import unittest.mock

import grpc

import longstream
from private_host import private_host
from scripted_server import ScriptedServer

QUICK = longstream.RetryPolicy(timeout=0)


class Certificates:
    """An authority, and the certificates that it has signed."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.openssl("req", "-x509", "-nodes", *self.new_key("authority"), "-days", "2",
                     "-subj", "/CN=authority", "-out", "authority.pem")
        self.authority = self.read("authority.pem")

    def sign(self, name):
        """Returns the key and the certificate of this test's host."""
        self.openssl("req", "-nodes", *self.new_key(name), "-subj", f"/CN={name}",
                     "-out", f"{name}.csr")
        extensions = self.directory / "extensions"
        extensions.write_text(f"subjectAltName=IP:{private_host()}\n")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "authority.pem",
                     "-CAkey", "authority.key", "-CAcreateserial", "-days", "2",
                     "-extfile", str(extensions), "-out", f"{name}.pem")
        return self.read(f"{name}.key"), self.read(f"{name}.pem")

    @staticmethod
    def new_key(name):
        return "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", f"{name}.key"

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.directory, check=True,
                       capture_output=True)

    def read(self, name):
        return (self.directory / name).read_bytes()


class ChannelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.certificates = Certificates(directory)
        cls.server_pair = cls.certificates.sign("server")
        cls.client_pair = cls.certificates.sign("client")

    def serve(self, mutual=False):
        credentials = grpc.ssl_server_credentials(
            [self.server_pair], self.certificates.authority if mutual else None, mutual)
        server = ScriptedServer(credentials=credentials)
        self.addCleanup(server.stop)
        return server

    def trusting(self):
        return grpc.ssl_channel_credentials(self.certificates.authority)

    def open(self, address, **arguments):
        with longstream.Client(address, retry=QUICK, **arguments) as client:
            client.session("model")

    def test_tls(self):
        self.open(self.serve().address, credentials=self.trusting())

    def test_a_server_that_is_not_trusted_is_refused(self):
        server = self.serve()
        for arguments in ({}, {"credentials": grpc.ssl_channel_credentials()}):
            with self.assertRaises(longstream.UnavailableError):
                self.open(server.address, **arguments)

    def test_client_certificates(self):
        server = self.serve(mutual=True)
        key, certificate = self.client_pair
        self.open(server.address, credentials=grpc.ssl_channel_credentials(
            self.certificates.authority, key, certificate))
        with self.assertRaises(longstream.UnavailableError):
            self.open(server.address, credentials=self.trusting())

    def test_a_token_goes_with_each_call(self):
        server = self.serve()
        self.open(server.address, credentials=self.trusting(), token="secret")
        tokens = iter(["first", "second"])
        with longstream.Client(server.address, credentials=self.trusting(),
                               token=lambda: next(tokens)) as client:
            client.session("model")
            client.session("model")
        self.assertEqual([each["authorization"] for each in server.metadata],
                         ["Bearer secret", "Bearer first", "Bearer second"])

    def test_a_token_that_cannot_be_had_is_an_error(self):
        def token():
            raise OSError("no such file")

        with self.assertRaisesRegex(longstream.LongstreamError, "no such file"):
            self.open(self.serve().address, credentials=self.trusting(), token=token)

    def test_a_token_needs_tls(self):
        for kind in (longstream.Client, longstream.AsyncClient):
            with self.assertRaisesRegex(ValueError, "a token needs TLS"):
                kind("127.0.0.1:1", token="secret")

    def test_what_is_no_address_is_refused_at_once(self):
        for kind in (longstream.Client, longstream.AsyncClient):
            for target in ("", " ", "localhost", "127.0.0.1", "http://127.0.0.1:50051", "a:0", "a:65536",
                           "a:050", ":50051", "a:x", "/path"):
                with self.assertRaisesRegex(
                        ValueError, f"^target: expected host:port, .* or unix:PATH, found '{target}'$"):
                    kind(target)
            with self.assertRaisesRegex(TypeError, "^target: expected host:port, .*, found 50051$"):
                kind(50051)
        for target in ("localhost:1", "[::1]:65535", "unix:/path", "dns:///host:1", "ipv4:127.0.0.1:1"):
            longstream.Client(target).close()

    def test_the_environment(self):
        server = self.serve(mutual=True)
        directory = self.certificates.directory
        token = directory / "token"
        token.write_text("secret\n")
        variables = {"LONGSTREAM_CA": directory / "authority.pem",
                     "LONGSTREAM_CERT": directory / "client.pem",
                     "LONGSTREAM_KEY": directory / "client.key",
                     "LONGSTREAM_TOKEN_FILE": token}
        with unittest.mock.patch.dict(os.environ, {k: str(v) for k, v in variables.items()}):
            self.open(server.address)
            self.open(server.address, token="explicit")
        with unittest.mock.patch.dict(os.environ, {"LONGSTREAM_TOKEN": "secret"}):
            with self.assertRaisesRegex(ValueError, "^LONGSTREAM_TOKEN: a token needs TLS"):
                longstream.Client("127.0.0.1:1")
        with unittest.mock.patch.dict(os.environ, {"LONGSTREAM_TLS": "1"}):
            with self.assertRaises(longstream.UnavailableError):
                self.open(server.address)  # the system does not know the authority
        self.assertEqual([each["authorization"] for each in server.metadata],
                         ["Bearer secret", "Bearer explicit"])

    def test_an_error_names_the_variable(self):
        directory = self.certificates.directory
        missing, empty = str(directory / "missing"), directory / "empty"
        empty.write_bytes(b"")
        split = directory / "split"
        split.write_text("one two\n")
        ca = {"LONGSTREAM_CA": str(directory / "authority.pem")}
        for variables, message in (
            ({"LONGSTREAM_CA": missing}, "^LONGSTREAM_CA: .*No such file.*missing"),
            ({"LONGSTREAM_CA": str(directory)}, "^LONGSTREAM_CA: .*Is a directory"),
            ({"LONGSTREAM_CA": str(empty)}, "^LONGSTREAM_CA: .*empty is empty$"),
            ({"LONGSTREAM_CERT": missing, "LONGSTREAM_KEY": str(directory / "client.key")},
             "^LONGSTREAM_CERT: .*No such file"),
            ({"LONGSTREAM_CERT": str(directory / "client.pem"), "LONGSTREAM_KEY": missing},
             "^LONGSTREAM_KEY: .*No such file"),
            ({"LONGSTREAM_KEY": missing}, "^LONGSTREAM_CERT and LONGSTREAM_KEY: set both"),
            ({"LONGSTREAM_TLS": "maybe"}, "^LONGSTREAM_TLS: expected one of 1, .*found 'maybe'$"),
            ({**ca, "LONGSTREAM_TOKEN": "one two"},
             "^LONGSTREAM_TOKEN: the token has a character that is not allowed$"),
            ({**ca, "LONGSTREAM_TOKEN": " "}, "^LONGSTREAM_TOKEN: the token is empty$"),
            ({**ca, "LONGSTREAM_TOKEN_FILE": missing}, "^LONGSTREAM_TOKEN_FILE: .*No such file"),
            ({**ca, "LONGSTREAM_TOKEN_FILE": str(split)},
             "^LONGSTREAM_TOKEN_FILE: the token has a character that is not allowed$"),
            ({"LONGSTREAM_TOKEN_FILE": str(directory / "client.key")}, "^LONGSTREAM_TOKEN_FILE: "),
        ):
            with (self.subTest(variables), unittest.mock.patch.dict(os.environ, variables),
                  self.assertRaisesRegex(ValueError, message)):
                longstream.Client("127.0.0.1:1")

    def test_a_token_file_that_goes_away_is_named(self):
        token = self.certificates.directory / "token that goes"
        token.write_text("secret\n")
        variables = {"LONGSTREAM_TOKEN_FILE": str(token)}
        with unittest.mock.patch.dict(os.environ, variables):
            client = longstream.Client(self.serve().address, credentials=self.trusting(),
                                       retry=QUICK)
        with client:
            token.unlink()
            with self.assertRaisesRegex(longstream.LongstreamError, "LONGSTREAM_TOKEN_FILE: "):
                client.session("model")

    def test_the_async_client(self):
        server = self.serve()

        async def open_session():
            async with longstream.AsyncClient(server.address, credentials=self.trusting(),
                                              token="secret") as client:
                await client.session("model")

        asyncio.run(open_session())
        self.assertEqual(server.metadata[0]["authorization"], "Bearer secret")

    def test_channel_options(self):
        server = self.serve()
        self.open(server.address, credentials=self.trusting(),
                  channel_options=[("grpc.primary_user_agent", "my-program")])
        self.assertIn("my-program", server.metadata[0]["user-agent"])


if __name__ == "__main__":
    unittest.main()
