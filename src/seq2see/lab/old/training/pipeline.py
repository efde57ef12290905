"""Items 50 and 55: the two ends of the model, from text to vectors and from vectors to words."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from seq2see.data import fables
from seq2see.engines.batching import add_special_tokens_and_pad
from seq2see.lab.old import pictures
from seq2see.lab.old.bench import Bench
from seq2see.lab.old.closeness import apart, differing
from seq2see.lab.old.expectation import at_least, at_most, between, equal, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.model import ModelConfig, Transformer
from seq2see.text import Tokenizer

# B batch, S source tokens, T target tokens, M features of the model, V vocabulary

SENTENCE = "The animal didn't cross the street because it was too tired."
WORDS = 10_000


@experiment(
    50,
    Text("From text to vectors", "从文本到向量"),
    "S2",
    Text(
        "Raw text → tokens → embeddings → model; a token is about a word.",
        "原始文本 → 分词 → 嵌入 → 模型；一个 token 大约是一个词。",
    ),
    Text(
        "The way there loses nothing: the pieces give the text back. On text like that of its "
        "training a tokenizer of 1,200 pieces needs few more than one a word; on other text more.",
        "一路上不丢信息：子词能还原原文。在与训练相似的文本上，1,200 个子词的分词器每词略多于一个；"
        "换别的文本就多了。",
    ),
    trains=True,
    translates=True,
)
def text_to_vectors(bench: Bench) -> Finding:
    """Take a sentence all the way, and count pieces per word."""
    bundle = bench.fables()
    tokenizer, model = bundle.tokenizers.source, bundle.build_model().eval()
    ids = tokenizer.encode(SENTENCE)
    with torch.no_grad():
        embedded_SM = model.encoder.embeddings(add_special_tokens_and_pad([ids]))[0]
        states_SM = model.encode(add_special_tokens_and_pad([ids])).states_BSM[0]
    pieces = [tokenizer.pieces[i].replace("▁", "_") for i in ids] + ["</s>"]
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "“about” is taken seriously: how many pieces a word has depends on what the tokenizer "
            "was trained on.",
            "认真对待“大约”二字时成立：一个词几个子词，取决于分词器是在什么文本上训练的。",
        ),
        (*_pieces(tokenizer), *_vectors(pieces, embedded_SM, states_SM)),
        (_embedded(pieces, embedded_SM),),
    )


def _pieces(tokenizer: Tokenizer) -> list[Measurement]:
    familiar = [fable.source for fable in fables.load_fables_split("test", short=True)]
    foreign = ["Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich."]
    return [
        Measurement(
            Text("text → ids → text gives the text back (1 = yes)", "文本→id→文本可还原（1 = 是）"),
            tokenizer.decode(tokenizer.encode(SENTENCE)) == SENTENCE,
            equal(1),
        ),
        Measurement(
            Text("pieces per word, fables", "每词的子词数，寓言语料"),
            _pieces_per_word(tokenizer, familiar),
            between(1.0, 1.8),
        ),
        Measurement(
            Text("pieces per word, German", "每词的子词数，德语"),
            _pieces_per_word(tokenizer, foreign),
            at_least(2.5),
        ),
    ]


def _vectors(pieces: list[str], embedded_SM: Tensor, states_SM: Tensor) -> list[Measurement]:
    return [
        Measurement(
            Text(
                "vectors into the model: one a piece, and the end",
                "进入模型的向量数：每子词一个加句末",
            ),
            len(embedded_SM),
            equal(len(pieces)),
        ),
        Measurement(
            Text("vectors out of the encoder", "编码器输出的向量数"),
            len(states_SM),
            equal(len(pieces)),
        ),
    ]


def _embedded(pieces: list[str], embedded_SM: Tensor) -> Figure:
    return pictures.grids(
        Text(
            "The sentence as the encoder gets it: a row for each piece, the first 32 features of "
            "embedding plus position",
            "编码器得到的句子：每行一个子词，嵌入加位置编码的前 32 维",
        ),
        {Text("embedding + position", "嵌入 + 位置"): embedded_SM[:, :32].tolist()},
        pieces,
        limits=(-3.0, 3.0),
        colours="RdBu",
        size=4.6,
    )


def _pieces_per_word(tokenizer: Tokenizer, sentences: list[str]) -> float:
    words = sum(len(sentence.split()) for sentence in sentences)
    return sum(map(len, tokenizer.encode_batch(sentences))) / words


@experiment(
    55,
    Text("Linear and softmax over 10,000 words", "一万个词上的 Linear 与 Softmax"),
    "S2",
    Text(
        "A linear layer makes of the decoder's vector 10,000 logits, softmax makes probabilities "
        "of them, and the cell with the highest one is the word.",
        "线性层把解码器的向量映射成 1 万格的 logits，Softmax 将其变为概率，"
        "选择概率最高的格子对应的单词作为输出。",
    ),
    Text(
        "So it is; softmax does not change which cell is highest, so greedy search could do "
        "without. Before training the loss is about ln 10,000 + ½ = 9.71, the ½ from logits of "
        "variance 1. With tied tables an untrained model bets on the word that it was just given.",
        "正是如此；Softmax 不改变哪格最高，贪婪解码其实用不着它。"
        "训练前的损失约为 ln 10000 + ½ = 9.71，½ 来自方差为 1 的 logits。"
        "若绑定词表，未训练的模型会押注刚刚输入的那个词。",
    ),
)
def words_from_vectors(bench: Bench) -> Finding:
    """Build the output layer over 10,000 words and look at it before training."""
    target_BT = torch.randint(4, WORDS, (8, 33), generator=bench.generator())
    states_NM, apart_model = _untrained(target_BT, "none")
    logits_NV = apart_model.output(states_NM)
    log_probs_NV = apart_model.output.log_probabilities(states_NM).detach()
    tied_states_NM, tied_model = _untrained(target_BT, "all")
    guesses_N = tied_model.output(tied_states_NM).argmax(dim=-1)
    labels_N = target_BT[:, 1:].flatten()
    return Finding(
        Verdict.HOLDS,
        Text(
            "the probabilities sum to 1 and the highest logit wins. It is where a small model's "
            "work goes: 5.12 million weights of the matrix alone.",
            "概率之和为 1，最高的 logit 获胜。"
            "小模型的计算多半花在这里：仅这个矩阵就有 512 万个权重。",
        ),
        (
            Measurement(
                Text("logits of a position", "每个位置的 logits"), logits_NV.size(1), equal(WORDS)
            ),
            Measurement(
                Text("weights of the matrix", "矩阵的权重数"),
                apart_model.output.tokens.weight_VM.numel(),
                equal(5_120_000),
            ),
            Measurement(
                Text("|sum of the probabilities − 1|", "|概率之和 − 1|"),
                apart(log_probs_NV.exp().sum(dim=-1), torch.ones(len(logits_NV))),
                at_most(1e-4),
            ),
            Measurement(
                Text("positions where softmax changes the winner", "Softmax 改变赢家的位置数"),
                differing(logits_NV.argmax(dim=-1), log_probs_NV.argmax(dim=-1)),
                equal(0),
            ),
            Measurement(
                Text("loss before training (ln V + ½ = 9.71)", "训练前的损失（ln V + ½ = 9.71）"),
                float(-log_probs_NV.gather(1, labels_N[:, None]).mean()),
                near(math.log(WORDS) + 0.5, 0.35),
            ),
            Measurement(
                Text(
                    "tied tables, before training: guesses that repeat the input",
                    "绑定词表、训练前：猜测等于输入词的比例",
                ),
                float((guesses_N == target_BT[:, :-1].flatten()).double().mean()),
                at_least(0.9),
            ),
        ),
    )


@torch.no_grad()
def _untrained(target_BT: Tensor, tie: str) -> tuple[Tensor, Transformer]:
    """Return the decoder's states for some text, in a row, and the model."""
    torch.manual_seed(1)
    config = ModelConfig(vocab_size=WORDS, encoder_layers=1, decoder_layers=1)
    model = Transformer.from_config(config.replace(embeddings={"tie": tie})).eval()
    memory = model.encode(target_BT)
    return model.decode(target_BT[:, :-1], memory).flatten(0, 1), model
