"""Whatever the description of the interface allows, and much that it does not: never a 5xx."""

from contextlib import closing

import pytest
import schemathesis
import tiny
import torch
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis
from schemathesis import Case
from schemathesis.generation import GenerationMode
from serve_bench import BASE, TEXT, adapting, add, add_type, client, label, settings, until
from starlette.testclient import TestClient

from hardner.serve.api import TaggingServer, create_api, create_api_routes
from hardner.serve.app import create_routes
from hardner.serve.fast_form import FastForm
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


@pytest.fixture(scope="module")
def api():
    network = tiny.tagger("bilstm")
    model = Predictor(network, tiny.params(network, dtype=torch.float32))
    server = TaggingServer({"tiny": None}, load=lambda *_, exact: FastForm(model, "torch", ""))
    with closing(server), TestClient(create_api(server), BASE) as http:
        until(lambda: http.get("/health").status_code == 200)
        yield http


schema, api_schema = (
    schemathesis.openapi.from_dict(routes.openapi())
    for routes in (create_routes(), create_api_routes(TaggingServer({})))
)
for described in (schema, api_schema):
    described.config.generation.update(modes=list(GenerationMode))
some = hypothesis(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@schema.parametrize()
@some
def test_nothing_is_a_server_error(served, case: Case):
    check(served, case)


@api_schema.parametrize()
@some
def test_nothing_is_an_error_of_the_tagging_server(api, case: Case):
    check(api, case)


def check(served: TestClient, case: Case) -> None:
    sent = case.as_transport_kwargs(base_url="http://localhost")
    sent.pop("cookies", None)
    answer = served.request(content=sent.pop("data", None), **sent)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400 and case.method != "HEAD":
        assert "\n" not in answer.json()["error"]
