"""Lines of a spool file: every value comes back exactly, and what is damaged costs itself alone."""

import io
import json
import random
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.calls import Attempt, CallType, Identity, Outcome, Reason, Usage
from turnout.errors import StorageError
from turnout.storage.attempts import AttemptRows
from turnout.storage.columns import COLUMNS
from turnout.storage.duckdb import DuckDBMetricsStore
from turnout.storage.memory import MemoryMetricsStore
from turnout.storage.postgres import PostgresMetricsStore
from turnout.storage.rows import Row
from turnout.storage.spool_lines import LONGEST_LINE, Lines, UnreadableError, encoded, header
from turnout.storage.sqlite import SQLiteMetricsStore

NOON = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)
FULL = Row(
    attempt_id="01900000-0000-7000-8000-000000000001",
    invocation_id="01900000-0000-7000-8000-000000000000",
    attempt_number=2,
    reason="failover",
    started_at=NOON,
    metrics_scope="my-app:production",
    provider_id="eu-1",
    provider_name='Zürich 100% "東京" 🚉\n',
    model="gpt-x",
    protocol="openai_chat",
    call_type="streaming",
    success=False,
    outcome="failed",
    fault="server_error",
    stream_opened=True,
    latency_ms=12.25,
    total_duration_ms=1 / 3,
    queue_ms=1e-9,
    input_tokens=9_007_199_254_740_993,
    cached_tokens=0,
    output_tokens=7,
    cost_usd=0.1,
    billing_state="calculated",
    http_status=503,
    error_code="deadbeef [%s]",
)
SOME = [
    FULL,
    FULL._replace(attempt_id="01900000-0000-7000-8000-000000000002", model=None, latency_ms=None),
    FULL._replace(attempt_id="01900000-0000-7000-8000-000000000003", success=None, error_code=None),
]

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
short = texts | st.just("x" * 640)
numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**63 - 1)
small = st.integers(0, 2**31 - 1)
flags = st.booleans()
identities = st.uuids().map(str)
zones = st.sampled_from([UTC, timezone(timedelta(hours=14)), timezone(-timedelta(hours=11, minutes=30))])
moments = st.builds(
    lambda moment, zone: moment.replace(tzinfo=UTC).astimezone(zone),
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    zones,
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "attempt_id": identities,
    "invocation_id": identities,
    "attempt_number": small,
    "reason": texts,
    "started_at": moments,
    "metrics_scope": texts,
    "provider_id": short,
    "provider_name": texts,
    "model": st.none() | short,
    "protocol": st.none() | short,
    "call_type": short,
    "success": st.none() | flags,
    "outcome": texts,
    "fault": st.none() | texts,
    "stream_opened": st.none() | flags,
    "latency_ms": st.none() | numbers,
    "total_duration_ms": numbers,
    "queue_ms": numbers,
    "input_tokens": st.none() | counts,
    "cached_tokens": st.none() | counts,
    "output_tokens": st.none() | counts,
    "cost_usd": st.none() | numbers,
    "billing_state": texts,
    "http_status": st.none() | small,
    "error_code": st.none() | texts,
}
any_change = st.sampled_from(COLUMNS).flatmap(lambda name: st.tuples(st.just(name), VALUES[name]))
any_row = st.lists(any_change, max_size=6).map(lambda changes: FULL._replace(**dict(changes)))


def file_of(*arrays: Any, fields: Sequence[str] = COLUMNS, **said: Any) -> bytes:
    """A file whose lines hold their checksums, whatever they say."""
    first = {"format": "turnout-spool", "version": 1, "fields": fields, **said}
    texts = [text if isinstance(text, str) else json.dumps(text) for text in (first, *arrays)]
    return "".join(f"{crc32(text.encode()):08x} {text}\n" for text in texts).encode()


def plain(**known: Any) -> list[Any]:
    """The array of a good row but for what is given."""
    values = {**FULL._asdict(), "started_at": 1_772_366_400_123_457, **known}
    return [values[name] for name in COLUMNS]


