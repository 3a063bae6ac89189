"""What a PostgreSQL database holds of the schema, and whether that can be used.

A least-privileged role can make nothing to compare with, so each version's shape is written down here; tests hold it
against what the numbered files make.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from turnout.storage.schema.facts import SchemaState, StorageBackend, Target
from turnout.storage.schema.verdict import (
    ATTEMPTS,
    FAILOVERS,
    RELATIONS,
    VERSIONS,
    Found,
    Shape,
    Verdict,
    component_versions,
    refuse_unless_current,
    verdict_of,
)

if TYPE_CHECKING:
    from psycopg import Connection

_SHAPE_1: Final[Mapping[str, Sequence[str]]] = {
    ATTEMPTS: [
        "table",
        "attempt_id uuid NOT NULL",
        "invocation_id uuid NOT NULL",
        "attempt_number integer NOT NULL",
        "reason text NOT NULL",
        "started_at timestamp with time zone NOT NULL",
        "metrics_scope text NOT NULL",
        "provider_id text NOT NULL",
        "provider_name text NOT NULL",
        "model text",
        "protocol text",
        "call_type text NOT NULL",
        "success boolean",
        "outcome text NOT NULL",
        "fault text",
        "stream_opened boolean",
        "latency_ms double precision",
        "total_duration_ms double precision NOT NULL",
        "queue_ms double precision NOT NULL",
        "input_tokens bigint",
        "cached_tokens bigint",
        "output_tokens bigint",
        "cost_usd double precision",
        "billing_state text NOT NULL",
        "http_status integer",
        "error_code text",
        "PRIMARY KEY (attempt_id)",
        "INDEX btree (provider_id, model, protocol, call_type, started_at)",
    ],
    VERSIONS: [
        "table",
        "component text NOT NULL",
        "version integer NOT NULL",
        "applied_at timestamp with time zone NOT NULL",
        "PRIMARY KEY (component)",
    ],
}
#: As the server tells of it.
_FAILOVERS_QUERY: Final = (
    "AS SELECT later.invocation_id, later.started_at, later.metrics_scope, "
    "failed.provider_id AS from_provider_id, failed.provider_name AS from_provider_name, failed.fault, "
    "later.provider_id AS to_provider_id, later.provider_name AS to_provider_name, later.success "
    "FROM (provider_attempts later JOIN provider_attempts failed ON "
    "(((failed.invocation_id = later.invocation_id) AND "
    "(failed.attempt_number = (later.attempt_number - 1))))) "
    "WHERE ((later.reason = ANY (ARRAY['failover'::text, 'stream_restart'::text, 'hedge'::text])) AND "
    "(NOT failed.success));"
)
_SHAPE_2: Final = {
    **_SHAPE_1,
    ATTEMPTS: [*_SHAPE_1[ATTEMPTS], "INDEX btree (started_at)"],
    FAILOVERS: [
        "view",
        "invocation_id uuid",
        "started_at timestamp with time zone",
        "metrics_scope text",
        "from_provider_id text",
        "from_provider_name text",
        "fault text",
        "to_provider_id text",
        "to_provider_name text",
        "success boolean",
        _FAILOVERS_QUERY,
        # Whoever reads it sees of the table what they may see of it anyway.
        "security_invoker",
    ],
}
SHAPES: Final[Mapping[int, Shape]] = {1: _SHAPE_1, 2: _SHAPE_2}

#: The catalogue can be read by every role. A relation is found as it would be in a statement: by the search path, in
#: schemas that the role may use.
_SHAPE_SQL: Final = """
WITH wanted AS (SELECT name, to_regclass(name) AS relation FROM unnest(%s::text[]) AS name)
SELECT name, part FROM (
    SELECT name, 0 AS kind, 0 AS place,
        CASE relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' ELSE concat('kind ', relkind) END AS part
    FROM wanted JOIN pg_catalog.pg_class ON pg_class.oid = relation
UNION ALL
    SELECT name, 1, attnum, concat(
        attname, ' ', format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN ' NOT NULL' END,
        CASE WHEN attidentity <> '' THEN ' IDENTITY' END, ' DEFAULT ' || pg_get_expr(adbin, adrelid)
    )
    FROM wanted JOIN pg_catalog.pg_attribute ON attrelid = relation AND attnum > 0 AND NOT attisdropped
        LEFT JOIN pg_catalog.pg_attrdef ON adrelid = attrelid AND adnum = attnum
UNION ALL
    -- From PostgreSQL 18 on, NOT NULL is a constraint as well.
    SELECT name, 2, 0, pg_get_constraintdef(pg_constraint.oid)
    FROM wanted JOIN pg_catalog.pg_constraint ON conrelid = relation AND contype <> 'n'
UNION ALL
    SELECT name, 3, 0, concat(
        CASE WHEN indisunique THEN 'UNIQUE ' END, 'INDEX ', amname, ' (',
        (SELECT string_agg(pg_get_indexdef(indexrelid, place, true), ', ' ORDER BY place)
            FROM generate_series(1, indnatts) AS place),
        ')', ' WHERE ' || pg_get_expr(indpred, indrelid)
    )
    FROM wanted JOIN pg_catalog.pg_index ON indrelid = relation AND indisvalid
        JOIN pg_catalog.pg_class ON pg_class.oid = indexrelid
        JOIN pg_catalog.pg_am ON pg_am.oid = relam
    WHERE NOT EXISTS (
        SELECT 1 FROM pg_catalog.pg_constraint WHERE conrelid = relation AND conindid = indexrelid
    )
UNION ALL
    SELECT name, 4, 0, concat('AS ', ltrim(regexp_replace(pg_get_viewdef(relation), '[[:space:]]+', ' ', 'g')))
    FROM wanted JOIN pg_catalog.pg_class ON pg_class.oid = relation AND relkind = 'v'
UNION ALL
    SELECT name, 5, 0, option_name
    FROM wanted JOIN pg_catalog.pg_class ON pg_class.oid = relation, pg_options_to_table(reloptions)
    WHERE option_name = 'security_invoker' AND option_value::boolean
) AS parts ORDER BY name, kind, place, part COLLATE "C"
"""


def shape(connection: "Connection[Any]") -> Shape:
    """What is there of the tables and views of any version. Two databases that are alike give equal shapes."""
    found: dict[str, list[str]] = {}
    for name, part in connection.execute(_SHAPE_SQL, ([*RELATIONS],)).fetchall():
        found.setdefault(name, []).append(part)
    return found


def look(connection: "Connection[Any]") -> Verdict:
    """What the database is, as far as the role sees it. Changes nothing."""
    found = shape(connection)
    if not found:
        return Verdict(
            SchemaState.ABSENT, f"shows this role no table {VERSIONS} on its search path", then=_CREATE
        )
    versions = None
    if {"component text NOT NULL", "version integer NOT NULL"} <= {*found.get(VERSIONS, ())}:
        rows = connection.execute(f"SELECT component, version FROM {VERSIONS}").fetchall()
        if not rows and connection.execute(f"SELECT row_security_active('{VERSIONS}')").fetchall() == [
            (True,)
        ]:
            return Verdict(
                SchemaState.DAMAGED, "hides its version from this role by row level security", then=_SHOW
            )
        versions = component_versions(rows)
    return verdict_of(Found(found, versions), SHAPES.__getitem__)


def validate(connection: "Connection[Any]", target: str) -> None:
    """Raise ``SchemaMismatchError`` unless the database, which is called ``target``, is of the version in use. Indexes
    that were added to it are let be, unless they are unique."""
    refuse_unless_current(Target(StorageBackend.POSTGRES, target), look(connection))


_CREATE: Final = (
    "Have a role that owns the schema run `turnout storage create --backend postgres`, and grant this one what "
    "it needs: USAGE on the schema, INSERT and SELECT on provider_attempts, SELECT on turnout_schema_versions"
)
_SHOW: Final = f"Create a policy on {VERSIONS} and on {ATTEMPTS} that lets this role see the rows"
