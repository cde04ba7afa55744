"""From a model folder to entities in text: tagging, scores that mean something, adapting."""