def read(data: bytes) -> tuple[list[Row], Lines]:
    lines = Lines(io.BytesIO(data))
    return list(lines), lines


def test_a_file_says_what_it_is_in_text_that_any_tool_can_read() -> None:
    data = header() + encoded(SOME)
    assert data.isascii()
    first, second, *_ = data.decode().splitlines()
    assert json.loads(first[9:]) == {"format": "turnout-spool", "version": 1, "fields": list(COLUMNS)}
    assert json.loads(second[9:]) == plain()
    assert int(second[:8], 16) == crc32(second[9:].encode())


@settings(max_examples=60)
@given(st.lists(any_row, min_size=1, max_size=4))
def test_every_value_of_every_column_comes_back_exactly_and_into_a_store(rows: list[Row]) -> None:
    found, lines = read(header() + encoded(rows))
    assert (lines.damaged, lines.torn) == (0, False)
    assert found == rows
    # Zeros have signs, which equality does not see.
    assert [repr(row[:4] + row[5:]) for row in found] == [repr(row[:4] + row[5:]) for row in rows]
    assert {row.started_at.tzinfo for row in found} == {UTC}
    store = MemoryMetricsStore()
    store.record_attempts(found)
    assert store.query_recent(since=datetime.min.replace(tzinfo=UTC))


def test_attempts_are_written_as_their_rows_are() -> None:
    identity = Identity(provider_id="a%s", name="Ä", model="gpt", protocol="openai_chat")
    attempts = [
        Attempt(
            2**100 + number, 2**100, number, Reason.PRIMARY, identity, CallType.STREAMING,
            1_700_000_000.123456 + number, 0.25 / 3, 0.0, Outcome.OK, 0, usage=Usage(1, None, 3),
            stream_opened=True, first_seconds=None if number % 2 else 0.125, http_status=200,
        )
        for number in range(20)
    ]  # fmt: skip
    rows = AttemptRows(attempts, "scope")
    assert encoded(rows) == encoded(list(rows))
    assert read(header() + encoded(rows))[0] == list(rows)


def test_identities_are_kept_in_their_usual_form() -> None:
    row = FULL._replace(attempt_id="{01900000-0000-7000-8000-00000000000A}", invocation_id="A" * 32)
    (found,), _ = read(header() + encoded([row]))
    assert found.attempt_id == "01900000-0000-7000-8000-00000000000a"
    assert found.invocation_id == "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"


def test_a_last_line_that_is_torn_anywhere_costs_itself_alone_and_is_no_damage() -> None:
    whole = header() + encoded(SOME[:2])
    end = whole + encoded(SOME[2:])
    for size in range(len(whole), len(end) - 1):
        found, lines = read(end[:size])
        assert (found, lines.damaged, lines.torn) == (SOME[:2], 0, size > len(whole)), size


def test_a_file_that_is_torn_in_its_first_line_is_empty() -> None:
    for size in range(len(header()) - 1):
        found, lines = read(header()[:size])
        assert (found, lines.damaged) == ([], 0)


