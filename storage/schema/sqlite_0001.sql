CREATE TABLE turnout_schema_versions (
    component TEXT PRIMARY KEY NOT NULL,
    version INTEGER NOT NULL,
    applied_at TEXT NOT NULL
);

-- started_at is microseconds since 1970-01-01 UTC; datetime(started_at / 1000000, 'unixepoch') reads it.
CREATE TABLE provider_attempts (
    attempt_id TEXT PRIMARY KEY NOT NULL CHECK (length(attempt_id) = 36),
    invocation_id TEXT NOT NULL CHECK (length(invocation_id) = 36),
    attempt_number INTEGER NOT NULL CHECK (typeof(attempt_number) = 'integer'),
    reason TEXT NOT NULL,
    started_at INTEGER NOT NULL CHECK (typeof(started_at) = 'integer'),
    metrics_scope TEXT NOT NULL,
    provider_id TEXT NOT NULL,
    provider_name TEXT NOT NULL,
    model TEXT,
    protocol TEXT,
    call_type TEXT NOT NULL,
    success INTEGER CHECK (success IN (0, 1)),
    outcome TEXT NOT NULL,
    fault TEXT,
    stream_opened INTEGER CHECK (stream_opened IN (0, 1)),
    latency_ms REAL,
    total_duration_ms REAL NOT NULL,
    queue_ms REAL NOT NULL,
    input_tokens INTEGER,
    cached_tokens INTEGER,
    output_tokens INTEGER,
    cost_usd REAL,
    billing_state TEXT NOT NULL,
    http_status INTEGER,
    error_code TEXT
);

CREATE INDEX provider_attempts_scores
    ON provider_attempts (provider_id, model, protocol, call_type, started_at);

INSERT INTO turnout_schema_versions VALUES ('metrics', 1, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
