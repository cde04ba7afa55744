"""All that the commands of these tests import when they run."""

import pyarrow  # noqa: F401
import spacy  # noqa: F401
import torch  # noqa: F401

import hardner.adapt.workflow
import hardner.cli
import hardner.evaluate.execute
import hardner.evaluate.runners
import hardner.evaluate.training
import hardner.meta.run
import hardner.pretrain.run
import hardner.scale
import hardner.scale.tagging
import hardner.serve.server
import hardner.tag.predictor  # noqa: F401
