CREATE TABLE turnout_schema_versions (
    component VARCHAR PRIMARY KEY,
    version INTEGER NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE provider_attempts (
    attempt_id UUID PRIMARY KEY,
    invocation_id UUID NOT NULL,
    attempt_number INTEGER NOT NULL,
    reason VARCHAR NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    metrics_scope VARCHAR NOT NULL,
    provider_id VARCHAR NOT NULL,
    provider_name VARCHAR NOT NULL,
    model VARCHAR,
    protocol VARCHAR,
    call_type VARCHAR NOT NULL,
    success BOOLEAN,
    outcome VARCHAR NOT NULL,
    fault VARCHAR,
    stream_opened BOOLEAN,
    latency_ms DOUBLE,
    total_duration_ms DOUBLE NOT NULL,
    queue_ms DOUBLE NOT NULL,
    input_tokens BIGINT,
    cached_tokens BIGINT,
    output_tokens BIGINT,
    cost_usd DOUBLE,
    billing_state VARCHAR NOT NULL,
    http_status INTEGER,
    error_code VARCHAR
);

INSERT INTO turnout_schema_versions VALUES ('metrics', 1, now());
