"""What holds for all tests: repeatable property tests, and skips without the real corpora."""

import os

import pytest
from hypothesis import settings
from shared import missing

settings.register_profile("local", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``shared("NCBI-disease", ...)`` need these corpora."""
    for item in items:
        marker = item.get_closest_marker("shared")
        if marker and (reason := missing(marker.args)):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictors that are made here multiply in single precision, whatever the CPU can do."""
    monkeypatch.setattr("hardner.tag.engine.cpu_has_bfloat16", lambda: False)
