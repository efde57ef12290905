"""The model directory: saving and loading, errors, and atomic replacement."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest
import torch
from safetensors.torch import load_file, save_file

from seq2see import __version__, atomic_files
from seq2see.atomic_files import compute_sha256
from seq2see.bundle import (
    FORMAT_VERSION,
    Bundle,
    DatasetInfo,
    Provenance,
    ReportedScore,
    StartAndEndTokenIds,
    bundle,
    count_weights,
    files,
)
from seq2see.errors import ConfigError, InputError, Seq2SeeError
from seq2see.model import ModelConfig, Transformer, count_parameters
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.text.tokenizer import JOINT_FILE
from seq2see.text.training_text_statistics import measure_training_text

LINES = [(f"the animal number {n} crossed", f"l'animal {n} a traversé") for n in range(60)]
SOURCE, TARGET = ([pair[side] for pair in LINES] for side in (0, 1))
SIGNATURE = "nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:2.6.0"
ORIGIN = Provenance(
    recipe={"train": {"minutes": 90, "files": ["a.en", "a.fr"]}},
    data=[DatasetInfo(name="fables", fingerprint="ab" * 32, pairs=29_000)],
    scores=[ReportedScore(data="test_2016", metric="BLEU", value=41.02, signature=SIGNATURE)],
    commit="1234abc",
    date="2026-01-31",
    seconds=5400.0,
    updates=12_000,
    notes={"kept": "the mean | of 5"},
)


@pytest.fixture(scope="module")
def joint() -> TokenizerPair:
    return TokenizerPair.train(SOURCE, TARGET, TokenizerConfig(vocab_size=320))


@pytest.fixture(scope="module")
def apart() -> TokenizerPair:
    both = [
        TokenizerPair.train(lines, lines, TokenizerConfig(vocab_size=size)).source
        for lines, size in ((SOURCE, 300), (TARGET, 310))
    ]
    return TokenizerPair(*both)


def config_of(tokenizers: TokenizerPair, **settings) -> ModelConfig:
    small = {"d_model": 16, "d_ff": 24, "heads": 2, "encoder_layers": 2, "decoder_layers": 1}
    sizes = {"vocab_size": tokenizers.source.vocab_size}
    if not tokenizers.is_joint:
        sizes["target_vocab_size"] = tokenizers.target.vocab_size
    return ModelConfig(**small | sizes | settings)


def make(tokenizers: TokenizerPair, **settings) -> tuple[Transformer, Bundle]:
    config = config_of(tokenizers, **settings)
    model = Transformer.from_config(config)
    return model, Bundle(
        config,
        tokenizers,
        ("en", "fr"),
        model.state_dict(),
        max_length=99,
        provenance=ORIGIN,
        training_text=measure_training_text(LINES, ("en", "fr"), tokenizers),
    )


@pytest.fixture(scope="module")
def sound(joint: TokenizerPair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("sound")
    make(joint)[1].save(home)
    return home


@pytest.fixture
def saved(sound: Path, tmp_path: Path) -> Path:
    return shutil.copytree(sound, tmp_path / "model")


KINDS = {
    "all": {},
    "decoder": {"embeddings": {"tie": "decoder", "output_bias": True}},
    "none": {"embeddings": {"tie": "none", "token_types": 2, "norm": True}},
    "batch norm": {"norm": {"kind": "batch"}},
    "learned": {"positions": {"kind": "learned"}, "norm": {"placement": "pre"}},
    "relative": {"positions": {"kind": "relative"}},
    "shared": {"attention": {"kind": "additive", "shared_qk": True, "bias": False}},
    "linformer": {"encoder_attention": {"kind": "linformer"}},
    "qk_norm": {"attention": {"kind": "qk_norm"}},
}


def assert_same_model(ours: Transformer, loaded: Transformer) -> None:
    before, after = ours.state_dict(), loaded.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert count_parameters(ours) == count_parameters(loaded)
    ids = torch.randint(4, 300, (3, 7))
    assert torch.equal(ours.eval()(ids, ids), loaded(ids, ids))


@pytest.mark.parametrize("kind", KINDS)
def test_loaded_bundle_equals_saved_bundle(kind: str, joint: TokenizerPair, tmp_path: Path) -> None:
    model, ours = make(joint, **KINDS[kind])
    ours.save(tmp_path)
    loaded = Bundle.load(tmp_path)
    assert_same_model(model, loaded.build_model())
    assert loaded.config == ours.config
    assert loaded.tokenizers.is_joint
    assert loaded.tokenizers.fingerprint == joint.fingerprint
    assert (loaded.languages, loaded.special_tokens) == (("en", "fr"), StartAndEndTokenIds())
    assert (loaded.max_length, loaded.provenance) == (99, ORIGIN)
    assert loaded.training_text == ours.training_text is not None


@pytest.mark.parametrize("tie", ["none", "decoder"])
def test_bundle_with_two_vocabularies(tie: str, apart: TokenizerPair, tmp_path: Path) -> None:
    model, ours = make(apart, embeddings={"tie": tie})
    ours.save(tmp_path)
    loaded = Bundle.load(tmp_path)
    assert_same_model(model, loaded.build_model())
    assert loaded.tokenizers.fingerprint == apart.fingerprint


def test_running_statistics_are_saved(joint: TokenizerPair, tmp_path: Path) -> None:
    config = config_of(joint, norm={"kind": "batch"})
    model = Transformer.from_config(config)
    ids = torch.randint(4, 300, (3, 7))
    model(ids, ids)  # in training mode it learns them
    Bundle(config, joint, ("en", "fr"), model.state_dict()).save(tmp_path)
    loaded = Bundle.load(tmp_path).build_model()
    norm = next(part for part in loaded.modules() if isinstance(part, torch.nn.BatchNorm1d))
    assert norm.num_batches_tracked == 1
    assert norm.num_batches_tracked.dtype == torch.int64
    assert norm.running_var.ne(1).any()
    assert_same_model(model, loaded)


TABLES = [f"{part}.tokens.weight_VM" for part in ("encoder.embeddings", "decoder.embeddings")]
OUTPUT = "output.tokens.weight_VM"


@pytest.mark.parametrize(
    ("tie", "names"),
    [("all", TABLES[:1]), ("decoder", TABLES), ("none", [*TABLES, OUTPUT])],
)
def test_shared_weights_are_written_once(tie, names, joint, tmp_path) -> None:
    model, ours = make(joint, embeddings={"tie": tie})
    ours.save(tmp_path)
    written = load_file(tmp_path / "model.safetensors")
    assert sorted(name for name in written if "tokens" in name) == sorted(names)
    assert sum(w.numel() for w in written.values()) == count_parameters(model)
    loaded = Bundle.load(tmp_path).build_model()
    tables = {
        part.tokens.weight_VM
        for part in (loaded.encoder.embeddings, loaded.decoder.embeddings, loaded.output)
    }
    assert len(tables) == len(names)


@pytest.mark.parametrize("given", [[TABLES[0]], [TABLES[1]], [OUTPUT], [*TABLES, OUTPUT]])
def test_shared_weights_may_have_any_of_their_names(given, joint) -> None:
    model, _ = make(joint)
    weights = {n: w.clone() for n, w in model.state_dict().items() if "tokens" not in n}
    table = model.output.tokens.weight_VM
    ours = Bundle(
        config_of(joint), joint, ("en", "fr"), weights | {name: table.clone() for name in given}
    )
    assert next(iter(ours.weights)) == TABLES[0]
    assert_same_model(model, ours.build_model())
    if len(given) > 1:
        with pytest.raises(InputError, match="output.* must be equal to encoder.*, but is diff"):
            replace(ours, weights=weights | dict.fromkeys(TABLES, table) | {OUTPUT: table + 1})


def test_built_model_has_copied_weights(saved: Path) -> None:
    loaded = Bundle.load(saved)
    first, second = loaded.build_model(), loaded.build_model()
    assert not first.training
    with torch.no_grad():
        for weight in first.parameters():
            weight.fill_(7)
    assert_same_model(second, Bundle.load(saved).build_model())
    assert all(weight.requires_grad for weight in first.parameters())


def test_weights_with_gradients_or_other_layout_are_saved(
    joint: TokenizerPair, tmp_path: Path
) -> None:
    model = Transformer.from_config(config_of(joint))
    weights = {
        name: weight.mT.contiguous().mT if weight.dim() == 2 else weight
        for name, weight in model.state_dict(keep_vars=True).items()
    }
    ours = Bundle(config_of(joint), joint, ("en", "fr"), weights)
    assert not any(weight.requires_grad for weight in ours.weights.values())
    ours.save(tmp_path)
    assert_same_model(model, Bundle.load(tmp_path).build_model())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_needs_half_the_space(
    dtype: torch.dtype, joint: TokenizerPair, tmp_path: Path
) -> None:
    model, ours = make(joint, norm={"kind": "batch"})
    ours.save(tmp_path, dtype=dtype)
    written = load_file(tmp_path / "model.safetensors")
    assert {w.dtype for w in written.values()} == {dtype, torch.int64}
    loaded = Bundle.load(tmp_path).build_model().state_dict()
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded[name], weight.to(dtype).to(weight.dtype))
        assert loaded[name].dtype == weight.dtype


def test_invalid_weights_raise_input_error(joint: TokenizerPair, tmp_path: Path) -> None:
    model, ours = make(joint)
    with pytest.raises(
        InputError, match="`dtype` must be one of .*float32.*, but is torch.float64"
    ):
        ours.save(tmp_path, dtype=torch.float64)
    with torch.no_grad():
        model.output.tokens.weight_VM[0, 0] = 1e5
    with pytest.raises(InputError, match="finite in torch.float16.*: encoder.embeddings.tokens"):
        ours.save(tmp_path, dtype=torch.float16)
    with torch.no_grad():
        model.output.tokens.weight_VM[0, 0] = float("nan")
    with pytest.raises(InputError, match="finite in torch.float32"):
        ours.save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_mismatched_parts_raise_an_error(joint: TokenizerPair, apart: TokenizerPair) -> None:
    model, ours = make(joint)
    with pytest.raises(
        InputError, match="source tokenizer must have 320 .* has 300 instead; the target .* 310"
    ):
        replace(ours, tokenizers=apart)
    with pytest.raises(
        InputError, match="`special_tokens.decoder_start_id` must be below 320, but is 320"
    ):
        replace(ours, special_tokens=StartAndEndTokenIds(decoder_start_id=320))
    with pytest.raises(ConfigError, match="`max_length` must be at least 1"):
        replace(ours, max_length=0)
    with pytest.raises(ConfigError, match="`languages"):
        replace(ours, languages=("en", ""))
    with pytest.raises(ConfigError, match="`score` is not a setting; did you mean `scores`"):
        Provenance(score=[])
    with pytest.raises(ConfigError, match="notes"):
        Provenance(notes={"model": model})


def test_mismatched_weights_raise_input_error(joint: TokenizerPair) -> None:
    _, ours = make(joint)
    weights = dict(ours.weights)
    bias = "encoder.layers.1.attention.output.bias"
    for wrong, message in (
        (weights | {"extra": torch.zeros(1)}, "extra is not in the model$"),
        (weights | {bias: torch.zeros(17)}, f"{bias} must be 16 floats, but is 17 floats instead$"),
        (weights | {bias: torch.zeros(16).int()}, "16 floats, but is 16 torch.int32 instead$"),
        ({n: w for n, w in weights.items() if n != bias}, f"{bias} is missing$"),
        ({n: w for n, w in weights.items() if n != TABLES[0]}, f"{TABLES[0]} is missing"),
        (dict(list(weights.items())[:3]), "is missing; .* is missing; .* is missing; and so on$"),
        ({}, "there are only 0 for 3 layers$"),
    ):
        with pytest.raises(InputError, match=f"the weights must fit the config, but .*{message}"):
            replace(ours, weights=wrong)


def test_model_card_content(joint: TokenizerPair, apart: TokenizerPair, tmp_path: Path) -> None:
    model, ours = make(joint)
    ours.save(tmp_path)
    text = (tmp_path / "README.md").read_text("utf-8")
    assert ours.training_text
    means = [side.mean_tokens for side in (ours.training_text.source, ours.training_text.target)]
    for line in (
        "# en → fr",
        "| architecture | 2 + 1 layers, d_model 16, 2 heads, d_ff 24, post-norm |",
        f"| parameters | {count_parameters(model):,} |",
        "| vocabulary | 320 pieces |",
        "| training text | 1 sentence per line; "
        f"{means[0]:.1f} source and {means[1]:.1f} target tokens on average |",
        f"| made | 2026-01-31, seq2see {__version__} (1234abc), 12,000 updates, 90 minutes |",
        "| kept | the mean \\| of 5 |",
        f"- fables: 29,000 pairs, fingerprint `{'ab' * 32}`",
        f"- test_2016: BLEU 41.02, signature `{SIGNATURE}`",
        "    seq2see translate DIR < input.txt > output.txt",
        "## License",
    ):
        assert line in text.splitlines()
    assert str(tmp_path) not in text
    bare = replace(
        make(apart, embeddings={"tie": "none"})[1], provenance=Provenance()
    ).format_card()
    assert "| vocabulary | 300 pieces and 310 |" in bare
    assert "Not recorded." in bare
    assert "Not measured." in bare


def test_all_files_have_the_same_permissions(saved: Path) -> None:
    left_by_a_kill = saved / "model.safetensors.partial"
    left_by_a_kill.touch(0o600)
    Bundle.load(saved).save(saved)
    assert len({path.stat().st_mode for path in saved.iterdir()}) == 1


def test_model_directory_can_be_moved(saved: Path, tmp_path: Path) -> None:
    before = Bundle.load(saved).build_model()
    moved = saved.rename(tmp_path / "elsewhere")
    assert str(tmp_path) not in (moved / "config.json").read_text("utf-8")
    assert_same_model(before, Bundle.load(str(moved)).build_model())


def test_number_of_weights_is_counted_without_building_all_layers(joint: TokenizerPair) -> None:
    for settings in (*KINDS.values(), {"encoder_layers": 3, "decoder_layers": 2}):
        config = config_of(joint, **settings)
        assert count_weights(config) == count_parameters(Transformer.from_config(config))


def test_model_card_has_no_control_characters(joint: TokenizerPair) -> None:
    ours = make(joint)[1]
    hostile = "\x1b[31m\x9b2J\u202e"
    provenance = Provenance(version=hostile, commit=hostile, notes={hostile: hostile})
    card = replace(ours, provenance=provenance, languages=(hostile, "fr")).format_card()
    assert card.replace("\n", "").isprintable()
    assert "\\u001b[31m\\u009b2J\\u202e" in card


# --- damage ---


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def edit_config(change: Callable[[dict], object]) -> Callable[[Path], None]:
    def damage(home: Path) -> None:
        table = json.loads((home / "config.json").read_text("utf-8"))
        change(table)
        (home / "config.json").write_text(json.dumps(table), "utf-8")

    return damage


def flip_a_byte(home: Path, name: str) -> None:
    content = bytearray((home / name).read_bytes())
    content[-5] ^= 1
    (home / name).write_bytes(content)


def with_checksum(name: str, content: bytes) -> Callable[[Path], None]:
    """Return a function that replaces a file and updates its checksum."""

    def damage(home: Path) -> None:
        (home / name).write_bytes(content)
        checksum = compute_sha256(home / name)
        change = edit_config(lambda c: c["checksums"].update({name: checksum}))
        change(home)

    return damage


SPECIAL_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    f"{kind} {name}": (lambda home, name=name, damage=damage: damage(home / name), message)
    for name in ("config.json", "model.safetensors", "tokenizer.model")
    for kind, damage, message in (
        ("pipe", replace_by_pipe, f"{name}` cannot be read: it is a pipe or a device"),
        ("device", replace_by_device, f"{name}` cannot be read: it is a pipe or a device"),
        ("large", lambda path: os.truncate(path, 1 << 40), f"{name}` cannot be read: it has 1,099"),
    )
}

DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    **SPECIAL_FILES,
    "many layers": (
        edit_config(lambda c: c["model"].update(encoder_layers=1000, decoder_layers=1000)),
        "the weights must fit the config, but there are only .* for 2000 layers",
    ),
    "no directory": (
        lambda home: home.rename(home.with_name("x")),
        "`.*model` does not exist: give",
    ),
    "a file": (
        lambda home: (home.rename(home.with_name("x")), home.touch()),
        "`.*model` is a file: give a model",
    ),
    "no config": (
        lambda home: (home / "config.json").unlink(),
        "`.*model` must be a model directory, but has no config.json$",
    ),
    "an unfinished run": (
        lambda home: (home / "config.json").rename(home / "run.json"),
        "`.*model` is a run that has not finished: .* `seq2see train RECIPE -o .*model --resume`",
    ),
    "no JSON": (
        lambda home: (home / "config.json").write_text('{"format"'),
        "`.*config.json` must be JSON, but: Expecting .*; copy the whole",
    ),
    "no text": (
        lambda home: (home / "config.json").write_bytes(b"\xff\xfe\xfd"),
        "`.*config.json` must be JSON",
    ),
    "too deep": (
        lambda home: (home / "config.json").write_text("[" * 100_000),
        "`.*config.json` must be JSON",
    ),
    "another system's": (
        lambda home: (home / "config.json").write_text('{"model_type": "marian"}'),
        "`.*config.json` has no format version.*`seq2see import`",
    ),
    "a list": (lambda home: (home / "config.json").write_text("[]"), "has no format version"),
    "newer": (
        edit_config(lambda c: c.update(format=FORMAT_VERSION + 1, unheard="of")),
        f"`.*config.json` has format {FORMAT_VERSION + 1}, but seq2see .* "
        f"up to {FORMAT_VERSION}: install a newer",
    ),
    "unknown key": (
        edit_config(lambda c: c["model"].update(d_modle=3)),
        "`.*config.json` cannot be used: `model.d_modle` is not a setting",
    ),
    "missing key": (
        edit_config(lambda c: c.pop("special_tokens")),
        "`.*config.json` cannot be used: `special_tokens` must be given; copy",
    ),
    "impossible": (
        edit_config(lambda c: c["model"].update(heads=3)),
        "`.*config.json` cannot be used: `model.heads` must divide",
    ),
    "other shapes": (
        edit_config(lambda c: c["model"].update(d_ff=25)),
        "`.*config.json` cannot be used: the weights must fit the config, but .* and so on; copy",
    ),
    "other vocabulary": (
        edit_config(lambda c: c["model"].update(vocab_size=321)),
        "`.*config.json` cannot be used: the source tokenizer must have 321 pieces",
    ),
    "another path": (
        edit_config(lambda c: c["checksums"].update({"../../secret": "0" * 64})),
        "`checksums` must name model.safetensors and either",
    ),
    "no checksum": (
        edit_config(lambda c: c["checksums"].update({"tokenizer.model": "0"})),
        "`.*config.json` cannot be used: `checksums.tokenizer.model` must be",
    ),
    "no weights": (
        lambda home: (home / "model.safetensors").unlink(),
        "`.*model.safetensors` is missing: copy",
    ),
    "short weights": (
        lambda home: (home / "model.safetensors").write_bytes(b"short"),
        "`.*model.safetensors` is damaged or was replaced",
    ),
    "a byte of the weights": (
        lambda home: flip_a_byte(home, "model.safetensors"),
        "`.*model.safetensors` is damaged or was replaced",
    ),
    "no safetensors": (
        with_checksum("model.safetensors", b"\x10" + bytes(30)),
        "`.*model.safetensors` cannot be used: .*; copy",
    ),
    "no tokenizer": (
        lambda home: (home / "tokenizer.model").unlink(),
        "`.*tokenizer.model` is missing: copy",
    ),
    "a byte of the tokenizer": (
        lambda home: flip_a_byte(home, "tokenizer.model"),
        "`.*tokenizer.model` is damaged or was replaced",
    ),
    "no SentencePiece": (
        with_checksum("tokenizer.model", b"nothing"),
        "`.*tokenizer.model` cannot be used: this must be a SentencePiece model",
    ),
    "a directory instead": (
        lambda home: ((home / "tokenizer.model").unlink(), (home / "tokenizer.model").mkdir()),
        "`.*tokenizer.model` cannot be read: Is a directory",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_directory_raises_one_line_error(kind: str, saved: Path) -> None:
    damage, message = DAMAGE[kind]
    damage(saved)
    with pytest.raises(InputError, match=message) as caught:
        Bundle.load(saved)
    assert "\n" not in str(caught.value)


def test_extra_and_missing_tensors_raise_input_error(saved: Path) -> None:
    weights = load_file(saved / "model.safetensors")
    weights["extra"] = weights.pop("encoder.layers.0.attention.output.bias").clone()
    save_file(weights, saved / "again")
    with_checksum("model.safetensors", (saved / "again").read_bytes())(saved)
    with pytest.raises(
        InputError, match="extra is not in the model; encoder.layers.0.*bias is missing; copy"
    ):
        Bundle.load(saved)


def test_unwritable_directory_raises_input_error(
    joint: TokenizerPair, tmp_path: Path, monkeypatch
) -> None:
    _, ours = make(joint)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="`.*file` cannot be written: File exists"):
        ours.save(tmp_path / "file")
    with pytest.raises(InputError, match="`.*file/model` cannot be written: Not a directory"):
        ours.save(tmp_path / "file" / "model")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle, "save_file", full)
    with pytest.raises(InputError, match="`.*new` cannot be written: No space left"):
        ours.save(tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())


# --- killed while saving ---


class Killed(BaseException):
    """Simulates a killed process; it must not be caught."""


def kill_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise before the given write operation, without cleanup, as after `kill -9`."""
    steps = iter(range(step + 1))

    def stepping(change):
        def changed(*args, **options):
            if next(steps, None) in {step, None}:
                raise Killed
            return change(*args, **options)

        return changed

    monkeypatch.setattr(Path, "replace", stepping(Path.replace))
    monkeypatch.setattr(Path, "unlink", stepping(Path.unlink))
    monkeypatch.setattr(bundle, "save_file", stepping(save_file))
    monkeypatch.setattr(atomic_files, "fsync_path", stepping(atomic_files.fsync_path))
    monkeypatch.setattr(bundle, "_remove_leftovers", lambda _: None)


