"""Text in, text out: where tokenizers, an engine and options meet."""

from seq2see.translator.loading import load
from seq2see.translator.options import TranslationOptions
from seq2see.translator.translation import Flag, Link, Scored, Sentence, Token, Translation
from seq2see.translator.translator import Translator

__all__ = [
    "Flag",
    "Link",
    "Scored",
    "Sentence",
    "Token",
    "Translation",
    "TranslationOptions",
    "Translator",
    "load",
]
