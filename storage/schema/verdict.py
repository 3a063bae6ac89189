"""What a database is, judged by what it holds: a ledger of this version, of another, damaged, or something else."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, assert_never

from turnout.errors import SchemaMismatchError
from turnout.storage.schema import COMPONENT, VERSION
from turnout.storage.schema.facts import ComponentVersion, SchemaState, StorageBackend, Target

#: What each table or view is made of, as text: its kind, its columns in order, then keys, checks and indexes, and a
#: view's query. What begins with INDEX is an index that lets everything in, what begins with AS a query.
Shape = Mapping[str, Sequence[str]]

VERSIONS: Final = "turnout_schema_versions"
ATTEMPTS: Final = "provider_attempts"
FAILOVERS: Final = "provider_failovers"
TABLES: Final = (VERSIONS, ATTEMPTS)
RELATIONS: Final = (*TABLES, FAILOVERS)
_QUERY: Final = "AS "


class Found(NamedTuple):
    """What a database holds. ``versions`` is None where they cannot be read; ``others`` says whether there is
    something that is not turnout's."""

    shape: Shape
    versions: tuple[ComponentVersion, ...] | None
    others: bool = False


class Verdict(NamedTuple):
    """``why`` is a clause about the database: "is of version 1, ...". ``then`` is what to do, where it is not what its
    state calls for in general."""

    state: SchemaState
    why: str
    versions: tuple[ComponentVersion, ...] = ()
    then: str | None = None

    @property
    def version(self) -> int:
        """The version that it states, 0 without."""
        return max(_stated(self.versions), default=0)


def component_versions(rows: Iterable[Sequence[object]]) -> tuple[ComponentVersion, ...] | None:
    """The rows of ``turnout_schema_versions``; None where one is no such thing."""
    versions = []
    for component, version in rows:
        if not isinstance(component, str) or not isinstance(version, int):
            return None
        versions.append(ComponentVersion(component, version))
    return tuple(sorted(versions))


def verdict_of(found: Found, expected: Callable[[int], Shape]) -> Verdict:
    """``expected`` gives the shape of a version."""
    if not found.shape and not found.others:
        return Verdict(SchemaState.EMPTY, "has no tables")
    if VERSIONS not in found.shape:
        state = SchemaState.DAMAGED if ATTEMPTS in found.shape else SchemaState.FOREIGN
        return Verdict(state, f"has no table {VERSIONS}")
    if found.versions is None:
        return Verdict(SchemaState.DAMAGED, f"has a {VERSIONS} that states no versions")
    return Verdict(*_judged(found.shape, _stated(found.versions), expected), found.versions)


def _judged(shape: Shape, stated: list[int], expected: Callable[[int], Shape]) -> tuple[SchemaState, str]:
    if not stated:
        state = SchemaState.DAMAGED if ATTEMPTS in shape else SchemaState.FOREIGN
        return state, f"states no version of the turnout {COMPONENT} schema"
    version = max(stated)
    if version > VERSION:
        return SchemaState.NEWER, f"is of version {version}; this turnout knows versions up to {VERSION}"
    if version < 1 or len(stated) > 1:
        return SchemaState.DAMAGED, f"states {', '.join(map(str, stated))} as its version"
    for name, parts in expected(version).items():
        if name not in shape:
            return SchemaState.DAMAGED, f"states version {version}, but has no {name}"
        if differences := _differences(shape[name], parts):
            return SchemaState.DAMAGED, f"has another {name} than version {version}: {differences}"
    if version < VERSION:
        return SchemaState.OUTDATED, f"is of version {version}; this turnout needs version {VERSION}"
    return SchemaState.CURRENT, f"is of version {version}, as this turnout needs it"


def _differences(there: Sequence[str], parts: Sequence[str]) -> str:
    """In words; none where all parts are there in order, and nothing else than indexes of the owner's own."""
    missing = [part for part in parts if part not in there]
    added = [part for part in there if part not in parts and not part.startswith("INDEX ")]
    told = [f"no {part}" for part in missing if not part.startswith(_QUERY)]
    told += [f"also {part}" for part in added if not part.startswith(_QUERY)]
    if any(part.startswith(_QUERY) for part in (*missing, *added)):
        # Both would fill a screen.
        told.append("another query")
    if not told and [part for part in there if part in parts] != list(parts):
        told = ["another order"]
    return ", ".join(told)


def _stated(versions: Iterable[ComponentVersion]) -> list[int]:
    return [version for component, version in versions if component == COMPONENT]


def next_action(verdict: Verdict, target: Target) -> str:
    """What to do next, in words, with the command where one helps."""
    if verdict.then is not None:
        return verdict.then
    in_file = target.backend is not StorageBackend.POSTGRES
    match verdict.state:
        case SchemaState.ABSENT:
            create = f"Run: turnout storage create {target.options}"
            return f"{create} (a store does so at its first use)" if in_file else create
        case SchemaState.CURRENT:
            return "Nothing: it can be used as it is"
        case SchemaState.OUTDATED:
            return f"Stop every program that uses it and run: turnout storage migrate {target.options}"
        case SchemaState.NEWER:
            return "Upgrade turnout: pip install --upgrade turnout"
        case SchemaState.EMPTY | SchemaState.FOREIGN:
            if in_file:
                return "Give the store another path, or move away what is there"
            return "Give the store another database, or a search path of its own"
        case SchemaState.DAMAGED:
            another = "path" if in_file else "database, or a search path of its own"
            return f"Put a backup in its place, or give the store another {another}"
        case _ as never:
            assert_never(never)


def refusal(target: Target, verdict: Verdict) -> SchemaMismatchError:
    """The error for a database that was found and cannot be used; it says what to do."""
    return SchemaMismatchError(
        f"the database {target.name} {verdict.why}; it was left untouched. {next_action(verdict, target)}"
    )


def refuse_unless_current(target: Target, verdict: Verdict) -> None:
    """Raise ``SchemaMismatchError`` for all that a store cannot work with."""
    if verdict.state is not SchemaState.CURRENT:
        raise refusal(target, verdict)
