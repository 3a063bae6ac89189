"""A store on the PostgreSQL and the PgBouncer of Debian: encrypted, and behind a pooler of transactions."""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import urlencode

import psycopg
import pytest

from tests.postgres import PORT, SUPERUSER, PostgresServer
from tests.supervised import Supervised, system_user
from turnout.calls import CallType
from turnout.decisions.aggregates import ScoreAggregateQuery
from turnout.errors import StorageError
from turnout.storage import schema
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.rows import Row
from turnout.testing.store_conformance.histories import NOON, PARTITION, a_row

pytestmark = pytest.mark.slow

QUERY: Final = ScoreAggregateQuery((PARTITION,), CallType.STREAMING, NOON, NOON)
PASSWORD: Final = "hidden-word"


def skip_without(what: str) -> NoReturn:
    pytest.skip(f"no {what} on this machine: apt-get install postgresql pgbouncer")


def a_free_port() -> int:
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def a_certificate(folder: Path, name: str) -> Path:
    """The file of a certificate for ``localhost`` that signed itself; its key lies beside it."""
    certificate = folder / f"{name}.crt"
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    named = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(folder / f"{name}.key")]
    command = ["openssl", *made.split(), *named, "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return certificate


class TlsServer:
    """Debian's PostgreSQL, which takes encrypted connections with a password only. ``folder`` has its certificate, and
    one of another."""

    def __init__(self, folder: Path) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
        if not found or shutil.which("openssl") is None:
            skip_without("PostgreSQL that speaks TLS")
        self.authority = a_certificate(folder, "server")
        self.stranger = a_certificate(folder, "stranger")
        self.port = a_free_port()
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "ssl": "on",
            "ssl_cert_file": "server.crt",
            "ssl_key_file": "server.key",
        }
        self.server = PostgresServer(found[-1].parent, settings)
        data = self.server.folder / "data"
        for kind in ("crt", "key"):
            copied = shutil.copy(folder / f"server.{kind}", data)
            Path(copied).chmod(0o600)
            if user := system_user():
                shutil.chown(copied, user)
        (data / "pg_hba.conf").write_text("local all all trust\nhostssl all all all scram-sha-256\n")
        self.server.start()
        self.server.execute(f"ALTER ROLE {SUPERUSER} PASSWORD '{PASSWORD}'")
        self.server.execute(schema.whole(schema.StorageBackend.POSTGRES))

    def url(self, host: str = "localhost", **options: str) -> str:
        credentials = f"{SUPERUSER}:{PASSWORD}"
        return f"postgresql://{credentials}@{host}:{self.port}/{SUPERUSER}?{urlencode(options)}"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    server = TlsServer(tmp_path_factory.mktemp("certificates"))
    try:
        yield server
    finally:
        server.server.remove()


