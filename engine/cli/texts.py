"""The help texts of the commands."""

from typing import Final


def _flowing(text: str) -> str:
    """Each paragraph on one line, to be broken where the terminal ends; one led by a backspace stays as it is."""
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join(part if part.startswith("\b") else " ".join(part.split()) for part in paragraphs)


ROOT: Final = _flowing(
    """
turnout gets an LLM call answered: over interchangeable providers, with every attempt recorded.

\b
Examples:
  turnout demo                 watch it at work; needs no key and no network
  turnout batch in.jsonl --config turnout.toml --out out.jsonl
  turnout stats --since 24h    what became of the attempts at each provider
  turnout simulate             providers to try your own code on
"""
)

DEMO: Final = _flowing(
    """
Watch turnout answer calls through providers that fail.

Starts four simulated providers on this machine: one healthy, one slow, one that answers 429 and 500, one that cuts
its answers off. Then it makes calls to them through the openai SDK, regular and streaming, Chat and Responses, and
shows what becomes of them. No key and no network is needed. Every attempt is kept in a DuckDB ledger.

\b
Exit codes: 0 every call got a whole answer, 1 some did not or nobody read the output, 130 Ctrl-C.

\b
Examples:
  turnout demo
  turnout demo --calls 1000
  turnout demo --database /tmp/demo.duckdb --seed 7
"""
)

BATCH: Final = _flowing(
    """
Run a file of calls through the providers of a configuration.

IN holds OpenAI batch input, one JSON object a line: custom_id, method "POST", url "/v1/chat/completions" or
"/v1/responses", and body. OUT gets OpenAI batch output, one line for each line of IN, in the order in which they end.
It is private (mode 0600) and has each line as soon as its call ends: whatever stops the batch, what is done is kept.

[bold]The model in body is replaced[/bold] by that of the provider which answers. "stream": true is refused.

A line of OUT has an id ("batch_req_" and the ledger's invocation_id, without its dashes), the custom_id, a response
and an error:

\b
  answered           response {200, request_id, body}              error null
  refused over HTTP  response {its status, request_id, its error}  error null
  failed otherwise   response null               error {code, message}
  bad line in IN     response null               error {invalid_line, message}

The code of a failure is its kind (timeout, connection, ...), deadline_exceeded or no_eligible_provider. A custom_id
given twice belongs to its first line; the second is a bad line, and its error has no custom_id.

--resume keeps the answers in OUT and runs all other lines of IN, those that failed before too. While every provider
is benched, lines fail at once: for a provider that answers 429 soon, lower --workers or its max_concurrency, or set
its min_interval_seconds. Of several providers each has at most half of the workers, or its max_concurrency if set.

\b
Exit codes: 0 all answered, 1 some were not, 2 nothing was run, 130 Ctrl-C.

\b
Examples:
  turnout batch in.jsonl --config turnout.toml --out out.jsonl
  turnout batch in.jsonl --config turnout.toml --out out.jsonl --workers 64
  turnout batch in.jsonl --config turnout.toml --out out.jsonl --resume
  zcat in.jsonl.gz | turnout batch - --config turnout.toml --out - > out.jsonl

\b
A configuration, turnout.toml:
  metrics_scope = "my-batch"
  \\[\\[providers]]
  provider_id = "openai-main"
  name = "OpenAI"
  protocol = "openai_chat"        # openai_responses for /v1/responses
  model = "gpt-4.1-mini"
  api_key_env = "OPENAI_API_KEY"
  # and, where needed: base_url, timeout_seconds, max_concurrency,
  # min_interval_seconds, extra_body
"""
)

STATS: Final = _flowing(
    """
Tell what became of the attempts at each provider, from a router's ledger.

For each provider: how many attempts there were; which share of those that ended succeeded (cancelled ones count in
neither); the 50th and 95th percentile of the latency of successful calls, and of streams to their first chunk (TTFT);
failures by their kind; tokens and cost as far as they are known (- is unknown, never zero); and failovers: attempts
at another provider that were made because one here failed.

The ledger is the metrics_store of --config, or the database that --backend and --path name (a PostgreSQL's URL is in
the environment's TURNOUT_POSTGRES_URL), or else the default one. It is only read: nothing is made or changed. A time
without a zone is local. A DuckDB file can be read while no other process has it open.

--json prints one object with since, until, scope, call_type and providers; its keys stay.

\b
Exit codes: 0 told, also that there are no attempts, 1 the ledger cannot be
read or nobody read the output, 2 there is no such ledger or the arguments or
the configuration are wrong, 3 another process holds the ledger, 130 Ctrl-C.

\b
Examples:
  turnout stats
  turnout stats --since 7d --scope my-app:production
  turnout stats --config turnout.toml --since 2026-03-01 --until 2026-03-02
  turnout stats --backend sqlite --path metrics.sqlite --call-type streaming
  turnout stats --backend postgres --provider openai-production
  turnout stats --since 1h --json | jq .providers
"""
)

SIMULATE: Final = _flowing(
    """
Serve simulated providers until Ctrl-C, to try code on: one for each everyday fault.

They speak OpenAI Chat Completions and Responses over HTTP on 127.0.0.1, plain and streaming; any key will do. Their
names are healthy, slow, flaky, down, resetting, cutting, stalling, silent, trickling and breaking; what each does and
its address are told at the start. Faults of your own are scripted in Python with turnout.testing.simulator.

\b
Exit codes: 0 Ctrl-C, 1 the port cannot be listened on or nobody reads the output, 130 Ctrl-C before it served.

\b
Examples:
  turnout simulate
  turnout simulate --port 9000
  turnout simulate --port 0        any free port
"""
)
