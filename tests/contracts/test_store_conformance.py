"""The suite that users run over stores of their own: it takes a right one, and sees each of many wrong ones."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.contracts.wrong_stores import SEEN_BY

#: What a user has: pytest without a plugin, and not turnout's other tools for tests.
CONFTEST = """
import sys

sys.modules["hypothesis"] = None
"""
PROJECT = """
import pytest
from turnout.testing.store_conformance import StoreConformance

from store_of_ones_own import ListStore
from wrong_stores import SEEN_BY


class TestListStore(StoreConformance):
    @pytest.fixture
    def make(self):
        return ListStore


class TestForgetful(StoreConformance):
    pass


def over(store):
    @pytest.fixture
    def make(self):
        return store

    return type(f"Test{store.__name__}", (StoreConformance,), {"make": make})


globals().update({f"Test{store.__name__}": over(store) for store in SEEN_BY})
"""


def test_the_suite_takes_a_store_of_ones_own_and_sees_whatever_is_wrong_with_others(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_stores.py").write_text(PROJECT)
    wrong = {f"Test{store.__name__}": tests for store, tests in SEEN_BY.items()}
    chosen = ["TestListStore", "TestForgetful::test_recording_nothing_is_nothing"]
    chosen += [f"{group}::{test}" for group, tests in wrong.items() for test in tests]

    told = pytest_over(tmp_path, [f"test_stores.py::{one}" for one in chosen])

    failed, errors = (
        set(re.findall(r"^FAILED \S+?::(\w+::\w+)", told, re.MULTILINE)),
        re.findall(r"^ERROR .*", told, re.MULTILINE),
    )
    assert failed == {f"{group}::{test}" for group, tests in wrong.items() for test in tests}, told
    (forgetful,) = errors
    assert "TestForgetful needs a fixture make()" in forgetful
    passed = re.findall(r"^PASSED \S+?::(\w+)::", told, re.MULTILINE)
    assert {*passed} == {"TestListStore"}, told
    assert len(passed) > 30


def pytest_over(folder: Path, tests: list[str]) -> str:
    beside = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", "--tb=no", "-rA", *tests],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, beside)),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "COLUMNS": "1000",
        },
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout


def test_what_else_there_is_for_tests_needs_no_pytest() -> None:
    check = "import sys, turnout.testing; assert not {'pytest', 'hypothesis'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", check], check=True, timeout=50)