def which(loaded: Bundle) -> str:
    """Return which of two models this is, after a check that it is not mixed."""
    name = loaded.provenance.notes["name"]
    value = {"old": 1.0, "new": 2.0}[name]
    assert all(weight.eq(value).all() for weight in loaded.weights.values())
    assert loaded.tokenizers.is_joint == (name == "old")
    return name


@pytest.fixture
def old(joint: TokenizerPair) -> Bundle:
    weights = {n: torch.ones_like(w) for n, w in make(joint)[1].weights.items()}
    return replace(make(joint)[1], weights=weights, provenance=Provenance(notes={"name": "old"}))


@pytest.fixture
def new(apart: TokenizerPair) -> Bundle:
    ours = make(apart, embeddings={"tie": "none"})[1]
    weights = {n: torch.full_like(w, 2) for n, w in ours.weights.items()}
    return replace(ours, weights=weights, provenance=Provenance(notes={"name": "new"}))


@pytest.mark.parametrize("direction", ["forth", "back"])
def test_killed_save_leaves_a_complete_model(
    direction: str, old, new, tmp_path, monkeypatch
) -> None:
    before, after = (old, new) if direction == "forth" else (new, old)
    before.save(tmp_path / "before")
    seen, step, done = [], 0, False
    while not done:
        home = shutil.copytree(tmp_path / "before", tmp_path / str(step))
        (home / "log.jsonl").write_text("kept")
        with monkeypatch.context() as patch:
            kill_at(step, patch)
            try:
                after.save(home)
                done = True
            except Killed:
                step += 1
        seen.append(which(Bundle.load(home)))
        before.save(home)  # temporary files of an earlier save are removed
        assert which(Bundle.load(home)) == which(before)
        tokenizers = 1 if before.tokenizers.is_joint else 2
        assert len(list(home.iterdir())) == 4 + tokenizers
    switch = seen.index(which(after))
    assert seen == [which(before)] * switch + [which(after)] * (len(seen) - switch)
    assert switch >= 8
    assert len(seen) - switch >= 8
    assert (home / "log.jsonl").read_text() == "kept"


