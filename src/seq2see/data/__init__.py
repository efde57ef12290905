"""Parallel data: corpora, their encoding and batches, corpus quality, and built-in corpora.

Files are described by `corpus_config_and_reading` and read by `readers`; `encoded_corpus` stores
token ids on disk; `batch_sampler` and `batch_loader` yield the batches of each update. Only
`batch_loader` imports torch.
"""
