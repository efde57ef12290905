"""Activation patching: outputs of heads and layers are taken from a run on another sentence.

The model runs on two sentences with the same number of tokens and the same target prefix. In the
run on one of them, some activations are replaced by those of the run on the other. The change of
the model's preference between two next tokens shows which activations carry the difference between
the sentences (Vig et al., 2020; Meng et al., 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from seq2see.cancellation import check_cancelled
from seq2see.errors import InputError
from seq2see.explain.interventions import copy_with_replaced_modules, named_attention_modules
from seq2see.model import Transformer
from seq2see.model.attention import MultiHeadAttention
from seq2see.model.basic_modules import FeedForward
from seq2see.model.cache import EncoderOutput
from seq2see.model.masks import AttentionMask
from seq2see.model.recorder import NULL_RECORDER, AttentionModuleId, Recorder

# B batch, S source tokens, T target tokens or queries, N tokens (S or T), F features, V vocabulary


class Activation(NamedTuple):
    """The output of an attention head, of a feed-forward network, or of the source embeddings."""

    address: str
    """Such as `decoder.1.cross`, `decoder.1.feed_forward` or `encoder.embeddings`."""
    module: str
    """Name of the module in `named_modules()`; for a head, that of its output projection."""
    site: AttentionModuleId | None = None
    """The attention of the head; None if this is not a head."""
    head: int | None = None
    features: slice = slice(None)
    """The features of the head in the input of the output projection."""
    tokens: slice = slice(None)
    """The tokens for which it is patched; all by default."""


class NextTokenPreference(NamedTuple):
    """Two candidates for the token that follows a target prefix."""

    prefix: tuple[int, ...]
    """Ids of the prefix, with the start token."""
    first_id: int
    second_id: int

    def compute(
        self, model: Transformer, source: EncoderOutput, recorder: Recorder = NULL_RECORDER
    ) -> Tensor:
        """Return log p(first) − log p(second) for each encoder output of a batch, [B]."""
        prefix_1T = torch.tensor([self.prefix], device=source.states_BSM.device)
        prefix_BT = prefix_1T.expand(len(source.states_BSM), -1)
        states_BTM = model.decode(prefix_BT, source, recorder)
        log_probs_BV = model.output.log_probabilities(states_BTM[:, -1])
        return log_probs_BV[:, self.first_id] - log_probs_BV[:, self.second_id]


class ActivationPatcher:
    """Runs a model on two sentences, and patches activations of one run into the other.

    Args:
        model: It is not modified.
        sources: The ids of two sentences with the same number of tokens, each [1, S].
        preference: What is measured.

    Raises:
        InputError: If the numbers of tokens differ.
    """

    def __init__(
        self, model: Transformer, sources: Sequence[Tensor], preference: NextTokenPreference
    ) -> None:
        first, second = (source_1S.size(1) for source_1S in sources)
        if first != second:
            raise InputError(
                "the sentences must have the same number of tokens for activation patching, "
                f"but have {first} and {second}: patching pairs them token by token"
            )
        # Hooks are added to the modules of a copy, because other threads may use the model.
        self.model = copy_with_replaced_modules(model, [])
        self.sources = sources
        self.preference = preference
        self.activations = [*_list_activations(model)]
        self.recorded = [self._record(source_1S) for source_1S in sources]
        self.unpatched = [self.measure(run, []) for run in (0, 1)]

    @torch.inference_mode()
    def measure(self, run: int, activations: Iterable[Activation]) -> float:
        """Return the preference on one sentence (0 or 1) with activations of the other one."""
        check_cancelled()
        with ExitStack() as hooks:
            for each in activations:
                other_NF = self.recorded[1 - run][each.module]
                hooks.enter_context(self._hook(each, _replace_with(each, other_NF)))
            source = self.model.encode(self.sources[run])
            return self.preference.compute(self.model, source).item()

    def measure_shift(self, activations: Sequence[Activation]) -> float:
        """Return how far patching moves the preference, in nats, as the mean of both directions.

        Patching all activations moves the preference on each sentence to that on the other: the
        result is then the preference on the first sentence minus that on the second.
        """
        changes = [self.measure(run, activations) - self.unpatched[run] for run in (0, 1)]
        return (changes[1] - changes[0]) / 2

    def find_largest_token(self, activation: Activation) -> int:
        """Return the index of the token at which patching a head moves the preference the most."""
        length = self.recorded[0][activation.module].size(-2)
        shifts = [
            self.measure_shift([activation._replace(tokens=slice(index, index + 1))])
            for index in range(length)
        ]
        return max(range(length), key=lambda index: abs(shifts[index]))

    @torch.inference_mode()
    def _record(self, source_1S: Tensor) -> dict[str, Tensor]:
        """Return the tensors of all activations for a sentence, by the names of the modules."""
        recorded: dict[str, Tensor] = {}
        with ExitStack() as hooks:
            for each in self.activations:

                def store(x_NF: Tensor, name: str = each.module) -> None:
                    recorded[name] = x_NF

                hooks.enter_context(self._hook(each, store))
            self.preference.compute(self.model, self.model.encode(source_1S))
        return recorded

    def _hook(
        self, activation: Activation, change: Callable[[Tensor], Tensor | None]
    ) -> RemovableHandle:
        """Call a function with the tensor of an activation, and use what it returns instead."""
        module = self.model.get_submodule(activation.module)
        if activation.site is None:
            return module.register_forward_hook(lambda _, __, output: change(output))
        return module.register_forward_pre_hook(lambda _, inputs: change(inputs[0]))


def _replace_with(activation: Activation, other_NF: Tensor) -> Callable[[Tensor], Tensor]:
    def replace(x_NF: Tensor) -> Tensor:
        patched_NF = x_NF.clone()
        index = (..., activation.tokens, activation.features)
        patched_NF[index] = other_NF[index]
        return patched_NF

    return replace


def _list_activations(model: Transformer) -> Iterator[Activation]:
    """Yield all heads, feed-forward networks and the source embeddings.

    Together they determine the output: residual connections and norms have no input of their own.
    """
    yield Activation("encoder.embeddings", "encoder.embeddings")
    for name, module in model.named_modules():
        address = name.replace(".layers", "")
        if isinstance(module, FeedForward):
            yield Activation(address, name)
        if isinstance(module, MultiHeadAttention):
            size = module.output.in_features // module.heads
            for head in range(module.heads):
                features = slice(head * size, (head + 1) * size)
                address = f"{module.site.stack}.{module.site.layer}.{module.site.kind}"
                yield Activation(address, f"{name}.output", module.site, head, features)


def isolate_source_tokens(model: Transformer, tokens: slice) -> Transformer:
    """Return a copy in which these source tokens attend only to each other in the encoder.

    The copy shares the weights of the model.
    """

    def mask_other_keys(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        queries_BHTD, keys, values, mask, *others = inputs
        length = queries_BHTD.size(2)
        masked_TT = torch.zeros(length, length, dtype=torch.bool, device=queries_BHTD.device)
        masked_TT[tokens] = True
        masked_TT[tokens, tokens] = False
        return queries_BHTD, keys, values, mask | AttentionMask(masked_TT), *others

    copied = copy_with_replaced_modules(model, [])
    for _, module in named_attention_modules(copied):
        if module.site.stack == "encoder":
            module.attention.register_forward_pre_hook(mask_other_keys)
    return copied
