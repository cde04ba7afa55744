"""A server of a fresh project, without any network."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from serve_bench import client, settings
from starlette.testclient import TestClient


@pytest.fixture
def http(tmp_path: Path) -> Iterator[TestClient]:
    with client(settings(tmp_path)) as made:
        yield made
