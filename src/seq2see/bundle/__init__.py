"""The model directory: all that a translator needs, to be moved and read as one.

    config.json         the number of this format, the architecture, the languages, how the model
                        was made, and the checksum of each of the following
    model.safetensors   the weights by their names in `Transformer.state_dict()`; what is shared
                        stands once, under its first name (encoder before decoder before output)
    tokenizer.model     SentencePiece; or source.model and target.model
    README.md           the model card, for people

Other files may stand beside these. Nothing in them is code, and none is run.
"""

from seq2see.bundle.bundle import Bundle
from seq2see.bundle.manifest import (
    FORMAT_VERSION,
    DatasetInfo,
    Provenance,
    ReportedScore,
    SpecialTokens,
)

__all__ = [
    "FORMAT_VERSION",
    "Bundle",
    "DatasetInfo",
    "Provenance",
    "ReportedScore",
    "SpecialTokens",
]