def test_a_byte_that_is_flipped_anywhere_costs_its_own_line_alone() -> None:
    chance = random.Random(7)
    data = header() + encoded(SOME)
    ends = [0, *(place + 1 for place, byte in enumerate(data) if byte == 10)]
    for place in range(len(data)):
        # One bit, and now and then what makes a line of a part of one.
        new = 10 if place % 11 == 0 and data[place] != 10 else data[place] ^ 1 << chance.randrange(8)
        found, lines = read(data[:place] + bytes([new]) + data[place + 1 :])
        line = sum(end <= place for end in ends) - 1
        lost = [] if line == 0 or data[place] == 10 else [SOME[line - 1]]
        assert [row for row in SOME if row not in found] == lost, (place, new)
        assert len(found) == len(SOME) - len(lost)
        if line + (data[place] == 10) < len(SOME):
            assert lines.damaged, (place, new)
            assert lines.fault.startswith(f"line {line + 1}:")
        elif new != 10:
            assert (lines.damaged, lines.torn) == (0, True)


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (plain(attempt_id="7"), "attempt_id must be a UUID"),
        (plain(invocation_id=None), "invocation_id must be a UUID"),
        (plain(attempt_number=-1), "attempt_number must be between 0 and 2147483647"),
        (plain(attempt_number=2**31), "attempt_number must be between 0 and 2147483647"),
        (plain(attempt_number=True), "attempt_number must be a whole number"),
        (plain(reason=None), "reason must be text"),
        (plain(started_at="2026-03-01"), "started_at must be a whole number"),
        (plain(started_at=1.5), "started_at must be a whole number"),
        (plain(started_at=2**62), "started_at must be between"),
        (plain(provider_id="x" * 641), "provider_id must be of at most 640 bytes"),
        (plain(model="é" * 321), "model must be of at most 640 bytes"),
        (plain(provider_name="a\0"), "provider_name must not hold a NUL"),
        (plain(error_code="\ud800"), "error_code must be text that UTF-8 can hold"),
        (plain(success=1), "success must be true or false"),
        (plain(stream_opened="true"), "stream_opened must be true or false"),
        (plain(latency_ms="1"), "latency_ms must be a number"),
        (plain(latency_ms=False), "latency_ms must be a number"),
        (plain(total_duration_ms=None), "total_duration_ms must be a number"),
        (plain(queue_ms=10**400), "queue_ms must be finite"),
        (json.dumps(plain(queue_ms=7)).replace(", 7,", ", 1e999,", 1), "queue_ms must be finite"),
        (json.dumps(plain(cost_usd=float("nan"))), "must not hold NaN"),
        (json.dumps(plain(cost_usd=float("-inf"))), "must not hold -Infinity"),
        (plain(input_tokens=2**63), "input_tokens must be between"),
        (plain(output_tokens=-1), "output_tokens must be between"),
        (plain(cached_tokens=[1]), "cached_tokens must be a whole number"),
        (plain(http_status=2**31), "http_status must be between"),
        (plain()[:-1], "must be an array of 25 values"),
        ([*plain(), None], "must be an array of 25 values"),
        ({"attempt_id": 1}, "must be an array of 25 values"),
        ("[" * 100_000, "nested too deeply"),
        ("[1" + "0" * 5_000 + "]", "line 2:"),
        ("", "line 2:"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 60 else "",
)
def test_a_line_with_a_field_that_cannot_be_is_skipped_and_named(bad: Any, told: str) -> None:
    found, lines = read(file_of(bad, plain()))
    assert (found, lines.damaged) == ([FULL], 1)
    assert lines.fault.startswith("line 2: ")
    assert told in lines.fault


def test_a_last_line_that_was_written_whole_is_no_torn_one() -> None:
    _, lines = read(file_of(plain(), plain(success=3)))
    assert (lines.damaged, lines.torn, lines.fault) == (1, False, "line 3: success must be true or false")


@pytest.mark.parametrize("body", [b"\xff", '["é"]'.encode(), b"[1]\r"])
def test_a_line_that_holds_its_checksum_and_is_not_text_as_it_is_written_is_skipped(body: bytes) -> None:
    found, lines = read(header() + b"%08x %s\n" % (crc32(body), body) + encoded([FULL]))
    assert (found, lines.damaged) == ([FULL], 1)


def test_the_first_of_many_faults_is_told() -> None:
    data = file_of(plain(success=3), plain(), plain(queue_ms=None))
    found, lines = read(data + b"junk\n" + encoded([FULL]))
    assert (len(found), lines.damaged, lines.fault) == (2, 3, "line 2: success must be true or false")


