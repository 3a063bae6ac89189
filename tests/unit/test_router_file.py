"""A router's TOML file: every mistake in it is told with the file's name, and with what to write instead."""

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from turnout import (
    ConfigError,
    LeastLoadedPolicy,
    ProviderRouter,
    RetryProviderScope,
    ScoreBasedPolicy,
    ScoreWeights,
)
from turnout.toml import settings_from_toml

PROVIDER = """
[[providers]]
provider_id = "p"
name = "P"
protocol = "openai_chat"
model = "m"
api_key = "k"
"""
SCORE = f"""
policy = "score"
{PROVIDER}
[score]
"""
NO_LEDGER = """
[metrics_store]
backend = "none"
"""


def told(path: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        ProviderRouter.from_toml(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PROVIDER + PROVIDER, "provider_id must be unique in a router; given twice: p"),
        ('metrics_scope = " "' + PROVIDER, "metrics_scope must be a printable text"),
        ("default_timeout_seconds = 1e12" + PROVIDER, "default_timeout_seconds"),
        (PROVIDER + "[retry]\nmax_attempts = '3'", "retry: max_attempts must be a whole number of 2 or more"),
        (
            PROVIDER + "[retry]\nmax_attempt = 3",
            "retry: max_attempt is no known field; there are max_attempts, provider_scope, provider_ids, max_wait",
        ),
        (PROVIDER + "[retry]\nwait = 2", "retry: wait cannot be written in a file; leave it out, or give"),
        (PROVIDER + "[providers.retry]\nwait = 2", "retry of p: wait cannot be written in a file"),
        (PROVIDER + "[providers.retry]\nmax_attempts = 1", "retry of p: max_attempts must be"),
        (
            PROVIDER + '[retry]\nprovider_scope = "selected"\nprovider_ids = ["z"]',
            "retry selects z; the providers are p",
        ),
        (
            PROVIDER.replace("[[providers]]", "[providers]"),
            "providers: write [[providers]], in double brackets",
        ),
        ("providers = []", "write [[providers]], in double brackets"),
        ("retry = 3" + PROVIDER, "retry: write [retry], in single brackets"),
        (PROVIDER + "[[health]]\nfailure_threshold = 3", "health: write [health], in single brackets"),
        (PROVIDER + "retry = true", "write [providers.retry], in single brackets"),
        (PROVIDER + "[[providers.health]]", "write [providers.health], in single brackets"),
        (PROVIDER + "[score]", '[score] goes with policy = "score", not "round_robin"'),
        (
            'policy = "score"' + PROVIDER + "[least_loaded]",
            '[least_loaded] goes with policy = "least_loaded"',
        ),
        ('policy = "score"\nscore = 3' + PROVIDER, "score: write [score], in single brackets"),
        (SCORE + "lookback = 3", "score: lookback is no known field; there are weights, lookback_hours"),
        (SCORE + "now = 3", "score: now is no known field"),
        (SCORE + "lookback_hours = 0", "score: lookback_hours must be a number above 0"),
        (SCORE + "[score.weights]\nspeed = 1", "score: weights: speed is no known field"),
        (
            SCORE + "tie_break_policy = 3",
            "score: tie_break_policy must be one of round_robin, preference, score",
        ),
        (SCORE + 'tie_break_policy = "best"', 'score: policy must be "round_robin", "preference", "score"'),
        (
            SCORE + 'tie_break_policy = "score"',
            "score: tie_break_policy ScoreBasedPolicy reads the store itself",
        ),
        (
            'policy = "least_loaded"' + PROVIDER + "[least_loaded]\ndecay_seconds = 0",
            "least_loaded: decay_seconds must be a number above 0",
        ),
        (PROVIDER + f"context_window = {'9' * 5000}", "a number of too many digits; write a smaller one"),
        (PROVIDER + f"extra_body = {{ a = {'[' * 5000}{']' * 5000} }}", "nested too deeply"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_name_and_with_what_to_write(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "turnout.toml"
    file.write_text(text + NO_LEDGER)
    message = told(file)
    assert message.startswith(str(file))
    assert words in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("metrics_scope = 5" + PROVIDER, "metrics_scope: Input"),
        (PROVIDER + "[providers.health]\nx = 1", "providers[0]: health: x is no known field"),
        (PROVIDER + '[pool]\nmax_workers = "x"', "pool: max_workers: Input"),
    ],
)
def test_a_mistake_in_a_file_is_told_by_its_tables_and_by_no_name_of_a_class(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "turnout.toml"
    file.write_text(text + NO_LEDGER)
    assert told(file).startswith(f"{file}: {words}")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("a\0b", r"'a\\x00b' is no path"),
        ("a\ud800", "is no path"),
        ("~nosuchuser/turnout.toml", "~nosuchuser/turnout.toml cannot be read: nobody knows the home folder"),
        (5, "the path of a router file was expected, not int"),
    ],
)
def test_a_path_that_is_none_is_told_as_such(path: Any, words: str) -> None:
    assert re.search(words, told(path))


def test_the_retries_of_a_file_are_as_in_the_constructor_and_warn_once(tmp_path: Path) -> None:
    file = tmp_path / "turnout.toml"
    second = PROVIDER.replace('"p"', '"q"') + "retry = false\n"
    own = PROVIDER.replace('"p"', '"r"') + "[providers.retry]\n"
    file.write_text(PROVIDER + second + own + "[retry]\nmax_attempts = 12\n" + NO_LEDGER)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        router = ProviderRouter.from_toml(file)
    with router:
        p, q, r = (config.retry for config in router.providers)
        assert (p, q, r.provider_scope) == (None, False, RetryProviderScope.ALL)
    assert [str(each.message) for each in warned] == ["max_attempts=12 is taken for 8, the most there may be"]


def test_a_policy_is_made_from_the_table_of_its_name(tmp_path: Path) -> None:
    file = tmp_path / "turnout.toml"
    file.write_text(
        SCORE
        + """
half_life_hours = 72
history_scope = "all"
tie_break_policy = "least_loaded"
max_staleness_seconds = 600
[score.weights]
success_weight = 2
"""
        + NO_LEDGER
    )
    policy = settings_from_toml(file)["policy"]
    assert isinstance(policy, ScoreBasedPolicy)
    assert policy.weights == ScoreWeights(success_weight=2)
    assert policy.max_staleness_seconds == 600.0
    assert isinstance(policy.tie_break_policy, LeastLoadedPolicy)
    with ProviderRouter.from_toml(file):
        pass


@pytest.mark.parametrize(("name", "kind"), [("score", ScoreBasedPolicy), ("least_loaded", LeastLoadedPolicy)])
def test_a_policy_needs_its_name_alone(tmp_path: Path, name: str, kind: type) -> None:
    file = tmp_path / "turnout.toml"
    file.write_text(f'policy = "{name}"' + PROVIDER + NO_LEDGER)
    assert isinstance(settings_from_toml(file)["policy"], kind)
