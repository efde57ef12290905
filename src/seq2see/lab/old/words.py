"""The lab's own words, in both languages: headings of reports, names of the notes."""

from __future__ import annotations

from collections.abc import Mapping

from seq2see.lab.old.experiment import Note, Text

NOTES: Mapping[Note, Text] = {
    "S0": Text("questions and answers on scaling", "关于缩放的问答"),
    "S1": Text("ten questions and answers", "十个问答"),
    "S2": Text(
        "the architecture, after The Illustrated Transformer", "架构解析（图解 Transformer）"
    ),
    "S3": Text(
        "interview notes by module, with TensorFlow code", "分模块面试笔记（含 TensorFlow 代码）"
    ),
    "S4": Text("a course chapter on softmax and scaling", "课程：softmax 与缩放"),
}
TOPICS: Mapping[int, Text] = {
    1: Text("Scaling and softmax", "缩放与 softmax"),
    13: Text("Attention", "注意力"),
    25: Text("Heads", "多头"),
    30: Text("Position", "位置"),
    38: Text("Normalisation, residual, dropout, feed-forward", "归一化、残差、dropout、前馈网络"),
    45: Text("Masks", "掩码"),
    50: Text("The model, training and decoding", "模型、训练与解码"),
}
"""Topics by the number of their first experiment."""
TITLE = Text("The lab", "实验室")
ABOUT = Text(
    "Claims about the Transformer from five sets of Chinese study notes, each as an experiment on "
    "the code of this project: what is claimed, what was predicted, what was measured, and what "
    "became of the claim. A claim that is false is an experiment that succeeded; a number that is "
    "not as expected is one that failed.",
    "五份中文学习笔记中关于 Transformer 的说法，每一条都是在本项目代码上运行的实验：说法是什么、"
    "预测是什么、测得了什么、结论如何。说法不成立，实验照样成功；测得的数与预期不符，实验才算失败。",
)
CLAIM = Text("Claim", "说法")
PREDICTION = Text("Prediction", "预测")
VERDICT = Text("Verdict", "结论")
MEASURED = Text("Measured", "测量")
VALUE = Text("Value", "数值")
EXPECTED = Text("Expected", "预期")
EXPERIMENT = Text("Experiment", "实验")
CODE = Text("The experiment as code", "实验代码")
GALLERY = Text("Gallery", "画廊")
NEEDS_FULL = Text("needs --full", "需要 --full")
FAILED = Text("not as expected", "与预期不符")
BROKEN = Text("The experiment broke:", "实验出错：")
TRAINS = Text("trains", "需训练")
ALL = Text("all", "全部")
SEEDS = Text(
    "σ is the standard deviation over n seeds. What has — as its expectation is noted, not judged.",
    "σ 为 n 个随机种子间的标准差。预期为 — 的数只作记录，不作判断。",
)


def topic_of(number: int) -> Text:
    """Return the topic that an experiment belongs to."""
    return TOPICS[max(first for first in TOPICS if first <= number)]