def writes(url: str, **config: Any) -> bool:
    """Whether that goes encrypted."""
    with closing(PostgresMetricsStore(url, config)) as store:
        row = a_row()
        store.record_attempts([row])
        assert row in store.query_recent(since=NOON)
        found = store._pool.run(
            lambda connection: connection.execute(
                "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            ).fetchone()
        )
        assert found is not None
        return bool(found[0])


@pytest.mark.parametrize("config", [{}, {"sslmode": "require"}])
def test_a_connection_is_encrypted_where_nothing_is_said(tls: TlsServer, config: dict[str, Any]) -> None:
    assert writes(tls.url(), **config)


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
def test_a_server_is_known_by_its_certificate(tls: TlsServer, mode: str) -> None:
    assert writes(tls.url(), sslmode=mode, sslrootcert=str(tls.authority))
    assert writes(tls.url(sslmode=mode, sslrootcert=str(tls.authority)))


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
def test_a_server_that_another_vouches_for_is_refused(tls: TlsServer, mode: str) -> None:
    with pytest.raises(StorageError, match=r"certificate verify failed.*sslrootcert") as refused:
        writes(tls.url(), sslmode=mode, sslrootcert=str(tls.stranger))
    assert PASSWORD not in str(refused.value)


def test_a_server_under_another_name_is_refused(tls: TlsServer) -> None:
    assert writes(tls.url("127.0.0.1"), sslmode="verify-ca", sslrootcert=str(tls.authority))
    with pytest.raises(StorageError, match=r"127\.0\.0\.1.*its host as it is there"):
        writes(tls.url("127.0.0.1"), sslmode="verify-full", sslrootcert=str(tls.authority))


def test_a_file_of_authorities_that_is_not_there_is_named(tls: TlsServer, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere\.pem"):
        writes(tls.url(), sslmode="verify-full", sslrootcert=str(tmp_path / "nowhere.pem"))


def test_a_wrong_password_is_told_and_not_shown(tls: TlsServer) -> None:
    with pytest.raises(StorageError, match=r"password authentication failed.*user and password") as refused:
        writes(tls.url().replace(PASSWORD, "mistaken-word"))
    assert "mistaken-word" not in str(refused.value)


def test_a_server_that_takes_no_unencrypted_connection_says_so(tls: TlsServer) -> None:
    with pytest.raises(StorageError, match="no encryption"):
        writes(tls.url(sslmode="disable"), allow_unencrypted=True)


def _knows_none_prepared(program: str) -> bool:
    """Whether it is from before 1.21, and so does not prepare statements of its own accord."""
    told = subprocess.run(
        [program, "--version"], check=True, capture_output=True, text=True, timeout=30
    ).stdout
    version = re.search(r"(\d+)\.(\d+)", told)
    return version is not None and (int(version[1]), int(version[2])) < (1, 21)


@pytest.fixture(scope="module")
def pooler(postgres_of_all_tests: PostgresServer) -> Iterator[PostgresServer]:
    """A PgBouncer with a single connection to the server, which it hands on after each transaction."""
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        skip_without("PgBouncer")
    server = postgres_of_all_tests
    server.start()
    folder = server.folder / "pooler"
    folder.mkdir()
    (folder / "users").write_text(f'"{SUPERUSER}" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"""
        [databases]
        * = host={server.folder} port={PORT}
        [pgbouncer]
        listen_port = {PORT}
        unix_socket_dir = {folder}
        auth_type = trust
        auth_file = {folder}/users
        pool_mode = transaction
        default_pool_size = 1
        {"" if _knows_none_prepared(program) else "max_prepared_statements = 0"}
        """.replace("\n        ", "\n")
    )
    if user := system_user():
        shutil.chown(folder, user)
    running = Supervised([str(program), str(folder / "pgbouncer.ini")], folder, ends_by="TERM")
    try:
        running.wait_until((folder / f".s.PGSQL.{PORT}").exists)
        yield server
    finally:
        running.stop()
        shutil.rmtree(folder)


@pytest.fixture
def pooled(pooler: PostgresServer, postgres_ledger: str) -> str:
    """The URL of a ledger by way of the pooler."""
    return postgres_ledger.replace(str(pooler.folder), f"{pooler.folder}/pooler")


def test_everything_goes_through_a_pooler_of_transactions(pooled: str) -> None:
    stores = [PostgresMetricsStore(pooled, {"pool_mode": "transaction_pooler"}) for _ in range(2)]
    rows: list[Row] = []
    # More often than the driver takes to prepare a statement, by turns on the one connection.
    for _ in range(8):
        for store in stores:
            rows.append(a_row())
            store.record_attempts(rows[-2:])
            assert {row.attempt_id for row in store.query_recent(since=NOON)} == {
                row.attempt_id for row in rows
            }
            assert store.query_score_aggregates(QUERY)[0].attempt_weight == len(rows)
            assert len([*store.iterate_recent(since=NOON)]) == len(rows)
    for store in stores:
        with pytest.raises(StorageError):
            store.record_attempts([a_row(), a_row(provider_name=None)])
        store.close()


def test_the_statement_timeout_stays_with_the_store(pooled: str, postgres_ledger: str) -> None:
    config = {"pool_mode": "transaction_pooler", "statement_timeout_seconds": 0.25}
    with closing(PostgresMetricsStore(pooled, config)) as store:
        store.record_attempts([a_row()])
        store.query_recent(since=NOON)
        shown = store._pool.run(lambda connection: connection.execute("SHOW statement_timeout").fetchone())
        assert shown == ("250ms",)
        with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as another:
            assert another.execute("SHOW statement_timeout").fetchone() == ("0",)
        with pytest.raises(StorageError, match="raise statement_timeout_seconds"), store._translated():
            store._pool.run(lambda connection: connection.execute("SELECT pg_sleep(50)"))
        store.record_attempts([a_row()])
    assert len(PostgresMetricsStore(postgres_ledger).query_recent(since=NOON)) == 2


def test_a_pooler_that_is_not_named_is_told_by_the_error(pooled: str) -> None:
    with ExitStack() as closes:
        stores = [closes.enter_context(closing(PostgresMetricsStore(pooled))) for _ in range(2)]

        def read_by_turns() -> None:
            for _ in range(20):
                for store in stores:
                    store.query_recent(since=NOON)

        with pytest.raises(StorageError, match='pool_mode="transaction_pooler"'):
            read_by_turns()
