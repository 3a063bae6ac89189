"""What counts as a PostgreSQL database of the version in use."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.postgres import PostgresServer
from turnout.errors import SchemaMismatchError
from turnout.storage import schema
from turnout.storage.schema.postgres_shape import SHAPES, shape, validate


@pytest.fixture(scope="module")
def made_once(postgres_of_all_tests: PostgresServer) -> Iterator[psycopg.Connection]:
    postgres_of_all_tests.start()
    with postgres_of_all_tests.database() as url, psycopg.connect(url) as connection:
        _make(connection)
        connection.commit()
        yield connection


@pytest.fixture
def connection(made_once: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """Of the superuser, to a database as the numbered files make it. Nothing that is done to it lasts."""
    yield made_once
    made_once.rollback()


def _make(connection: psycopg.Connection, version: int = schema.VERSION) -> None:
    for step in range(1, version + 1):
        connection.execute(schema.script(schema.StorageBackend.POSTGRES, step).encode())


@pytest.mark.parametrize("version", SHAPES)
def test_the_numbered_files_make_the_shape_that_is_written_down(postgres_url: str, version: int) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        assert shape(connection) == {}
        _make(connection, version)
        assert shape(connection) == SHAPES[version]


def test_the_whole_statements_make_what_the_numbered_files_make(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(schema.CREATE_SCHEMA_VERSIONS_TABLE_POSTGRES_SQL.encode())
        connection.execute(schema.CREATE_PROVIDER_ATTEMPTS_TABLE_POSTGRES_SQL.encode())
        connection.execute(schema.CREATE_PROVIDER_FAILOVERS_VIEW_POSTGRES_SQL.encode())
        assert shape(connection) == SHAPES[schema.VERSION]
        validate(connection, "db")


def test_the_schema_is_found_by_the_search_path(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA ledger; SET search_path = ledger")
        _make(connection)
        validate(connection, "db")
        connection.execute("SET search_path = public")
        with pytest.raises(SchemaMismatchError, match="no table turnout_schema_versions"):
            validate(connection, "db")


#: The same columns, of other rows.
ANOTHER_VIEW = schema.CREATE_PROVIDER_FAILOVERS_VIEW_POSTGRES_SQL.replace(
    "CREATE VIEW", "CREATE OR REPLACE VIEW"
)
CHANGES = {
    "a column is missing": "ALTER TABLE provider_attempts DROP queue_ms CASCADE",
    "a column is added": "ALTER TABLE provider_attempts ADD prompt text",
    "a type differs": "ALTER TABLE provider_attempts ALTER output_tokens TYPE numeric",
    "a column may be null": "ALTER TABLE provider_attempts ALTER reason DROP NOT NULL",
    "a column may not be null": "ALTER TABLE provider_attempts ALTER fault SET NOT NULL",
    "a column has a default": "ALTER TABLE provider_attempts ALTER fault SET DEFAULT 'none'",
    "a column moved": (
        "ALTER TABLE turnout_schema_versions RENAME version TO v;"
        "ALTER TABLE turnout_schema_versions RENAME applied_at TO version;"
        "ALTER TABLE turnout_schema_versions RENAME v TO applied_at;"
        "ALTER TABLE turnout_schema_versions ALTER version TYPE integer USING 1"
    ),
    "the key is gone": "ALTER TABLE provider_attempts DROP CONSTRAINT provider_attempts_pkey",
    "a constraint is added": "ALTER TABLE provider_attempts ADD CHECK (queue_ms < 5)",
    "the index is gone": "DROP INDEX provider_attempts_scores",
    "the view is gone": "DROP VIEW provider_failovers",
    "the view leaves out hedges": ANOTHER_VIEW.replace(", 'hedge'", ""),
    "the view tells of successes too": ANOTHER_VIEW.replace(" AND NOT failed.success", ""),
    "the view shows all to whoever reads it": "ALTER VIEW provider_failovers RESET (security_invoker)",
    "a unique index is added": "CREATE UNIQUE INDEX ON provider_attempts (invocation_id)",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_schema_that_was_changed_is_refused(connection: psycopg.Connection, change: str) -> None:
    validate(connection, "db")
    connection.execute(change.encode())
    with pytest.raises(SchemaMismatchError, match=r"the database db .*left untouched"):
        validate(connection, "db")


@pytest.mark.parametrize("way", ["on", "true", "1"])
def test_a_view_that_its_owner_made_anew_is_the_same(connection: psycopg.Connection, way: str) -> None:
    again = ANOTHER_VIEW.replace("security_invoker = true", f"security_invoker = {way}")
    assert again != ANOTHER_VIEW or way == "true"
    connection.execute(again.encode())
    validate(connection, "db")


def test_an_index_of_the_owners_own_is_let_be(connection: psycopg.Connection) -> None:
    connection.execute("CREATE INDEX by_time ON provider_attempts (started_at DESC) WHERE success")
    validate(connection, "db")
    assert shape(connection) != SHAPES[schema.VERSION]


@pytest.mark.parametrize(
    ("versions", "told"),
    [
        ([schema.VERSION + 1], "Upgrade turnout"),
        ([schema.VERSION - 1], "turnout storage migrate --backend postgres"),
        ([], "states no version"),
    ],
)
def test_another_version_is_refused_with_what_to_do(
    connection: psycopg.Connection, versions: list[int], told: str
) -> None:
    connection.execute("DELETE FROM turnout_schema_versions")
    for version in versions:
        connection.execute("INSERT INTO turnout_schema_versions VALUES ('metrics', %s, now())", (version,))
    with pytest.raises(SchemaMismatchError, match=told):
        validate(connection, "db")


def test_a_blank_database_is_refused_with_what_to_do(postgres_url: str) -> None:
    with (
        psycopg.connect(postgres_url, autocommit=True) as connection,
        pytest.raises(SchemaMismatchError, match="turnout storage create --backend postgres"),
    ):
        validate(connection, "db")
