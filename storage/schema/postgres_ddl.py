"""The PostgreSQL tables of the current version, whole, for those who have migration tooling of their own. What these
two make is what the numbered files make one after the other."""

from typing import Final

CREATE_SCHEMA_VERSIONS_TABLE_POSTGRES_SQL: Final = """\
CREATE TABLE turnout_schema_versions (
    component text PRIMARY KEY,
    version integer NOT NULL,
    applied_at timestamp with time zone NOT NULL
);

INSERT INTO turnout_schema_versions VALUES ('metrics', 1, now());
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
"""
