"""Adaptation: a few labelled sentences of a new type -> a tagger for it."""
