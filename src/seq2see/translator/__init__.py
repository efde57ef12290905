"""Text in, text out: where tokenizers, an engine and options meet."""

from seq2see.translator.translation import (
    Flag,
    Link,
    Scored,
    Sentence,
    Token,
    Translation,
    TranslationOptions,
)
from seq2see.translator.translator import Translator, load

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
