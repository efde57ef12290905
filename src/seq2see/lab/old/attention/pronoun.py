"""Experiment 19: where "it" looks, and whether that is what decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

import torch
from torch import Tensor

from seq2see.bundle import Bundle
from seq2see.data import fables
from seq2see.data.batch_loader import Batch
from seq2see.data.fables import FableSentencePair
from seq2see.engines.batching import add_special_tokens_and_pad
from seq2see.lab.old.bench import Bench
from seq2see.lab.old.ear import Ear, cut, encoder_heads
from seq2see.lab.old.expectation import NOTED, at_least, at_most, equal
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.pictures import bars, grids
from seq2see.model import ModelConfig, Transformer
from seq2see.model.attention import MultiHeadAttention
from seq2see.text import PAD_ID, PackedIds, Tokenizer

# B sentences, L layers, H heads, T target tokens, S source tokens

MATTERS = 0.1
"""The share of right pronouns that must be lost by a cut for what is cut to matter."""
PREFERS = 0.65
"""How often a head must look at the antecedent rather than at the rival to prefer it: the best of
eight heads that choose by chance has 0.55 of 200 sentences."""


@experiment(
    number=19,
    title=Text('Where "it" looks', "“it” 在看哪里"),
    notes="S2",
    claim=Text(
        'In "The animal didn\'t cross the street because it was too tired", the 5th encoder lets '
        '"it" look at "The animal", and so takes it into its own code; one head looks at "the '
        'animal", another at "tired". All heads together are hard to read.',
        "在 “The animal didn't cross the street because it was too tired” 中，第 5 个编码器使 "
        "“it” 关注 "
        "“The animal”，并将其表征融入 “it” 的编码；一个头关注 “the animal”，另一个关注 “tired”。"
        "所有头放在一起则难以解释。",
    ),
    prediction=Text(
        'A model of fables must say "il" or "elle". If "it" takes its antecedent in, some head '
        "will look at it rather than at its rival, and without that look the pronoun will be "
        "wrong. The 5th of six, counted from 0, is the top.",
        "寓言模型必须说 “il” 或 “elle”。如果 “it” 真的融入了先行词，就会有某个头更关注先行词而不是"
        "竞争者，并且切断这种关注后代词会出错。从 0 数起的第 5 个就是六层中的顶层。",
    ),
    trains=True,
    translates=True,
)
def where_it_looks(bench: Bench) -> Finding:
    """Watch the weights of "it"; then cut the lines between words, and ask for the pronoun."""
    cases = fables.select_pronoun_fables("test", short=True)[: None if bench.full else 200]
    looks = [Looks(bundle, cases) for bundle in bench.translators()]
    right = [each.right() for each in looks]
    best = [float(each.prefers_antecedent().max()) for each in looks]
    cuts = {lines.what: [each.right(lines) for each in looks] for lines in CUTS}
    it_matters = fmean(right) - fmean(cuts[CUTS[0].what]) > MATTERS
    return Finding(
        Verdict.HOLDS_IF if it_matters else Verdict.FALSE,
        _reason(it_matters, fmean(best)),
        (
            Measurement.mean(
                Text(
                    f"right pronoun preferred, {len(cases)} pairs", f"偏好正确代词，{len(cases)} 对"
                ),
                right,
                at_least(0.75),
            ),
            Measurement.mean(
                Text(
                    '"it" looks at the antecedent more than at its rival, best head',
                    "“it” 对先行词的权重高于竞争者，最佳的头",
                ),
                best,
            ),
            *_without(right, cuts),
            Measurement(
                Text(
                    "the paper's last encoder layer, counted from 0",
                    "论文编码器的顶层（从 0 数起）",
                ),
                ModelConfig(vocab_size=1).encoder_layers - 1,
                equal(5),
            ),
        ),
        (
            *(looks[0].picture(fable) for fable in cases[:2]),
            bars(
                Text(
                    "How often the right pronoun is preferred when words may not look at others. "
                    "Half is chance.",
                    "禁止某些词关注其他词时，偏好正确代词的频率。一半即为碰巧。",
                ),
                {Text("nothing is cut", "不作切断"): fmean(right)}
                | {what: fmean(found) for what, found in cuts.items()},
                Text("right pronouns", "正确代词的比例"),
            ),
        ),
    )


def _reason(it_matters: bool, best: float) -> Text:
    """Say what was found: what "it" looks at, and whether that decides."""
    if it_matters:
        return _SOMETIMES
    look = _PREFERS if best > PREFERS else _INDIFFERENT
    return Text(look.en + _NEVER.en, look.zh + _NEVER.zh)


def _without(right: list[float], cuts: dict[Text, list[float]]) -> list[Measurement]:
    """Return the right pronouns behind each cut; those of the predicate are said to hurt."""
    hurts = at_most(fmean(right) - MATTERS)
    expected = {lines.what: hurts if lines.hurts else NOTED for lines in CUTS}
    return [
        Measurement.mean(
            Text(f"right pronouns if {what.en}", f"正确代词，若{what.zh}"), found, expected[what]
        )
        for what, found in cuts.items()
    ]


_INDIFFERENT = Text(
    'This model does not do it that way. "it" looks at its antecedent no more than at the rival, '
    "and when it may look",
    "这个模型并不是这样工作的。“it” 对先行词的关注并不多于对竞争者的关注；即使完全不许它看其他词，",
)
_PREFERS = Text(
    'This model does not do it that way. In some head "it" looks at its antecedent more than at '
    "the rival, yet when it may look",
    "这个模型并不是这样工作的。有的头里 “it” 更关注先行词；但即使完全不许它看其他词，",
)
_NEVER = Text(
    " at no other word at all, the pronouns stay right: it is the predicate "
    '("tired") that looks at the nouns, and pronouns suffer when it may not. The pictures of '
    "weights look like an explanation until the line is cut. This says nothing about larger "
    'models or longer training. "The 5th encoder" is counted from 0: the sixth and last.',
    "代词依然正确：是谓语（“tired”）在看名词，切断它代词才会变差。在切断连线之前，权重图看起来像是解释。"
    "这并不说明更大的模型或更久的训练会如何。“第 5 个编码器”是从 0 数起的：它是第六层，即顶层。",
)
_SOMETIMES = Text(
    'It holds of this model in part: pronouns suffer when "it" may not look at other words. But '
    "the predicate carries the antecedent too, as cutting its lines shows, and weights alone do "
    'not tell how much. "The 5th encoder" is counted from 0: the sixth and last.',
    "对这个模型部分成立：不许 “it” 看其他词时，代词会变差。"
    "但切断谓语的连线表明谓语也携带先行词的信息，"
    "仅看权重无法知道各占多少。“第 5 个编码器”是从 0 数起的：它是第六层，即顶层。",
)


@dataclass(frozen=True)
class Words:
    """Which source pieces are "it", the two candidates, and the word that decides."""

    pieces: list[str]
    it: list[int]
    antecedent: list[int]
    rival: list[int]
    predicate: list[int]

    @classmethod
    def of(cls, tokenizer: Tokenizer, fable: FableSentencePair) -> Words:
        """Find them."""
        found = fable.pronoun
        assert found
        pieces = [tokenizer.pieces[i] for i in tokenizer.encode(fable.source)]
        owners = _owners(pieces, fables.split_words(fable.source))
        wanted = (
            found.source_index,
            found.antecedent_index,
            found.distractor_index,
            found.predicate_index,
        )
        return cls(pieces, *([i for i, owner in enumerate(owners) if owner == w] for w in wanted))

    @property
    def nouns(self) -> list[int]:
        """Both candidates."""
        return self.antecedent + self.rival

    @property
    def everything(self) -> list[int]:
        """All pieces and the end."""
        return list(range(len(self.pieces) + 1))


def _owners(pieces: Sequence[str], words: Sequence[str]) -> list[int]:
    """Return the word that each piece belongs to, by counting letters without spaces."""
    ends = list(accumulate(len(word) for word in words))
    lengths = accumulate(len(piece.replace("▁", "")) for piece in pieces)
    return [next(word for word, end in enumerate(ends) if seen <= end) for seen in lengths]


Chosen = Callable[[Words], list[int]]


@dataclass(frozen=True)
class Cut:
    """Words of the source that may not look at others."""

    what: Text
    lookers: Chosen | None
    """None: the words of the target."""
    seen: Chosen
    hurts: bool = False
    """Whether pronouns are said to suffer from it."""


CUTS = (
    Cut(
        Text('"it" sees no other word', "“it” 看不到其他词"),
        lambda words: words.it,
        lambda words: words.everything,
    ),
    Cut(Text('the decoder does not see "it"', "解码器看不到 “it”"), None, lambda words: words.it),
    Cut(
        Text("the predicate does not see the nouns", "谓语看不到两个名词"),
        lambda words: words.predicate,
        lambda words: words.nouns,
        hurts=True,
    ),
    Cut(
        Text("the predicate sees no other word", "谓语看不到其他词"),
        lambda words: words.predicate,
        lambda words: words.everything,
        hurts=True,
    ),
)


class Looks:
    """A translator, and the sentences in which "it" has two candidates."""

    def __init__(self, bundle: Bundle, cases: Sequence[FableSentencePair]) -> None:
        self.model = bundle.build_model()
        self.tokenizers = bundle.tokenizers
        self.cases = cases
        self.words = [Words.of(bundle.tokenizers.source, fable) for fable in cases]

    def prefers_antecedent(self) -> Tensor:
        """Return how often "it" gives its antecedent more weight than the rival, [L, H]."""
        counts = []
        for fable, words in zip(self.cases, self.words, strict=True):
            from_it_LHS = self._weights(fable)[:, :, words.it].mean(dim=2)
            meant, rival = (from_it_LHS[:, :, w].sum(-1) for w in (words.antecedent, words.rival))
            counts.append(meant > rival)
        return torch.stack(counts).double().mean(dim=0)

    def right(self, lines: Cut | None = None) -> float:
        """Return how often the right translation is likelier than that with the other pronoun."""
        contrasts = [
            f.pronoun.contrastive_pair
            for f in self.cases
            if f.pronoun and f.pronoun.contrastive_pair
        ]
        sources = self.tokenizers.source.encode_batch([c.source for c in contrasts])
        with cut(self._places(lines), self._hidden(lines)):
            right, wrong = (
                log_probs(self.model, sources, self.tokenizers.target.encode_batch(targets))
                for targets in ([c.correct for c in contrasts], [c.wrong for c in contrasts])
            )
        return float((right > wrong).double().mean())

    def _places(self, lines: Cut | None) -> list[MultiHeadAttention]:
        if lines is None:
            return []
        if lines.lookers is None:
            return [layer.cross_attention for layer in self.model.decoder.layers]
        return encoder_heads(self.model)

    def _hidden(self, lines: Cut | None) -> Tensor:
        """Say which lines are cut, [B, 1, S or 1, S]; a word of the source always sees itself."""
        width = max(len(words.everything) for words in self.words)
        height = width if lines and lines.lookers else 1
        hidden = torch.zeros(len(self.words), 1, height, width, dtype=torch.bool)
        for row, words in enumerate(self.words if lines else ()):
            assert lines
            for looker in lines.lookers(words) if lines.lookers else [0]:
                hidden[row, 0, looker, lines.seen(words)] = True
        return hidden & ~torch.eye(width, dtype=torch.bool) if height > 1 else hidden

    @torch.no_grad()
    def _weights(self, fable: FableSentencePair) -> Tensor:
        """Return the encoder's weights for a sentence, [L, H, S, S]."""
        ear = Ear()
        self.model.encode(
            add_special_tokens_and_pad([self.tokenizers.source.encode(fable.source)]), ear
        )
        return torch.stack([record.weights_BHTS[0] for record in ear.encoder()])

    def picture(self, fable: FableSentencePair) -> Figure:
        """Draw the weights of "it", a row for each head, and their mean."""
        words = Words.of(self.tokenizers.source, fable)
        each_head = self._weights(fable)[:, :, words.it[0]]
        layers, heads, _ = each_head.shape
        rows = [
            Text(f"layer {i + 1}, head {h + 1}", f"第 {i + 1} 层，头 {h + 1}")
            for i in range(layers)
            for h in range(heads)
        ]
        return grids(
            Text(
                f'Attention from "it" in every head: {fable.source}',
                f"各个头中 “it” 的注意力：{fable.source}",
            ),
            {"": [*each_head.flatten(0, 1).tolist(), each_head.mean(dim=(0, 1)).tolist()]},
            [*rows, Text("mean of all heads", "所有头的平均")],
            [*(piece.replace("▁", "") or "·" for piece in words.pieces), Text("end", "结束")],
            size=6.5,
            height=2.8,
        )


@torch.no_grad()
def log_probs(model: Transformer, sources: list[list[int]], targets: list[list[int]]) -> Tensor:
    """Return the log-probability of each target, [B]."""
    batch = Batch.from_packed_ids(PackedIds.from_lists(sources), PackedIds.from_lists(targets))
    states = model.decode(batch.decoder_input_BT, model.encode(batch.source_BS))
    log_probs_BTV = model.output.log_probabilities(states)
    chosen_BT = log_probs_BTV.gather(2, batch.labels_BT[:, :, None]).squeeze(2)
    return chosen_BT.masked_fill(batch.labels_BT == PAD_ID, 0.0).sum(dim=1)