def test_fields_may_come_in_another_order_and_without_those_that_may_be_unknown() -> None:
    fields = [name for name in reversed(COLUMNS) if name != "cost_usd"]
    known = dict(zip(COLUMNS, plain(), strict=True))
    found, lines = read(file_of([known[name] for name in fields], fields=fields))
    assert (found, lines.damaged) == ([FULL._replace(cost_usd=None)], 0)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"version": 2}, "turnout-spool' 2; this turnout reads turnout-spool 1"),
        ({"format": "other"}, "'other'"),
        ({"format": ["x" * 1_000]}, "is of format"),
        ({"fields": [*COLUMNS, "shade"]}, "the field 'shade', which this turnout does not know"),
        ({"fields": COLUMNS[:-2] + COLUMNS[-1:]}, ""),
        ({"fields": COLUMNS[1:]}, "no field attempt_id"),
        ({"fields": [*COLUMNS, "model"]}, "twice"),
        ({"fields": None}, "does not name its fields"),
        ({"fields": [["a"]]}, "does not name its fields"),
    ],
    ids=str,
)
def test_a_file_of_another_format_is_refused_before_any_row_is_read(said: dict[str, Any], told: str) -> None:
    data = file_of(plain(), **said)
    if not told:
        assert Lines(io.BytesIO(data)).damaged == 0
        return
    with pytest.raises(UnreadableError) as refused:
        Lines(io.BytesIO(data))
    assert told in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("text", ["{", '{"version": NaN}', '{"a": ' * 100_000])
def test_a_first_line_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError, match="no JSON"):
        Lines(io.BytesIO(file_of(text)[len(header()) :]))


@given(st.lists(st.binary(max_size=40) | st.just(encoded([FULL])) | st.just(header())))
def test_whatever_is_in_a_file_reading_it_ends_without_an_error(parts: list[bytes]) -> None:
    found, lines = read(b"".join(parts))
    assert found == [FULL] * len(found)
    assert len(found) <= parts.count(encoded([FULL]))
    assert lines.damaged <= b"".join(parts).count(b"\n")


def test_a_line_without_an_end_is_read_in_parts() -> None:
    data = header() + b"x" * (LONGEST_LINE + 5) + b"\n" + encoded([FULL])
    found, lines = read(data)
    assert (found, lines.damaged) == ([FULL], 2)


def test_a_row_that_would_make_such_a_line_is_refused() -> None:
    with pytest.raises(StorageError, match="bytes"):
        encoded([FULL, FULL._replace(metrics_scope="x" * LONGEST_LINE)])


LIMITS = [
    (datetime(1, 1, 2, tzinfo=UTC), 0, 0, 5e-324),
    (datetime(9999, 12, 30, tzinfo=UTC), 2**31 - 1, 2**63 - 1, 1.7976931348623157e308),
]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "memory", "postgres"])
def test_the_largest_and_the_smallest_of_everything_fit_every_store(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    made: dict[str, Callable[[], Any]] = {
        "duckdb": lambda: DuckDBMetricsStore(tmp_path / "metrics.duckdb"),
        "sqlite": lambda: SQLiteMetricsStore(tmp_path / "metrics.sqlite"),
        "memory": MemoryMetricsStore,
        "postgres": lambda: PostgresMetricsStore(request.getfixturevalue("postgres_ledger")),
    }
    # 640 bytes each, which no index can make smaller.
    longest = [*map(chr, random.Random(1).choices(range(0xA1, 0x800), k=4 * 320))]
    provider_id, model, protocol, call_type = ("".join(longest[place::4]) for place in range(4))
    rows = [
        FULL._replace(
            attempt_id=f"{place:08x}-ffff-ffff-ffff-ffffffffffff",
            started_at=moment, attempt_number=status, http_status=status,
            input_tokens=count, cached_tokens=count, output_tokens=count,
            latency_ms=number, total_duration_ms=number, queue_ms=number, cost_usd=number,
            provider_id=provider_id, model=model, protocol=protocol, call_type=call_type,
        )
        for place, (moment, status, count, number) in enumerate(LIMITS)
    ]  # fmt: skip
    found, _ = read(header() + encoded(rows))
    with closing(made[kind]()) as store:
        store.record_attempts(found)
        assert store.query_recent(since=datetime.min.replace(tzinfo=UTC)) == rows
