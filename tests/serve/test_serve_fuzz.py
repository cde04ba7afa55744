"""Whatever the description of the interface allows, and much that it does not: never a 5xx."""

import pytest
import schemathesis
import tiny
import torch
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis
from schemathesis import Case
from schemathesis.generation import GenerationMode
from serve_bench import TEXT, adapting, add, add_type, client, label, settings

from hardner.serve.app import create_routes
from hardner.tag.predictor import Predictor

EXAMPLES = 15
"""Requests of each route."""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    network = tiny.tagger("bilstm")
    model = Predictor(network, tiny.params(network, dtype=torch.float32))
    made = settings(folder, adapt=adapting(folder), load=lambda path: model)
    with client(made) as http:
        disease = add_type(http)
        add(http, TEXT, "Another asthma.")
        label(http, 1, (3, 4, disease))
        yield http


schema = schemathesis.openapi.from_dict(create_routes().openapi())
schema.config.generation.update(modes=list(GenerationMode))


@schema.parametrize()
@hypothesis(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_nothing_is_a_server_error(served, case: Case):
    sent = case.as_transport_kwargs(base_url="http://localhost")
    sent.pop("cookies", None)
    answer = served.request(content=sent.pop("data", None), **sent)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400 and case.method != "HEAD":
        assert "\n" not in answer.json()["error"]
