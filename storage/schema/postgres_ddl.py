"""The PostgreSQL schema of the current version, whole, for those who have migration tooling of their own. What these
three make, in this order, is what the numbered files make one after the other."""

from typing import Final

CREATE_SCHEMA_VERSIONS_TABLE_POSTGRES_SQL: Final = """\
CREATE TABLE turnout_schema_versions (
    component text PRIMARY KEY,
    version integer NOT NULL,
    applied_at timestamp with time zone NOT NULL
);

INSERT INTO turnout_schema_versions VALUES ('metrics', 2, now());
"""

CREATE_PROVIDER_ATTEMPTS_TABLE_POSTGRES_SQL: Final = """\
CREATE TABLE provider_attempts (
    attempt_id uuid PRIMARY KEY,
    invocation_id uuid NOT NULL,
    attempt_number integer NOT NULL,
    reason text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    metrics_scope text NOT NULL,
    provider_id text NOT NULL,
    provider_name text NOT NULL,
    model text,
    protocol text,
    call_type text NOT NULL,
    success boolean,
    outcome text NOT NULL,
    fault text,
    stream_opened boolean,
    latency_ms double precision,
    total_duration_ms double precision NOT NULL,
    queue_ms double precision NOT NULL,
    input_tokens bigint,
    cached_tokens bigint,
    output_tokens bigint,
    cost_usd double precision,
    billing_state text NOT NULL,
    http_status integer,
    error_code text
);

CREATE INDEX provider_attempts_scores
    ON provider_attempts (provider_id, model, protocol, call_type, started_at);

CREATE INDEX provider_attempts_history ON provider_attempts (started_at);
"""

CREATE_PROVIDER_FAILOVERS_VIEW_POSTGRES_SQL: Final = """\
CREATE VIEW provider_failovers WITH (security_invoker = true) AS
SELECT
    later.invocation_id,
    later.started_at,
    later.metrics_scope,
    failed.provider_id AS from_provider_id,
    failed.provider_name AS from_provider_name,
    failed.fault,
    later.provider_id AS to_provider_id,
    later.provider_name AS to_provider_name,
    later.success
FROM provider_attempts AS later
JOIN provider_attempts AS failed
    ON failed.invocation_id = later.invocation_id AND failed.attempt_number = later.attempt_number - 1
WHERE later.reason IN ('failover', 'stream_restart', 'hedge') AND NOT failed.success;
"""
