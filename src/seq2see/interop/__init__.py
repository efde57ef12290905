"""Convert models of other systems to bundles, which are saved as model directories."""

from seq2see.interop.marian import import_model as import_model
