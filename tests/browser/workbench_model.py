"""A network small enough to be adapted within seconds, and texts in its words."""

from pathlib import Path

from hardner.model.describe import save_model
from hardner.model.encoders import WordEncoder, vocabulary_of
from hardner.model.tagger import Tagger
from hardner.schemes import TagSet
from hardner.text import sentences
from hardner.types import Document

DEVICES = ("stent", "catheter", "pacemaker", "inhaler")
TEXTS = (
    "The stent was placed in the left artery. A catheter was used in the second group. "
    "No adverse event was seen in the first group.",
    "The pacemaker was implanted after two weeks. We placed a stent in the right artery. "
    "The patient had chest pain for two weeks.",
    "The patient had a catheter in the bladder. A new pacemaker was used in the third group. "
    "The dose was given to the patients.",
    "The inhaler was given to the patients. They used a stent and a catheter. "
    "The second group had no adverse event.",
)
UNSEEN = (
    "A stent was seen in the artery. The patients used an inhaler for two weeks.",
    "The catheter was placed again. The third group had chest pain.",
)


def save(folder: Path) -> Path:
    """A tagger that knows the words of the texts and nothing about them."""
    words = vocabulary_of([s for text in (*TEXTS, *UNSEEN) for s in sentences(Document("", text))])
    encoder = WordEncoder(words, dimension=24, train_words=True, cell="gru", hidden=16)
    tagger = Tagger(encoder, (TagSet("Disease", ("Disease",), "IOB2"),), "softmax", {})
    save_model(folder, tagger, tagger.init(0))
    return folder
