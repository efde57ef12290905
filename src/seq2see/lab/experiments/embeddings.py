"""Experiments 50, 51, 52 and 55: from text to vectors, and from vectors to words."""

from collections.abc import Mapping
from statistics import fmean, geometric_mean

import torch
from torch import Tensor, nn

from seq2see.data import fables
from seq2see.engines.batching import add_special_tokens_and_pad
from seq2see.lab.core import (
    Context,
    Numbers,
    Part,
    at_least,
    at_most,
    between,
    experiment,
    false,
    holds,
    holds_if,
    near,
)
from seq2see.lab.figures import Bars, Heatmaps
from seq2see.lab.models import count_flops, max_abs_diff
from seq2see.lab.training import COPY, REVERSE, SORT, TrainingSpec, greedy, to_batch
from seq2see.model import ModelConfig, Transformer, compute_sinusoids, count_parameters
from seq2see.model.embeddings import OutputProjection, TokenEmbedding
from seq2see.text import EOS_ID, PAD_ID

# B batch, S source tokens, T target tokens, N tokens of the batch, M features of the model,
# V vocabulary

SENTENCE = "The animal didn't cross the street because it was too tired."
GERMAN = [
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "Die Katze schläft unter dem Tisch, und der Hund bellt im Garten.",
    "Gestern haben wir zwischen hohen Bergen einen tiefen See entdeckt.",
]


# "About a word": up to one and a half pieces per word. Two pieces per word are not about one.
@experiment(
    50,
    Part("lossless", holds(near("returned", 1, 0)), false(at_most("returned", 0.99))),
    Part(
        "word",
        holds_if(between("pieces_fables", 0.9, 1.5), at_least("pieces_german", 2)),
        holds(between("pieces_fables", 0.9, 1.5), between("pieces_german", 0.9, 1.5)),
        false(at_least("pieces_fables", 2)),
    ),
    needs_translator=True,
    figures=[Heatmaps("vectors", ["embedded"], colors="RdBu", numbers=False)],
)
@torch.no_grad()
def text_to_vectors(context: Context) -> Numbers:
    """Encode and decode sentences; count the pieces per word of known and of other text."""
    tokenizer = context.translator.tokenizers.source
    lines = [fable.source for fable in fables.load_fables_split("test", short=True)[:1000]]
    returned = tokenizer.decode_batch(tokenizer.encode_batch(lines))
    ids_BS = add_special_tokens_and_pad([tokenizer.encode(SENTENCE)])
    return {
        "returned": sum(a == b for a, b in zip(returned, lines, strict=True)) / len(lines),
        "lines": len(lines),
        "pieces_fables": sum(map(len, tokenizer.encode_batch(lines))) / count_words(lines),
        "pieces_german": sum(map(len, tokenizer.encode_batch(GERMAN))) / count_words(GERMAN),
        "vocabulary": tokenizer.vocab_size,
        "embedded": context.translator.build_model().eval().encoder.embeddings(ids_BS)[0, :, :32],
    }


def count_words(lines: list[str]) -> int:
    """Return the number of words separated by spaces."""
    return sum(len(line.split()) for line in lines)


WORDS, D_MODEL = 37_000, 512


def count_base_parameters(tie: str) -> int:
    """Return the parameters of `base` with 37,000 words, without allocating them."""
    config = ModelConfig.from_preset("base", vocab_size=WORDS).replace(embeddings={"tie": tie})
    with torch.device("meta"):
        return count_parameters(Transformer.from_config(config))


EARLY = REVERSE.replace(updates=100)


# Of several thousand predictions, 1 % decides; a loss that is 5 % lower is lower in each seed.
@experiment(
    51,
    Part("saves", holds(at_least("saved_share", 1)), false(at_most("saved_share", 0))),
    Part(
        "nearest",
        holds(at_least("nearest_share", 0.99)),
        false(at_most("nearest_share", 0.9)),
    ),
    Part("faster", false(at_least("loss_ratio", 1)), holds(at_most("loss_ratio", 0.95))),
    trainings={"tied": EARLY, "untied": EARLY.with_model(embeddings={"tie": "none"})},
    needs_translator=True,
    log=["loss_ratio", "tied_loss", "untied_loss"],
    figures=[
        Bars("parameters", ["parameters_all", "parameters_decoder", "parameters_none"], "count")
    ],
)
@torch.no_grad()
def tied_embeddings(context: Context) -> Numbers:
    """Count parameters, find the rows that are nearest to decoder states, and compare training."""
    counts = {tie: count_base_parameters(tie) for tie in ("all", "decoder", "none")}
    states_NM, output = _decoder_states(context)
    rows_VM, logits_NV = output.tokens.weight_VM, output(states_NM)
    best_N, lengths_V = logits_NV.argmax(dim=-1), rows_VM.norm(dim=-1)
    nearest_N = torch.cdist(states_NM, rows_VM).argmin(dim=-1)
    angle_N = (logits_NV / lengths_V).argmax(dim=-1)
    tied, untied = context.trained["tied"].nll, context.trained["untied"].nll
    return {
        **{f"parameters_{tie}": count for tie, count in counts.items()},
        "saved_share": (counts["none"] - counts["all"]) / (2 * WORDS * D_MODEL),
        "nearest_share": float((best_N == nearest_N).double().mean()),
        "angle_share": float((best_N == angle_N).double().mean()),
        "row_length_ratio": float(lengths_V.max() / lengths_V.min()),
        "tied_loss": tied,
        "untied_loss": untied,
        "loss_ratio": tied / untied,
    }


