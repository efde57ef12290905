"""Items 53 and 54: the two stacks, and what joins them."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.engines.batching import collect_in_order
from seq2see.engines.torch_engine import TorchEngine
from seq2see.lab.old.bench import Bench, Lesson, batch_of, pairs
from seq2see.lab.old.closeness import apart
from seq2see.lab.old.ear import Ear
from seq2see.lab.old.expectation import at_least, at_most, equal
from seq2see.lab.old.experiment import Finding, Measurement, Text, Verdict, experiment
from seq2see.model import (
    AttentionModuleId,
    DecoderCache,
    EncoderOutput,
    KeyValues,
    ModelBuilder,
    ModelConfig,
    Transformer,
    count_parameters,
)
from seq2see.model.cache import LayerCache
from seq2see.search import SearchConfig, SentenceSearchInput
from seq2see.text import EOS_ID

# B batch, H heads, S source tokens, T target tokens, D features of a head, V vocabulary

BERT = ModelConfig(
    vocab_size=30_522,
    d_model=768,
    heads=12,
    d_ff=3072,
    encoder_layers=12,
    activation="gelu",
    positions=ModelConfig(vocab_size=8).positions.replace(kind="learned"),
    embeddings=ModelConfig(vocab_size=8).embeddings.replace(scale=False, norm=True, token_types=2),
)
"""The encoder of BERT base, from our parts."""


@experiment(
    53,
    Text("Six layers a side", "每侧六层"),
    "S0 S2",
    Text(
        "Encoder and decoder are six layers each, alike in structure and sharing no weights; the "
        "encoder alone is what BERT uses.",
        "编码器与解码器各堆 6 层，结构相同但不共享权重；单独的 Encoder 部分就是 BERT 所用的。",
    ),
    Text(
        "`base` has 6 + 6 layers without a common parameter. Our encoder alone, with learned "
        "positions, token types, GELU and a norm on the embeddings, has BERT base's 108,891,648 "
        "parameters: it is the Transformer's encoder with other parts in four places.",
        "`base` 有 6 + 6 层，没有公共参数。我们的编码器换上可学习位置、句段类型、GELU 和嵌入后的"
        "归一化，参数数正是 BERT base 的 108,891,648：它是换了四处部件的 Transformer 编码器。",
    ),
)
def layers(_: Bench) -> Finding:
    """Count layers and parameters, those of BERT too."""
    with torch.device("meta"):
        model = Transformer.from_config(ModelConfig.from_preset("base", vocab_size=1000))
        bert = ModelBuilder(BERT).build_encoder()
    stacks = [*model.encoder.layers, *model.decoder.layers]
    each = [count_parameters(layer) for layer in stacks]
    return Finding(
        Verdict.HOLDS,
        Text(
            "no layer shares a parameter with another. “What BERT uses” is the structure: BERT "
            "changed the activation, the positions, and what stands on the embeddings.",
            "没有两层共享参数。“BERT 所用”指结构：BERT 换了激活函数、位置编码和嵌入之后的部分。",
        ),
        (
            Measurement(Text("layers of base", "base 的层数"), len(stacks), equal(12)),
            Measurement(
                Text("parameters that two layers share", "两层共享的参数"),
                sum(each) - count_parameters(*stacks),
                equal(0),
            ),
            Measurement(
                Text("parameters of an encoder layer", "一个编码器层的参数"),
                each[0],
                equal(3_152_384),
            ),
            Measurement(
                Text("parameters of a decoder layer", "一个解码器层的参数"),
                each[-1],
                equal(4_204_032),
            ),
            Measurement(
                Text("our encoder alone with BERT's parts", "换上 BERT 部件的编码器的参数"),
                count_parameters(bert),
                equal(108_891_648),
            ),
        ),
    )


@experiment(
    54,
    Text("What the decoder gets, and when it stops", "解码器得到什么，何时停止"),
    "S2",
    Text(
        "The top encoder's output becomes a set of K and V, given to the encoder–decoder attention "
        "of every decoder; decoding goes on until a special symbol.",
        "最上层编码器的输出被转换成一组 K 和 V，输入到每个解码器的 Encoder-Decoder Attention 层；"
        "解码不断重复，直到生成特殊符号。",
    ),
    Text(
        "The memory reaches every layer, but each makes K and V of its own from it: there are as "
        "many sets as layers. Taking the memory from any one layer changes the output.",
        "记忆到达每一层，但每层各自由它算出自己的 K 和 V：有几层就有几组。"
        "拿走任何一层的记忆，输出都会变。",
    ),
    trains=True,
)
def memory_and_stop(bench: Bench) -> Finding:
    """Listen to the cross-attentions of a trained model, cut them off, and let it decode."""
    model = bench.learn(Lesson()).model
    batch = batch_of(pairs("reverse", "test")[:50])
    with torch.no_grad():
        memory = model.encode(batch.source_BS)
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "“a set of K and V” is read as one set for each decoder layer: the memory is common, "
            "the matrices are not. Every layer's share counts, and sentences end with the stop "
            "symbol.",
            "“一组 K 和 V”读作每层一组时成立：记忆是公共的，矩阵不是。"
            "每一层的那份都有作用，句子以停止符结束。",
        ),
        (
            *_keys(model, memory, batch.decoder_input_BT),
            *_taken(model, memory, batch.decoder_input_BT),
            *_stops(model),
        ),
    )


@torch.no_grad()
def _keys(model: Transformer, memory: EncoderOutput, target_BT: Tensor) -> list[Measurement]:
    ear = Ear()
    model.decode(target_BT, memory, ear)
    first, second = (
        ear.attention[AttentionModuleId("decoder", layer, "cross")] for layer in (0, 1)
    )
    remembered = model.init_cache(memory).layers[1].memory
    return [
        Measurement(
            Text(
                "keys of layer 2 against W_K of layer 2 · memory",
                "第 2 层的 K 与该层由记忆算出的 K 之差",
            ),
            apart(second.keys_BHSD, remembered.keys_BHSD),
            at_most(1e-6),
        ),
        Measurement(
            Text("keys of layer 1 against keys of layer 2", "第 1 层与第 2 层的 K 之差"),
            apart(first.keys_BHSD, second.keys_BHSD),
            at_least(0.1),
        ),
    ]


def _taken(model: Transformer, memory: EncoderOutput, target_BT: Tensor) -> list[Measurement]:
    return [
        Measurement(
            Text(
                f"change of the logits, memory taken from layer {layer + 1}",
                f"拿走第 {layer + 1} 层的记忆，logits 的变化",
            ),
            _change_without(model, memory, target_BT, layer),
            at_least(0.1),
        )
        for layer in range(2)
    ]


def _stops(model: Transformer) -> list[Measurement]:
    found = _decoded(model)
    return [
        Measurement(
            Text("sentences that end with the stop symbol, of 200", "以停止符结束的句子（共 200）"),
            sum(tokens[-1] == EOS_ID for tokens in found),
            at_least(199),
        ),
        Measurement(
            Text("stop symbols inside a sentence", "句中出现的停止符"),
            sum(EOS_ID in tokens[:-1] for tokens in found),
            equal(0),
        ),
    ]


@torch.no_grad()
def _change_without(
    model: Transformer, memory: EncoderOutput, target_BT: Tensor, layer: int
) -> float:
    """Return how far the logits move if one layer's keys and values of the memory are zero."""
    usual = model.output(model.decode(target_BT, memory))
    cache = model.init_cache(memory)
    kept = cache.layers[layer].memory
    nothing = KeyValues(torch.zeros_like(kept.keys_BHSD), torch.zeros_like(kept.values_BHSD))
    cache = DecoderCache([*cache.layers], cache.memory_padding_BS)
    cache.layers[layer] = LayerCache(nothing)
    return apart(model.output(model.step(target_BT, cache)), usual)


def _decoded(model: Transformer) -> list[tuple[int, ...]]:
    sources = [source for source, _ in pairs("reverse", "test")[:200]]
    lines = [SentenceSearchInput([*source, EOS_ID]) for source in sources]
    found = collect_in_order(TorchEngine(model).search(lines, SearchConfig(beam_size=1)))
    return [hypotheses[0].tokens for hypotheses in found]
