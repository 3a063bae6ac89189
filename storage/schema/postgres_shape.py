"""What a PostgreSQL database holds of the schema, and whether that can be used.

A least-privileged role can make nothing to compare with, so each version's shape is written down here; tests hold it
against what the numbered files make.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from turnout.errors import SchemaMismatchError
from turnout.storage import schema

if TYPE_CHECKING:
    from psycopg import Connection

#: What each table or view is made of, as text: its kind, its columns in order, then constraints and indexes.
Shape = dict[str, list[str]]

_VERSIONS: Final = "turnout_schema_versions"
_ATTEMPTS: Final = "provider_attempts"

SHAPES: Final[Mapping[int, Shape]] = {
    1: {
        _ATTEMPTS: [
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
        _VERSIONS: [
            "table",
            "component text NOT NULL",
            "version integer NOT NULL",
            "applied_at timestamp with time zone NOT NULL",
            "PRIMARY KEY (component)",
        ],
    },
}

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
) AS parts ORDER BY name, kind, place, part COLLATE "C"
"""


def shape(connection: "Connection[Any]") -> Shape:
    """What is there of the tables and views of any version. Two databases that are alike give equal shapes."""
    names = sorted({name for known in SHAPES.values() for name in known})
    found: Shape = {}
    for name, part in connection.execute(_SHAPE_SQL, (names,)).fetchall():
        found.setdefault(name, []).append(part)
    return found


def validate(connection: "Connection[Any]", target: str) -> None:
    """Raise ``SchemaMismatchError`` unless the database, which is called ``target``, is of the version in use. Indexes
    that were added to it are let be, unless they are unique."""
    found, expected = shape(connection), SHAPES[schema.VERSION]
    for table in (_VERSIONS, _ATTEMPTS):
        if table not in found:
            _refuse(target, f"shows this role no table {table} on its search path", _CREATE)
    _require_version(connection, target)
    for name, parts in expected.items():
        there = found.get(name, [])
        missing = [part for part in parts if part not in there]
        added = [part for part in there if part not in parts and not part.startswith("INDEX ")]
        if missing or added or _in_order(there, parts) != parts:
            told = [*(f"no {part}" for part in missing), *added] or ["columns in another order"]
            what = f"{name} is not that of version {schema.VERSION}: {'; '.join(told)}"
            _refuse(target, f"has the tables of something else ({what})", _ELSEWHERE)


_CREATE: Final = (
    "Have a role that owns the schema run `turnout storage create --backend postgres`, and grant this one what "
    "it needs: USAGE on the schema, INSERT and SELECT on provider_attempts, SELECT on turnout_schema_versions"
)
_MIGRATE: Final = "Stop what writes to it and run `turnout storage migrate --backend postgres`"
_UPGRADE: Final = "Upgrade turnout here"
_ELSEWHERE: Final = (
    "Give the store another database, or a search path of its own; `turnout storage inspect` tells more"
)


def _require_version(connection: "Connection[Any]", target: str) -> None:
    sql = f"SELECT version FROM {_VERSIONS} WHERE component = %s"
    versions = [version for (version,) in connection.execute(sql, (schema.COMPONENT,)).fetchall()]
    match versions:
        case []:
            hidden = connection.execute(f"SELECT row_security_active('{_VERSIONS}')").fetchone()
            if hidden and hidden[0]:
                grant = f"Create a policy on {_VERSIONS} and on {_ATTEMPTS} that lets this role see the rows"
                _refuse(target, "hides its version from this role by row level security", grant)
            _refuse(target, f"states no version of the turnout {schema.COMPONENT} schema", _ELSEWHERE)
        case [version] if version > schema.VERSION:
            _refuse(target, f"is of version {version}; this turnout knows version {schema.VERSION}", _UPGRADE)
        case [version] if version < schema.VERSION:
            _refuse(target, f"is of version {version}; this turnout uses version {schema.VERSION}", _MIGRATE)


def _in_order(there: list[str], parts: list[str]) -> list[str]:
    return [part for part in dict.fromkeys(there) if part in parts]


def _refuse(target: str, why: str, then: str) -> NoReturn:
    raise SchemaMismatchError(f"the database {target} {why}; it was left untouched. {then}")