def _decoder_states(context: Context) -> tuple[Tensor, OutputProjection]:
    """Return the states of the translator's decoder for test sentences, [N, M], and its output."""
    bundle, some = context.translator, fables.load_fables_split("test", short=True)[:200]
    pairs = list(
        zip(
            bundle.tokenizers.source.encode_batch([each.source for each in some]),
            bundle.tokenizers.target.encode_batch([each.target for each in some]),
            strict=True,
        )
    )
    model, batch = bundle.build_model().eval(), to_batch(pairs)
    states_BTM = model.decode(batch.decoder_input_BT, model.encode(batch.source_BS))
    return states_BTM[batch.labels_BT != PAD_ID], model.output


def _scale_trainings(full: bool) -> Mapping[str, TrainingSpec]:
    del full
    specs = {f"{each.task}": each.replace(updates=200) for each in (REVERSE, COPY, SORT)}
    return specs | {
        f"{name}_unscaled": spec.with_model(embeddings={"scale": False})
        for name, spec in specs.items()
    }


# 19 million numbers: the standard error of a variance of 1 is below 0.0004. The square of a
# sinusoid's features is 0.5 on average. The mean loss of all updates, over three tasks, varies less
# than the last loss; a tenth of it is visible in the curves.
@experiment(
    52,
    Part(
        "variance",
        holds_if(
            near("variance_own", 1, 0.01),
            at_most("variance_xavier", 0.1),
            at_least("variance_unit", 100),
        ),
        false(at_most("variance_own", 0.9)),
    ),
    Part("faster", holds(at_least("loss_ratio", 1.1)), false(at_most("loss_ratio", 1.05))),
    trainings=_scale_trainings,
    log=["loss_ratio", "ratio_*"],
)
@torch.no_grad()
def scaled_embeddings(context: Context) -> Numbers:
    """Measure the variance of scaled embeddings by initialization; train without the factor."""
    torch.manual_seed(context.mix_seed("weights"))
    own_VM, blank_VM = TokenEmbedding(WORDS, D_MODEL).weight_VM, torch.empty(WORDS, D_MODEL)
    losses = {name: fmean(trained.losses) for name, trained in context.trained.items()}
    ratios = {
        f"ratio_{task}": losses[f"{task}_unscaled"] / losses[task]
        for task in ("reverse", "copy", "sort")
    }
    return {
        "variance_own": D_MODEL * float(own_VM.var()),
        "variance_xavier": D_MODEL * float(nn.init.xavier_uniform_(blank_VM).var()),
        "variance_unit": D_MODEL * float(nn.init.normal_(blank_VM).var()),
        "positions": float(compute_sinusoids(torch.arange(50), D_MODEL).square().mean()),
        **ratios,
        "loss_ratio": geometric_mean(ratios.values()),
    }


OUTPUT_WORDS = 10_000


# Sums of 10,000 probabilities in float32 differ from 1 by less than 1e-5; logits of size 1 by hand
# agree to 1e-4.
@experiment(
    55,
    Part(
        "logits",
        holds(near("logits", OUTPUT_WORDS, 0), at_most("logits_error", 1e-4)),
        false(at_least("logits_error", 1e-2)),
    ),
    Part(
        "softmax",
        holds(at_most("sum_error", 1e-5), at_least("least", 0)),
        false(at_least("sum_error", 1e-3)),
    ),
    Part("argmax", holds(near("greedy_share", 1, 0)), false(at_most("greedy_share", 0.9))),
)
@torch.no_grad()
def linear_and_softmax(context: Context) -> Numbers:
    """Compute logits by hand, and compare the most probable words with those of greedy search."""
    torch.manual_seed(context.mix_seed("weights"))
    config = ModelConfig(vocab_size=OUTPUT_WORDS, d_model=256, encoder_layers=1, decoder_layers=1)
    model = Transformer.from_config(config.replace(embeddings={"tie": "none"})).eval()
    sources: list[list[int]] = torch.randint(
        4, OUTPUT_WORDS, (20, 10), generator=context.rng("ids")
    ).tolist()
    translations = [ids[:10] for ids in greedy(model, sources)]
    batch = to_batch(list(zip(sources, translations, strict=True)))
    states_BTM = model.decode(batch.decoder_input_BT, model.encode(batch.source_BS))
    is_word_BT = (batch.labels_BT != PAD_ID) & (batch.labels_BT != EOS_ID)
    log_probs_BTV = model.output.log_probabilities(states_BTM)
    logits_BTV, rows_VM = model.output(states_BTM), model.output.tokens.weight_VM
    by_hand_BTV = torch.stack([states_BTM @ row_M for row_M in rows_VM[:100]], dim=-1)
    is_best_BT = log_probs_BTV.argmax(dim=-1) == batch.labels_BT
    flops = count_flops(lambda: model.output(states_BTM))
    return {
        "logits": logits_BTV.size(-1),
        "logits_error": max_abs_diff(by_hand_BTV, logits_BTV[..., :100]),
        "sum_error": max_abs_diff(log_probs_BTV.exp().sum(dim=-1), torch.ones(())),
        "least": float(log_probs_BTV.exp().min()),
        "greedy_share": float(is_best_BT[is_word_BT].double().mean()),
        "flops_share": flops / count_flops(lambda: model(batch.source_BS, batch.decoder_input_BT)),
    }
