"""TER by characters, for languages in which neither spaces nor Tercom's rules tell words apart."""

from __future__ import annotations

from sacrebleu.metrics.ter import TER


class CharacterTER(TER):
    """Every character is a word; the signature says so."""

    def __init__(self, case_sensitive: bool = False) -> None:
        super().__init__(case_sensitive=case_sensitive)
        self.tokenizer_signature = "char"

    def _preprocess_segment(self, sent: str) -> str:
        return " ".join(super()._preprocess_segment(sent))
