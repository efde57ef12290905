from seq2see.explain import explain as explain
from seq2see.translator import (
    Translation as Translation,
    TranslationOptions as TranslationOptions,
    Translator as Translator,
    load as load,
)

__version__: str
