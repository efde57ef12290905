"""Item 57: greedy and beam search on a table of probabilities that can be worked by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from matplotlib.axes import Axes
from torch import Tensor

from seq2see.draw import BLUE, GRAY, ORANGE
from seq2see.lab.old.bench import Bench
from seq2see.lab.old.expectation import equal, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.pictures import sketch
from seq2see.search import (
    CandidateStatus,
    Hypothesis,
    SearchConfig,
    SentenceSearchInput,
    StepOutput,
    StepRecord,
    search,
)

# B rows, K beams, V vocabulary

PAD, BOS, EOS = 0, 1, 2
WORDS = ("<pad>", "<s>", "</s>", "i", "a", "am", "student")
Table = Mapping[tuple[str, ...], Mapping[str, float]]
TABLE: Table = {
    (): {"i": 0.5, "a": 0.4, "am": 0.1},
    ("i",): {"am": 0.4, "a": 0.35, "</s>": 0.25},
    ("a",): {"student": 0.9, "</s>": 0.1},
    ("i", "am"): {"</s>": 0.6, "a": 0.4},
    ("a", "student"): {"</s>": 0.8, "am": 0.2},
}
"""What follows what. Greedy takes “i am”, 0.5 · 0.4 · 0.6 = 0.12; “a student” has 0.288."""
ONE_PARENT: Table = {
    (): {"i": 0.7, "a": 0.3},
    ("i",): {"am": 0.5, "a": 0.5},
    ("a",): {"student": 0.6, "</s>": 0.4},
}
"""Here both continuations of “i” (0.35 each) beat every one of “a” (0.18, 0.12)."""
COLOURS = {CandidateStatus.ALIVE: BLUE, CandidateStatus.FINISHED: ORANGE}
BEAM = SearchConfig(beam_size=2, n_best=2, length_penalty=0.0)
GREEDY = SearchConfig(beam_size=1, length_penalty=0.0)


class TableDecoder:
    """A model that looks its predictions up."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._prefixes: list[tuple[str, ...]] = [()]
        self._started = False

    def step(self, tokens_BK: Tensor) -> StepOutput:
        """Take the last words, and tell what may follow."""
        if self._started:
            words = [WORDS[token] for token in tokens_BK[0].tolist()]
            self._prefixes = [(*p, w) for p, w in zip(self._prefixes, words, strict=True)]
        self._started = True
        rows = [
            [self._follows(prefix).get(word, 0.0) for word in WORDS] for prefix in self._prefixes
        ]
        return StepOutput(torch.tensor([rows]).log())

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Keep the prefixes that go on; there is one sentence."""
        assert len(rows_B) <= 1
        self._prefixes = [self._prefixes[parent] for parent in parents_BK.flatten().tolist()]

    def _follows(self, prefix: tuple[str, ...]) -> Mapping[str, float]:
        return self._table.get(prefix, {"</s>": 1.0})


class Steps:
    """An observer that keeps every candidate of every step."""

    def __init__(self) -> None:
        self.records: list[StepRecord] = []

    def step(self, record: StepRecord) -> None:
        """Keep it."""
        self.records.append(record)


@experiment(
    57,
    Text("Greedy and beam search", "贪婪解码与束搜索"),
    "S2",
    Text(
        "Greedy search takes the likeliest word and drops the rest. Beam search with beam_size 2 "
        "tries both “I” and “a”, and keeps “I” if its second word has the smaller error; top_beams "
        "2 returns two translations.",
        "贪婪解码选概率最高的词、丢弃其余。beam search：分别以“I”和“a”作为第一个词预测下一步，"
        "哪个的误差小就保留哪个；beam_size 为 2，top_beams 为 2 表示返回两个翻译。",
    ),
    Text(
        "Greedy finds “i am” (0.12), the beam “a student” (0.288). Pruning ranks all continuations "
        "of all prefixes together: both survivors may come from one prefix, and “I” and “a” may "
        "both stay.",
        "贪婪得到“i am”（0.12），束搜索得到“a student”（0.288）。"
        "剪枝是把所有前缀的所有续写放在一起排序："
        "两个幸存者可能来自同一前缀，“I”和“a”也可能都留下。",
    ),
)
def greedy_and_beam(_: Bench) -> Finding:
    """Search the table both ways, and follow every candidate."""
    steps = Steps()
    (greedy,) = _searched(TABLE, GREEDY)
    best, second = _searched(TABLE, BEAM, steps)
    one_parent = Steps()
    _searched(ONE_PARENT, BEAM, one_parent)
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "“keep I or a” is dropped. No first word is chosen over another: at each step the two "
            "best of all continuations stay, from one prefix or from two.",
            "去掉“保留 I 还是 a”的说法时成立。并不是在首词之间二选一："
            "每一步留下的是所有续写中最好的两个，"
            "可能来自一个前缀，也可能来自两个。",
        ),
        (
            Measurement(
                Text("greedy: probability of “i am”", "贪婪：“i am”的概率"),
                _probability(greedy, "i am"),
                near(0.12, 1e-6),
            ),
            Measurement(
                Text("beam 2: probability of “a student”", "束宽 2：“a student”的概率"),
                _probability(best, "a student"),
                near(0.288, 1e-6),
            ),
            Measurement(
                Text(
                    "top_beams 2: its second translation, “i am”", "top_beams 2：第二个翻译“i am”"
                ),
                _probability(second, "i am"),
                near(0.12, 1e-6),
            ),
            Measurement(
                Text("first words alive behind step 2", "第 2 步后仍存活的首词数"),
                len(set(_parents_alive(steps.records[1]))),
                equal(2),
            ),
            Measurement(
                Text(
                    "the other table: first words alive behind step 2",
                    "另一张表：第 2 步后仍存活的首词数",
                ),
                len(set(_parents_alive(one_parent.records[1]))),
                equal(1),
            ),
        ),
        (tree(steps),),
    )


def _searched(
    table: Table, config: SearchConfig, observer: Steps | None = None
) -> list[Hypothesis]:
    """Search one sentence."""
    decoder = TableDecoder(table)
    (found,) = search(
        decoder,
        [SentenceSearchInput([PAD] * 3)],
        config,
        bos=BOS,
        eos=EOS,
        pad=PAD,
        observer=observer,
    )
    return found


def _probability(hypothesis: Hypothesis, expected: str) -> float:
    """Return its probability, or 0 if it has other words."""
    words = " ".join(WORDS[token] for token in hypothesis.tokens_without_eos)
    return math.exp(hypothesis.log_prob) if words == expected else 0.0


def _parents_alive(record: StepRecord) -> list[int]:
    alive_C = record.statuses_BC[0] == CandidateStatus.ALIVE
    parents: list[int] = record.candidates.parents_BC[0][alive_C].tolist()
    return parents


def worked_beam() -> Figure:
    """Draw the tree of the first table."""
    steps = Steps()
    _searched(TABLE, BEAM, steps)
    return tree(steps)


def tree(steps: Steps) -> Figure:
    """Draw every candidate that was looked at, step by step, and what became of it."""
    caption = Text(
        "Beam search, beam_size 2: probability of each prefix. Blue goes on, orange has ended, "
        "grey was pruned",
        "束搜索，beam_size 2：每个前缀的概率。蓝色继续，橙色已结束，灰色被剪掉",
    )
    with sketch(caption, 7.0, 3.4) as made:
        axes = made.canvas.subplots()
        axes.axis("off")
        _label(axes, (0.0, 0.0), "<s>", BLUE)
        homes = [(0.0, 0.0)]
        for number, record in enumerate(steps.records, 1):
            homes = _draw_step(axes, number, record, homes)
        axes.set_xlim(-0.3, len(steps.records) + 0.5)
        axes.margins(y=0.15)
    return made.figure


def _draw_step(
    axes: Axes, number: int, record: StepRecord, homes: list[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Draw the candidates of a step, joined to where they come from; return where each beam is."""
    fates, beams = record.statuses_BC[0].tolist(), record.next_beam_BC[0].tolist()
    real = [place for place, fate in enumerate(fates) if fate != CandidateStatus.NONE]
    alive: dict[int, tuple[float, float]] = {}
    for rank, place in enumerate(real):
        word = WORDS[int(record.candidates.tokens_BC[0, place])]
        parent = homes[int(record.candidates.parents_BC[0, place])]
        here = (float(number), (len(real) - 1) / 2 - rank)
        label = f"{word}  {math.exp(float(record.candidates.beam_scores_BC[0, place])):.3f}"
        colour = COLOURS.get(CandidateStatus(fates[place]), GRAY)
        axes.plot(*zip(parent, here, strict=True), color=colour, linewidth=1.2, zorder=0)
        _label(axes, here, label, colour)
        alive[beams[place]] = here
    return [alive[beam] for beam in sorted(alive) if beam >= 0]


def _label(axes: Axes, at: tuple[float, float], label: str, colour: str) -> None:
    box = {"boxstyle": "round,pad=0.35", "facecolor": colour, "edgecolor": "none"}
    axes.text(*at, label, ha="center", va="center", fontsize=8, color="#ffffff", bbox=box)
