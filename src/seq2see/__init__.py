"""seq2see: a Transformer that you train on your own text, run fast, serve, and see through."""

__version__ = "0.1.0"
