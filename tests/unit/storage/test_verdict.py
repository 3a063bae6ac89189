"""What a database is judged to be by what it holds, and what there is to do then."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnout.errors import SchemaMismatchError
from turnout.storage.schema import VERSION
from turnout.storage.schema.facts import ComponentVersion, SchemaState, StorageBackend, Target
from turnout.storage.schema.verdict import (
    ATTEMPTS,
    VERSIONS,
    Found,
    Shape,
    Verdict,
    component_versions,
    next_action,
    refuse_unless_current,
    verdict_of,
)

SHAPE: Shape = {
    VERSIONS: ["table", "component TEXT", "version INTEGER", "PRIMARY KEY (component)"],
    ATTEMPTS: ["table", "a TEXT", "b TEXT", "c REAL", "PRIMARY KEY (a)", "CHECK (b > 0)", "INDEX (c)"],
}


def judged(shape: Shape = SHAPE, *versions: tuple[str, int]) -> Verdict:
    stated = tuple(ComponentVersion(*version) for version in versions or [("metrics", VERSION)])
    return verdict_of(Found(shape, stated), lambda _: SHAPE)


def with_attempts(parts: Sequence[str]) -> Shape:
    return {**SHAPE, ATTEMPTS: parts}


def test_what_is_as_its_version_says_is_current_or_outdated() -> None:
    assert judged().state is SchemaState.CURRENT
    assert judged(SHAPE, ("metrics", 1)).state is SchemaState.OUTDATED
    assert judged(SHAPE, ("metrics", 1)).version == 1


@settings(max_examples=20)
@given(st.lists(st.sampled_from(["INDEX (a)", "INDEX (b) of some rows"])))
def test_indexes_that_let_everything_in_are_the_owners_own_affair(added: list[str]) -> None:
    assert judged(with_attempts([*SHAPE[ATTEMPTS], *added])).state is SchemaState.CURRENT


@settings(max_examples=20)
@given(st.sets(st.sampled_from(SHAPE[ATTEMPTS]), min_size=1))
def test_whatever_is_missing_is_damage_and_named(missing: set[str]) -> None:
    verdict = judged(with_attempts([part for part in SHAPE[ATTEMPTS] if part not in missing]))
    assert verdict.state is SchemaState.DAMAGED
    assert all(f"no {part}" in verdict.why for part in missing)


@settings(max_examples=20)
@given(
    st.sampled_from(
        ["d TEXT", "a TEXT NOT NULL", "UNIQUE INDEX (b)", "INDEXED TEXT", "CHECK (b > 1)", "view"]
    )
)
def test_whatever_else_is_added_is_damage_and_named(added: str) -> None:
    verdict = judged(with_attempts([*SHAPE[ATTEMPTS], added]))
    assert (verdict.state, f"also {added}" in verdict.why) == (SchemaState.DAMAGED, True)


@settings(max_examples=20)
@given(st.permutations(SHAPE[ATTEMPTS]))
def test_columns_in_another_order_are_damage(parts: list[str]) -> None:
    same = parts == SHAPE[ATTEMPTS]
    assert judged(with_attempts(parts)).state is (SchemaState.CURRENT if same else SchemaState.DAMAGED)


@settings(max_examples=20)
@given(st.integers(max_value=0))
def test_a_version_that_never_was_is_damage(version: int) -> None:
    assert judged(SHAPE, ("metrics", version)).state is SchemaState.DAMAGED


@settings(max_examples=20)
@given(st.integers(min_value=VERSION + 1), st.just({VERSIONS: ["another"]}) | st.just(SHAPE))
def test_a_newer_version_is_told_as_such_whatever_it_looks_like(version: int, shape: Shape) -> None:
    assert judged(shape, ("metrics", version)).state is SchemaState.NEWER


def test_two_versions_of_one_component_are_damage() -> None:
    assert judged(SHAPE, ("metrics", 1), ("metrics", VERSION)).state is SchemaState.DAMAGED


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from(["health", "Metrics", "", "metrics "]), st.integers()), max_size=3))
def test_other_components_count_for_nothing(others: list[tuple[str, int]]) -> None:
    assert judged(SHAPE, *others, ("metrics", VERSION)).state is SchemaState.CURRENT
    if others:
        assert judged(SHAPE, *others).state is SchemaState.DAMAGED
        assert judged({VERSIONS: SHAPE[VERSIONS]}, *others).state is SchemaState.FOREIGN


def test_what_has_no_versions_is_empty_foreign_or_damaged() -> None:
    def state(shape: Shape, *, others: bool = False) -> SchemaState:
        return verdict_of(Found(shape, None, others), lambda _: SHAPE).state

    assert state({}) is SchemaState.EMPTY
    assert state({}, others=True) is SchemaState.FOREIGN
    assert state({ATTEMPTS: SHAPE[ATTEMPTS]}) is SchemaState.DAMAGED
    assert state(SHAPE) is SchemaState.DAMAGED


@pytest.mark.parametrize(
    "row", [("metrics", "2"), (b"metrics", 2), (None, 2), ("metrics", None), ("metrics", 2.0)]
)
def test_a_row_that_is_no_version_makes_them_unreadable(row: tuple[object, object]) -> None:
    assert component_versions([("health", 1), row]) is None


TARGETS = [
    Target(StorageBackend.DUCKDB, "/home/me/.turnout/metrics.duckdb", is_default=True),
    Target(StorageBackend.SQLITE, "/srv/my ledger"),
    Target(StorageBackend.POSTGRES, "postgresql://me:***@host/db"),
]
OPTIONS = ["--backend duckdb --default", "--backend sqlite --path '/srv/my ledger'", "--backend postgres"]


@pytest.mark.parametrize(("target", "options"), [*zip(TARGETS, OPTIONS, strict=True)])
def test_every_state_has_something_to_do_and_commands_name_the_database(target: Target, options: str) -> None:
    told = {state: next_action(Verdict(state, "is so"), target) for state in SchemaState}
    assert all(told.values())
    assert f"turnout storage create {options}" in told[SchemaState.ABSENT]
    assert told[SchemaState.OUTDATED].endswith(f"turnout storage migrate {options}")
    assert "***" not in "".join(told.values())


@pytest.mark.parametrize("state", SchemaState)
def test_a_store_takes_what_is_current_alone(state: SchemaState) -> None:
    if state is SchemaState.CURRENT:
        refuse_unless_current(TARGETS[0], Verdict(state, "is so"))
        return
    with pytest.raises(
        SchemaMismatchError, match=r"/metrics\.duckdb is so; it was left untouched\. Do that$"
    ):
        refuse_unless_current(TARGETS[0], Verdict(state, "is so", then="Do that"))
