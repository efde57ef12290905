"""The model directory: everything that a translator needs, in one directory that can be moved.

    config.json         version of this format, architecture, languages, provenance of the model,
                        and the checksums of the weights and tokenizers
    model.safetensors   weights by their names in `Transformer.state_dict()`; shared weights are
                        stored once, under their first name (encoder, then decoder, then output)
    tokenizer.model     SentencePiece model; or source.model and target.model
    README.md           model card

The directory may contain other files. No file contains code that is executed.
"""

from seq2see.bundle.bundle import Bundle as Bundle, count_weights as count_weights
from seq2see.bundle.manifest import (
    FORMAT_VERSION as FORMAT_VERSION,
    DatasetInfo as DatasetInfo,
    Provenance as Provenance,
    ReportedScore as ReportedScore,
    StartAndEndTokenIds as StartAndEndTokenIds,
)
