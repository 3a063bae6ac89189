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
  turnout storage inspect --backend duckdb --default
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
the environment's TURNOUT_POSTGRES_URL), or else the default one. It is only read: nothing is made or changed. The last
24 hours are told, or the 24 before --until. A time without a zone is local. A DuckDB file can be read while no other
process has it open.

--json prints one object with since, until, scope, call_type and providers; its keys stay.

\b
Exit codes: 0 told, also that there are no attempts, 1 nobody read the output,
2 there is no such ledger, or the arguments are wrong, 3 another has it open,
4 it is no ledger of this version, 6 its driver is not installed, 7 it cannot
be reached or failed, 130 Ctrl-C.

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

_WHERE: Final = """
One of --default, --path and --url says which database: DuckDB takes --default (~/.turnout/metrics.duckdb) or --path,
SQLite takes --path. PostgreSQL takes the URL that the environment's TURNOUT_POSTGRES_URL has, as also with --default; a
--url on the command line would leave its password in the shell's history and show it to everyone in the list of
processes.
"""
_CODES: Final = """
1 nobody read the output, 2 the arguments are wrong, 3 another has it open,
4 refused and left untouched, 6 its driver is not installed, 7 it cannot be
reached or failed, 130 Ctrl-C.
"""

STORAGE: Final = _flowing(
    """
Inspect, create and migrate the databases that routers keep their ledgers in.

A router makes a DuckDB or SQLite file by itself where there is none, and changes none that is there; in PostgreSQL it
makes nothing. So a PostgreSQL's tables are created here, and a database that an earlier turnout made is migrated here.

\b
Examples:
  turnout storage inspect --backend duckdb --default
  turnout storage create --backend postgres
  turnout storage migrate --backend sqlite --path a.sqlite --backup old
"""
)

STORAGE_INSPECT: Final = _flowing(
    f"""
Tell what a database is, without creating or changing anything.

Its state is absent, empty (no tables), current (this turnout can use it), outdated (migrate it), newer (upgrade
turnout), foreign (something else) or damaged (not as its version says); what to do next is told with it.

{_WHERE}

\b
Exit codes: 0 current, 5 anything else that was found,
{_CODES.strip()}

\b
Examples:
  turnout storage inspect --backend duckdb --default
  turnout storage inspect --backend sqlite --path metrics.sqlite
  turnout storage inspect --backend postgres --json | jq -r .state
"""
)

STORAGE_CREATE: Final = _flowing(
    f"""
Make a new database where nothing is: a private file, or the tables in a PostgreSQL.

Whatever is there already is left untouched, be it an empty file: nothing is ever overwritten. It is made whole or not
at all. In PostgreSQL the tables come into the first schema of the search path, and belong to the role in the URL; the
role of a running router needs USAGE on that schema, INSERT and SELECT on provider_attempts and SELECT on
turnout_schema_versions alone.

{_WHERE}

\b
Exit codes: 0 created,
{_CODES.strip()}

\b
Examples:
  turnout storage create --backend duckdb --default
  turnout storage create --backend sqlite --path metrics.sqlite
  TURNOUT_POSTGRES_URL=$(cat owner.url) turnout storage create --backend postgres
"""
)

STORAGE_MIGRATE: Final = _flowing(
    f"""
Bring a database that an earlier turnout made to the version that this one needs.

Stop every program that uses it first: where one has a file open, is connected to a PostgreSQL as a router is, or uses
its tables otherwise, nothing is done, and who it is is told. (Behind a pooler of transactions a router at rest is not
seen; it finds the new version out at its next statement.) Each step is a transaction, so that whatever stops it, the
database is of one version or of the other, whole. One that is of
this version already is left as it is. --backup makes a copy first, where nothing may be, and compares it before
anything is changed; of PostgreSQL pg_dump makes one.

{_WHERE}

\b
Exit codes: 0 it is of this turnout's version now,
{_CODES.strip()}

\b
Examples:
  turnout storage migrate --backend duckdb --default
  turnout storage migrate --backend sqlite --path a.sqlite --backup old
  turnout storage migrate --backend postgres
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
