"""Hardness-guided NER: a working biomedical tagger from 5 to 100 labelled sentences."""

__version__ = "0.1.0"
