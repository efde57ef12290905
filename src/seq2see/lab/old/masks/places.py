"""Items 45 and 46: which mask stands where, and what a missing one does."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from seq2see.data.corpus_config_and_reading import Corpus, CorpusConfig
from seq2see.data.encoded_corpus import EncodingOptions, encode_corpus
from seq2see.lab.old import pictures
from seq2see.lab.old.bench import Bench, Lesson, batch_of, pairs, untrained
from seq2see.lab.old.closeness import apart, differing
from seq2see.lab.old.ear import Ear
from seq2see.lab.old.expectation import at_least, at_most, equal
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.loss import smoothed_cross_entropy
from seq2see.model import (
    AttentionIntermediates,
    AttentionModuleId,
    EncoderOutput,
    Transformer,
    masked_softmax,
)
from seq2see.text import PAD_ID, TokenizerConfig, TokenizerPair

# B batch, H heads, T queries or target tokens, S keys or source tokens

SOURCE = torch.tensor([[4, 5, 6, 7, 8, 3], [9, 10, 3, PAD_ID, PAD_ID, PAD_ID]])
TARGET = torch.tensor([[2, 8, 7, 6, 5], [2, 10, 9, PAD_ID, PAD_ID]])
SITES = {
    AttentionModuleId("encoder", 0, "self"): Text("encoder", "编码器"),
    AttentionModuleId("decoder", 0, "self"): Text("decoder, self", "解码器自注意力"),
    AttentionModuleId("decoder", 0, "cross"): Text("decoder, memory", "解码器对源端"),
}
LONGEST = 8


@experiment(
    45,
    Text("Two masks, and where each stands", "两种掩码，各在何处"),
    "S3",
    Text(
        "There are two masks: the padding mask in every attention, the sequence mask in the "
        "decoder's self-attention alone. Of sentences that are too long the left part is kept.",
        "有两种掩码：padding mask 用于每一个 scaled dot-product attention，"
        "sequence mask 只作用于 decoder 的 self-attention。过长的句子只截取左边部分，其他的丢弃。",
    ),
    Text(
        "True for encoder and memory. In the decoder's self-attention causality already hides the "
        "padding behind a sentence. Nothing is cut off here: what is too long is counted.",
        "对编码器和源端记忆成立；解码器自注意力里，因果掩码已经挡住句尾的填充。"
        "这里不截断任何句子：过长的会被计数报告。",
    ),
)
def where_masks_stand(_: Bench) -> Finding:
    """Listen to all three attentions over a batch with padding."""
    model, ear = untrained(), Ear()
    with torch.no_grad():
        model(SOURCE, TARGET, ear)
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "it is not read as a need: padding stands behind the sentence, so the decoder's "
            "causal mask hides it from every real token, and a padding mask there changes no bit. "
            "Cutting off the right in silence is a choice, and not ours.",
            "不把它当作必需时成立：填充在句尾，因果掩码已使所有真实词看不到它，"
            "在那里再加 padding mask 一个比特也不变。悄悄截掉右边是一种选择，我们不这样做。",
        ),
        (*_hidden_keys(ear), *_padding(model), _too_long()),
        (_second_sentence(ear),),
    )


def _hidden_keys(ear: Ear) -> list[Measurement]:
    return [
        Measurement(
            Text(f"weight on hidden keys, {name.en}", f"落在被遮处的权重，{name.zh}"),
            _weight_on_hidden(ear.attention[site]),
            equal(0.0),
        )
        for site, name in SITES.items()
    ]


@torch.no_grad()
def _padding(model: Transformer) -> list[Measurement]:
    logits_BTV = model(SOURCE, TARGET)
    alone_BTV = model(SOURCE[1:, :3], TARGET[1:, :3])
    other_padding_BTV = model(SOURCE, TARGET.masked_fill(TARGET == PAD_ID, 9))
    return [
        Measurement(
            Text(
                "padded in a batch against alone: change of the logits",
                "批内填充与单独计算：logits 的变化",
            ),
            apart(logits_BTV[1:, :3], alone_BTV),
            at_most(1e-5),
        ),
        Measurement(
            Text(
                "other ids as target padding: numbers changed at real tokens",
                "换掉目标端填充的 id：真实词处变化的数",
            ),
            differing(logits_BTV[1, :3], other_padding_BTV[1, :3]),
            equal(0),
        ),
    ]


def _too_long() -> Measurement:
    reported, too_long = _left_out()
    return Measurement(
        Text(
            "pairs of more than 8 pieces that were reported as left out",
            "超过 8 个子词而被报告略去的句对",
        ),
        reported,
        equal(too_long),
    )


def _second_sentence(ear: Ear) -> Figure:
    return pictures.grids(
        Text(
            "Weights of the second sentence, head 1: its padding is hidden from every query, what "
            "comes later from each",
            "第二句第 1 个头的权重：填充对所有查询隐藏，后面的词对每个查询隐藏",
        ),
        {name: ear.attention[site].weights_BHTS[1, 0].tolist() for site, name in SITES.items()},
        size=2.4,
    )


def _weight_on_hidden(record: AttentionIntermediates) -> float:
    assert record.masked_BHTS is not None
    hidden_BHTS = record.masked_BHTS.expand_as(record.weights_BHTS)
    return float(record.weights_BHTS[hidden_BHTS].sum())


def _left_out() -> tuple[int, int]:
    """Encode digits with a limit; return how many pairs are said to be beyond it, and how many are.

    A digit and the space before it may be two pieces, so pieces are what is counted.
    """
    corpus = Corpus(CorpusConfig(files=("builtin:copy/test",)))
    sources, targets = zip(*corpus, strict=True)
    tokenizers = TokenizerPair.train(sources, targets, TokenizerConfig(vocab_size=280))
    with TemporaryDirectory() as folder:
        reported = encode_corpus(
            corpus, EncodingOptions(tokenizers, LONGEST), Path(folder)
        ).skipped.too_long
    pieces = [len(tokenizers.source.encode(source)) for source, _ in corpus]
    return reported, sum(count > LONGEST for count in pieces)


@experiment(
    46,
    Text("The padding mask in code", "填充掩码的代码"),
    "S3",
    Text(
        "equal(ids, 0) as numbers, given two axes and added as mask · −1e9, is the padding mask; "
        "the encoder's attention has it, the decoder's has padding + sequence.",
        "`equal(seq, 0)` 转成浮点并加两个轴，以 mask × −1e9 相加就是 padding mask；"
        "encoder 用它，decoder 用 padding mask + sequence mask。",
    ),
    Text(
        "Its weights are ours to rounding. But the decoder looks at the memory too, and there the "
        "source's padding must be hidden, which is not said. Without it weight goes to padding.",
        "权重与我们的只差舍入。但解码器还要看源端记忆，那里要遮的是源端的填充，笔记没有说。"
        "不遮，权重就会流到填充上。",
    ),
    trains=True,
)
def padding_mask_code(bench: Bench) -> Finding:
    """Compare the code with ours; then take the mask off the memory of trained models."""
    scores_BHTS = torch.randn(2, 4, 6, 6, generator=bench.generator())
    padding_BS = SOURCE == PAD_ID
    theirs_BHTS = added_mask_softmax(scores_BHTS, number_mask(SOURCE))
    ours_BHTS = masked_softmax(scores_BHTS, padding_BS[:, None, None, :])
    found = [_without_memory_mask(learned.model) for learned in bench.learn_all(Lesson())]
    masked, bare, on_padding = zip(*found, strict=True)
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "the mask on the encoder's memory is added to the list: without it the decoder of a "
            "trained model gives weight to padding, and a sentence's loss depends on its batch.",
            "补上对编码器记忆的掩码时成立：缺了它，训练好的解码器会把权重给填充，"
            "一句话的损失就取决于同批的其他句子。",
        ),
        (
            Measurement(
                Text("the notes' weights against ours", "笔记代码的权重与我们的差"),
                apart(theirs_BHTS, ours_BHTS),
                at_most(1e-6),
            ),
            Measurement.mean(
                Text("held-out loss, memory masked", "留出集损失，遮住源端填充"),
                masked,
                at_most(0.3),
            ),
            Measurement.mean(
                Text("held-out loss, memory not masked", "留出集损失，不遮源端填充"),
                bare,
                at_least(2 * max(masked)),
            ),
            Measurement.mean(
                Text(
                    "share of the decoder's attention to the source that is then on padding",
                    "此时解码器对源端的注意力落在填充上的比例",
                ),
                on_padding,
                at_least(0.01),
            ),
        ),
    )


def number_mask(ids_BS: Tensor) -> Tensor:
    """Return 1 where there is padding, as numbers, with the axes of heads and queries."""
    return (ids_BS == 0).float()[:, None, None, :]


def added_mask_softmax(scores_BHTS: Tensor, mask: Tensor) -> Tensor:
    """Add a large negative number where the mask is 1, then softmax: the notes' way."""
    return (scores_BHTS + mask * -1e9).softmax(dim=-1)


@torch.no_grad()
def _without_memory_mask(model: Transformer) -> tuple[float, float, float]:
    """Return the loss with the mask and without it, and the share of weight on padding then."""
    batch = batch_of(pairs("reverse", "test")[:300])
    memory, ear = model.encode(batch.source_BS), Ear()
    bare = EncoderOutput(memory.states_BSM, torch.zeros_like(memory.padding_BS))
    real_BT = batch.labels_BT != PAD_ID
    losses = []
    for seen in (memory, bare):
        states_BTM = model.decode(batch.decoder_input_BT, seen, ear)
        total = smoothed_cross_entropy(model.output(states_BTM[real_BT]), batch.labels_BT[real_BT])
        losses.append(float(total) / int(real_BT.sum()))
    weights_BHTS = ear.attention[AttentionModuleId("decoder", 1, "cross")].weights_BHTS
    on_padding_BHT = (weights_BHTS * memory.padding_BS[:, None, None, :]).sum(dim=-1)
    share = on_padding_BHT.mean(dim=1)[real_BT].mean()
    return losses[0], losses[1], float(share)
