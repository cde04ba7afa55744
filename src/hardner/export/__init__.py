"""Models for other tools: spaCy, ONNX, Hugging Face."""