def test_second_killed_save_leaves_a_complete_model(old, new, tmp_path, monkeypatch) -> None:
    """The second save must keep the temporary files of the first, which are in use."""
    for step in range(40):
        home = tmp_path / str(step)
        old.save(home)
        with monkeypatch.context() as patch:
            patch.setattr(files, "rename_to_final_names", lambda *_: (_ for _ in ()).throw(Killed))
            patch.setattr(bundle, "_remove_leftovers", lambda _: None)
            with pytest.raises(Killed):
                new.save(home)
        assert which(Bundle.load(home)) == "new"
        with monkeypatch.context() as patch:
            kill_at(step, patch)
            try:
                old.save(home)
                break
            except Killed:
                which(Bundle.load(home))
    assert step > 10


def test_failed_save_leaves_only_the_old_model(old, new, saved, monkeypatch) -> None:
    old.save(saved)
    before = sorted(path.name for path in saved.iterdir())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(bundle, "save_file", full)
        with pytest.raises(Seq2SeeError, match="No space left"):
            new.save(saved)
    assert which(Bundle.load(saved)) == "old"
    assert sorted(path.name for path in saved.iterdir()) == before


def test_failed_save_keeps_temporary_files_in_use(old, new, tmp_path, monkeypatch) -> None:
    old.save(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(files, "rename_to_final_names", lambda *_: (_ for _ in ()).throw(Killed))
        patch.setattr(bundle, "_remove_leftovers", lambda _: None)
        with pytest.raises(Killed):
            new.save(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(bundle, "save_file", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(InputError, match="full"):
            old.save(tmp_path)
    assert which(Bundle.load(tmp_path)) == "new"


def test_load_retries_if_the_model_changes(old, tmp_path, monkeypatch) -> None:
    """Both models have the same shapes, so only `config.json` differs."""
    weights = {name: torch.full_like(weight, 2) for name, weight in old.weights.items()}
    newer = replace(old, weights=weights, provenance=Provenance(notes={"value": 2}))
    old.save(tmp_path)
    reads = []

    def load_late(path: Path):
        reads.append(path)
        if len(reads) == 1:
            newer.save(tmp_path)
        return load_file(path)

    monkeypatch.setattr(bundle, "load_file", load_late)
    loaded = Bundle.load(tmp_path)
    assert len(reads) == 2
    assert loaded.provenance == newer.provenance
    assert all(weight.eq(2).all() for weight in loaded.weights.values())


def test_load_finds_a_file_renamed_meanwhile(old, tmp_path, monkeypatch) -> None:
    old.save(tmp_path)
    path = tmp_path / JOINT_FILE
    checksum = compute_sha256(path)
    temporary = path.replace(files._temporary_path(tmp_path, JOINT_FILE, checksum))
    real = compute_sha256

    def late(candidate: Path, max_bytes: int | None) -> str:
        if candidate == temporary:
            temporary.replace(path)
        return real(candidate, max_bytes)

    monkeypatch.setattr(files, "compute_sha256", late)
    assert files.find_file_by_checksum(tmp_path, JOINT_FILE, checksum) == path


def test_concurrent_readers_never_get_mixed_models(old, new, tmp_path) -> None:
    old.save(tmp_path)
    stop = Event()

    def write() -> None:
        while not stop.is_set():
            new.save(tmp_path)
            old.save(tmp_path)

    writer = Thread(target=write)
    writer.start()
    try:
        names = [which(Bundle.load(tmp_path)) for _ in range(30)]
    finally:
        stop.set()
        writer.join()
    assert set(names) == {"old", "new"}


def test_model_replaced_twice_is_never_mixed(old, new, tmp_path, monkeypatch) -> None:
    """A reader has read the checksum of one model when the weights of the other are there."""
    old.save(tmp_path)
    real, saves = bundle.load_file, [old, new]

    def late(path: Path) -> dict[str, torch.Tensor]:
        if not saves:
            return real(path)
        saves.pop().save(tmp_path)
        weights = real(path)
        saves.pop().save(tmp_path)
        return weights

    monkeypatch.setattr(bundle, "load_file", late)
    assert which(Bundle.load(tmp_path)) == "old"


def test_mapped_weights_survive_replacement_of_their_file(old, new, tmp_path) -> None:
    old.save(tmp_path)
    loaded = Bundle.load(tmp_path)
    new.save(tmp_path)
    assert which(loaded) == "old"
    loaded.save(tmp_path)
    assert which(Bundle.load(tmp_path)) == "old"


def test_loading_draws_no_random_numbers(saved: Path) -> None:
    """The meta device would import sympy (one second); a new model would draw numbers."""
    code = (
        "import sys, torch; from seq2see.bundle import Bundle; before = torch.get_rng_state();"
        f"Bundle.load({str(saved)!r}).build_model();"
        "assert 'sympy' not in sys.modules; assert torch.equal(before, torch.get_rng_state())"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
