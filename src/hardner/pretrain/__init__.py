"""From plain text to a tokenizer, word vectors and a pre-trained transformer."""
