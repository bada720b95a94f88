"""The PostgreSQL server that the replicas share, on the network of the pods."""

import secrets

from cell import NODE_ADDRESS, PODS
from postgres import Postgres

HOST = "postgres.database"  # its name for pods


class Database(Postgres):
    """Asks for a password."""

    def __init__(self, folder, replicas):
        super().__init__(folder, replicas)
        self.password = secrets.token_hex(16)

    def command(self):
        """Return the program and its arguments."""
        command = super().command()
        return [f"listen_addresses={NODE_ADDRESS}" if part.startswith("listen_addresses=") else part
                for part in command]

    def start(self):
        """Start PostgreSQL, and let pods in. It must have no data yet."""
        super().start()
        with (self._data / "pg_hba.conf").open("a", encoding="utf-8") as file:
            file.write(f"host longstream longstream {PODS}.0/24 scram-sha-256\n")
        sql = (f"ALTER USER longstream PASSWORD '{self.password}'; SELECT pg_reload_conf();")
        self.run([self._program("psql"), "-h", str(self._sockets), "-U", "longstream", "-q", "-c",
                  sql, "longstream"])
