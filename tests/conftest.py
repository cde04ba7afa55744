"""What holds for all tests: repeatable property tests, and where the real corpora are."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

CORPORA = Path(__file__).parents[2] / "shared" / "corpora"

settings.register_profile("local", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CORPORA.is_dir():
        return
    absent = pytest.mark.skip(reason="the real corpora are not at ../shared/corpora")
    for item in items:
        if item.get_closest_marker("shared"):
            item.add_marker(absent)


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictors that are made here multiply in single precision, whatever the CPU can do."""
    monkeypatch.setattr("hardner.tag.engine.cpu_has_bfloat16", lambda: False)
