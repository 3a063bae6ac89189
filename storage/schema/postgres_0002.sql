-- Who failed, and who was tried next because of it. IGNORED attempts (success NULL) did not fail.
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

-- For reading history by time.
CREATE INDEX provider_attempts_history ON provider_attempts (started_at);

UPDATE turnout_schema_versions SET version = 2, applied_at = now() WHERE component = 'metrics';
