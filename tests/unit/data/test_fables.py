"""Fables: size, splits, grammar, alignments, and pronouns that only the predicate decides."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from dataclasses import astuple
from itertools import pairwise

import pytest

from seq2see.data.fables import (
    FableSentencePair,
    PronounAnnotation,
    load_fables_split,
    load_unseen_pronoun_cases,
    select_pronoun_fables,
    split_words,
)
from seq2see.data.fables.lexicon import ADJECTIVES, NOUNS, VERBS, build_conjugation
from seq2see.data.fables.phrases import (
    adjust_to_next_words,
    build_words,
    contract_and_elide,
    use_prevocalic_form,
)
from seq2see.data.fables.pronoun_pairs import MASKED, PRONOUN_FRAMES
from seq2see.data.fables.simple_sentences import CONSTRUCTIONS
from seq2see.data.readers import SplitName

SPLITS: tuple[SplitName, ...] = ("train", "valid", "test")
FORMS = pytest.mark.parametrize("short", [False, True], ids=["full", "short"])
MARKS = set(".,?!")


def all_fables(short: bool) -> list[FableSentencePair]:
    return [
        f for split in SPLITS for f in load_fables_split(split, short)
    ] + load_unseen_pronoun_cases(short)


def annotation(fable: FableSentencePair) -> PronounAnnotation:
    assert fable.pronoun is not None
    return fable.pronoun


def antecedent_and_predicate(fable: FableSentencePair) -> tuple[str, str]:
    """Return the antecedent and the predicate of a pronoun annotation."""
    source = split_words(fable.source)
    return source[annotation(fable).antecedent_index], source[annotation(fable).predicate_index]


# size and vocabulary


def test_splits_have_enough_pairs() -> None:
    assert all(
        len(load_fables_split(split)) >= n
        for split, n in zip(SPLITS, (32_000, 2000, 2000), strict=True)
    )
    assert all(
        len(load_fables_split(split, short=True)) >= n
        for split, n in zip(SPLITS, (10_000, 1000, 1000), strict=True)
    )
    assert len(select_pronoun_fables("train")) >= 10_000
    assert len(select_pronoun_fables("test")) >= 500
    assert len(load_unseen_pronoun_cases()) >= 1000
    assert len(load_unseen_pronoun_cases(short=True)) >= 400


def test_lexicon_has_hundreds_of_words() -> None:
    assert len(NOUNS) >= 120
    assert len({verb.fr.infinitive for verbs in VERBS.values() for verb in verbs}) >= 80
    assert len(ADJECTIVES) >= 60
    genders = Counter(noun.gender for noun in NOUNS)
    assert abs(genders["m"] - genders["f"]) < 0.1 * len(NOUNS)


def test_every_construction_occurs() -> None:
    names = {each.name for each in CONSTRUCTIONS} | {frame.name for frame in PRONOUN_FRAMES}
    assert len(names) == len(CONSTRUCTIONS) + len(PRONOUN_FRAMES) >= 45
    assert min(Counter(fable.construction for fable in load_fables_split("train")).values()) >= 100
    assert {fable.construction for fable in load_fables_split("train")} == names


def test_every_word_occurs_in_training() -> None:
    known = Counter(
        word.lower() for fable in load_fables_split("train") for word in split_words(fable.source)
    )
    assert all(known[noun.en] >= 5 for noun in NOUNS)
    assert all(known[adjective.en] >= 5 for adjective in ADJECTIVES)
    morphology = {
        word.lower() for fable in load_fables_split("train") for word in split_words(fable.target)
    }
    for split in ("valid", "test"):
        unknown = {
            w.lower() for f in load_fables_split(split) for w in split_words(f.target)
        } - morphology
        assert len(unknown) <= 0.02 * len(morphology), unknown


@FORMS
def test_sentences_have_3_to_30_words(short: bool) -> None:
    max_words = 18 if short else 30
    for fable in all_fables(short):
        for text in (fable.source, fable.target):
            assert 3 <= sum(word not in MARKS for word in split_words(text)) <= max_words, text
    lengths = {len(split_words(fable.source)) for fable in load_fables_split("train", short)}
    assert lengths >= set(range(4, 15 if short else 27))


def test_short_corpus_has_fewer_words() -> None:
    full, short = (
        {
            word.lower()
            for fable in load_fables_split("train", short)
            for word in split_words(fable.source)
        }
        for short in (False, True)
    )
    assert len(short) < len(full) / 2


# splits


@FORMS
def test_sources_are_distinct(short: bool) -> None:
    sources = [fable.source.lower() for fable in all_fables(short)]
    assert len(sources) == len(set(sources))


def test_source_has_the_same_translation_in_both_corpora() -> None:
    targets: dict[str, str] = {}
    for fable in all_fables(short=False) + all_fables(short=True):
        assert targets.setdefault(fable.source.lower(), fable.target) == fable.target


@pytest.mark.parametrize(
    ("short", "checksum"), [(False, "3cfa411f1a16542e"), (True, "276c6c2ce9b02519")]
)
def test_corpus_does_not_change(short: bool, checksum: str) -> None:
    """A change of the grammar changes the corpus: note it in the CHANGELOG and update the sum."""
    text = "".join(json.dumps(astuple(fable)) for fable in all_fables(short))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == checksum


# grammar


def test_textbook_sentences() -> None:
    for short in (False, True):
        tired, wide = load_fables_split("test", short)[:2]
        assert tired.source == "The animal didn't cross the street because it was too tired."
        assert tired.target == "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
        assert wide.source == "The animal didn't cross the street because it was too wide."
        assert wide.target == "L'animal n'a pas traversé la rue parce qu'elle était trop large."
        assert antecedent_and_predicate(tired) == ("animal", "tired")
        assert antecedent_and_predicate(wide) == ("street", "wide")
        known = {
            word
            for fable in load_fables_split("train", short)
            for word in split_words(fable.source)
        }
        assert set(split_words(tired.source)) | set(split_words(wide.source)) <= known


ASPIRATED = "hibou|hérisson|héron|hache|hutte|hangar|haut|huit|onze"
VOWEL = rf"(?!(?:{ASPIRATED}))[aeiouyhàâéèêîôœ]"


@pytest.mark.parametrize(
    "mistake",
    [
        rf"\b(le|la|je|me|se|ne|de|que|lorsque) {VOWEL}",
        rf"\b[ldnsjmc]'(?!{VOWEL})",
        rf"\bqu'(?!{VOWEL})",
        rf"\w'(?:{ASPIRATED})",
        r"\b(de|à) les? ",
        r"\b(de|d'|des) des?\b",
        r"\bsi ils?\b",
        r"\bce (est|était)\b",
        rf"\b(ce|beau|nouveau) (?!(?:et|est|était|étaient|à|au|aux|en|où)\b){VOWEL}",
        rf"\b(ma|ta|sa) {VOWEL}",
        r"\bpas (un|une)\b",
        r"(?<! )[?!]",
        r" [.,]",
        r"  |[’_]",
    ],
)
def test_french_has_no_elision_or_contraction_errors(mistake: str) -> None:
    pattern = re.compile(mistake, re.IGNORECASE)
    found = [f.target for short in (False, True) for f in all_fables(short)]
    assert [target for target in found if pattern.search(target)][:3] == []


@pytest.mark.parametrize(
    "mistake",
    [
        r"\ba [aeio]",
        r"\ban [^aeio]",
        r"\b(didn't|doesn't|don't|won't|will|can't|couldn't) \w+(ed|es)\b(?<!need)",
        r" [.,?!]",
        r"  |_",
    ],
)
def test_english_has_no_article_or_auxiliary_errors(mistake: str) -> None:
    pattern = re.compile(mistake, re.IGNORECASE)
    found = [f.source for f in all_fables(short=False) if pattern.search(f.source)]
    assert [source for source in found if "feed" not in source][:3] == []


@pytest.mark.parametrize(
    ("plain", "right"),
    [
        ("le animal", "l' animal"),
        ("le hérisson", "le hérisson"),
        ("de le hibou", "du hibou"),
        ("de le âne", "de l' âne"),
        ("à le homme", "à l' homme"),
        ("à les hommes", "aux hommes"),
        ("de des arbres", "d' arbres"),
        ("de de vieux chats", "de vieux chats"),
        ("parce que il", "parce qu' il"),
        ("si il", "s' il"),
        ("si elle", "si elle"),
        ("ce est", "c' est"),
        ("il ne y a pas de eau", "il n' y a pas d' eau"),
        ("le onze", "le onze"),
    ],
)
def test_elision_and_contraction(plain: str, right: str) -> None:
    assert " ".join(word.text for word in contract_and_elide(build_words(plain))) == right


@pytest.mark.parametrize(
    ("plain", "right"),
    [
        ("ce ours", "cet ours"),
        ("ce héron", "ce héron"),
        ("ma abeille", "mon abeille"),
        ("un vieux âne", "un vieil âne"),
        ("sa hache", "sa hache"),
        ("le beau hôtel", "le bel hôtel"),
    ],
)
def test_prevocalic_forms(plain: str, right: str) -> None:
    adjusted = adjust_to_next_words(build_words(plain), use_prevocalic_form)
    assert " ".join(word.text for word in adjusted) == right


def test_ne_has_a_second_negation_word() -> None:
    second = {"pas", "plus", "jamais", "rien"}
    for fable in load_fables_split("train"):
        target = [word.lower() for word in split_words(fable.target)]
        negations = sum(word in {"ne", "n'"} for word in target)
        assert negations <= sum(word in second for word in target), fable.target


@pytest.mark.parametrize(
    ("infinitive", "forms"),
    [
        ("manger", "mange mangeons mangeait mangera mangé"),
        ("commencer", "commence commençons commençait commencera commencé"),
        ("gravir", "gravit gravissons gravissait gravira gravi"),
        ("attendre", "attend attendons attendait attendra attendu"),
        ("voir", "voit voyons voyait verra vu"),
        ("être", "est sommes était sera été"),
    ],
)
def test_conjugation_of_french_verbs(infinitive: str, forms: str) -> None:
    verb = build_conjugation(infinitive)
    found = [verb.present("it"), verb.present("we"), verb.imperfect("it"), verb.simple_future("it")]
    assert [*found, verb.participle] == forms.split()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (r"^Some (small|old|big|pretty|young)\b", r"^De (petit|vie|grand|joli|jeune)"),
        (r"^I ", r"^(J'|Je )"),
        (r"\bwon't\b.*\bif it is\b", r"s'il |si elle "),
        (r"\bhas never\b", r"\bn'(a|est) jamais \w|\bne s'est jamais"),
        (r"\bsome (bread|cheese|honey|rice|butter|fish)\b", r"\bdu "),
        (r"\bsome (soup|meat|salad|jam|cream)\b", r"\bde la "),
        (r"\bany water\b", r"\bd'eau\b"),
    ],
)
def test_grammatical_phenomena_are_translated(source: str, target: str) -> None:
    found = [fable for fable in load_fables_split("train") if re.search(source, fable.source)]
    assert len(found) >= 3
    assert all(re.search(target, fable.target) for fable in found)


def test_coordination_is_feminine_only_if_both_are() -> None:
    genders = {noun.en: noun.gender for noun in NOUNS}
    arrivals = re.compile(r"\b(arrivé|parti|revenu)(e?)s\b")
    found = [
        (fable, feminine[2])
        for fable in load_fables_split("train")
        if fable.construction == "pair_of_subjects" and (feminine := arrivals.search(fable.target))
    ]
    assert len(found) >= 5
    for fable, feminine in found:
        subjects = [genders[word] for word in split_words(fable.source) if word in genders][:2]
        assert (feminine == "e") == (subjects == ["f", "f"]), fable.target


# alignments


@FORMS
def test_alignments_cover_all_source_words(short: bool) -> None:
    for fable in all_fables(short):
        source, target = split_words(fable.source), split_words(fable.target)
        assert list(fable.alignment) == sorted(set(fable.alignment))
        assert all(i < len(source) and j < len(target) for i, j in fable.alignment)
        left = set(range(len(source))) - {i for i, _ in fable.alignment}
        assert not left, (fable.source, [source[i] for i in left])
        right = set(range(len(target))) - {j for _, j in fable.alignment}
        assert {target[j].lower() for j in right} <= {"pour", "est-ce", "que", "qu'"}, fable.target


def test_nouns_are_aligned_with_their_translation() -> None:
    pairs = {noun.en: noun.fr for noun in NOUNS} | {n.en_plural: n.fr_plural for n in NOUNS}
    ambiguous = {"watch", "fish", "back"}
    for fable in load_fables_split("test"):
        source, target = split_words(fable.source), split_words(fable.target)
        for i, word in enumerate(source):
            if word in pairs and word not in ambiguous:
                linked = [target[j] for k, j in fable.alignment if k == i]
                assert linked == [pairs[word]], fable


def test_split_words() -> None:
    assert split_words("It didn't rain, did it?") == ["It", "didn't", "rain", ",", "did", "it", "?"]
    assert split_words("L'animal n'a pas vu qu'il l'a.") == (
        ["L'", "animal", "n'", "a", "pas", "vu", "qu'", "il", "l'", "a", "."]
    )
    assert split_words("Est-ce aujourd'hui ?") == ["Est-ce", "aujourd'hui", "?"]


# pronouns


@FORMS
def test_pronoun_annotation_points_at_its_words(short: bool) -> None:
    nouns = {noun.en: noun for noun in NOUNS}
    for fable in all_fables(short):
        if fable.pronoun is None:
            continue
        source, target, it = split_words(fable.source), split_words(fable.target), fable.pronoun
        antecedent, distractor = (
            nouns[source[it.antecedent_index]],
            nouns[source[it.distractor_index]],
        )
        assert source[it.source_index].lower() == "it"
        assert (it.source_index, it.target_index) in fable.alignment
        assert target[it.target_index].lower() in (
            {"il", "le"} if antecedent.gender == "m" else {"elle", "la"}
        )
        assert (it.contrastive_pair is not None) == (antecedent.gender != distractor.gender)


@FORMS
def test_contrastive_pair_differs_in_pronoun_and_agreement(short: bool) -> None:
    other = {"il": "elle", "elle": "il", "le": "la", "la": "le"}
    for fable in [*select_pronoun_fables("test", short), *load_unseen_pronoun_cases(short)]:
        contrast, it = annotation(fable).contrastive_pair, annotation(fable).target_index
        assert contrast is not None
        assert (contrast.source, contrast.correct) == (fable.source, fable.target)
        right, wrong = split_words(contrast.correct), split_words(contrast.wrong)
        assert len(right) == len(wrong)
        assert wrong[it].lower() == other[right[it].lower()]
        changed = [i for i, (r, w) in enumerate(zip(right, wrong, strict=True)) if r != w]
        # s'il or si elle before the pronoun; its adjective after it
        assert set(changed) <= set(range(it - 1, len(right)))
        assert len(changed) <= 3


@FORMS
@pytest.mark.parametrize("split", ["train", "valid", "test", "unseen"])
def test_masked_pairs_are_undecidable(split: str, short: bool) -> None:
    """Each masked source has both answers equally often: any rule is right in half of the cases."""
    cases = (
        load_unseen_pronoun_cases(short)
        if split == "unseen"
        else select_pronoun_fables(split, short)
    )  # type: ignore[arg-type]
    answers: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for fable in cases:
        control = annotation(fable).masked_pair
        assert control is not None
        masked = split_words(fable.source)
        masked[annotation(fable).predicate_index] = MASKED
        assert split_words(control.source) == masked
        assert MASKED in control.correct
        answers[control.source][control.correct, control.wrong] += 1
    for counts in answers.values():
        (one, n), (two, m) = counts.most_common()
        assert one == two[::-1]
        assert n == m


def test_only_the_predicate_decides() -> None:
    """Position, gender and construction predict the antecedent no better than chance."""
    nouns = {noun.en: noun for noun in NOUNS}
    seen: dict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
    for fable in select_pronoun_fables("train"):
        source, it = split_words(fable.source), annotation(fable)
        first = min(it.antecedent_index, it.distractor_index)
        masculine = nouns[source[it.antecedent_index]].gender == "m"
        for key in (("all", ""), ("first", nouns[source[first]].gender)):
            seen[key][masculine] += 1
        seen["construction", fable.construction][masculine] += 1
        seen["position", fable.construction][it.antecedent_index == first] += 1
    for key, counts in seen.items():
        assert 0.45 <= counts[True] / counts.total() <= 0.55, (key, counts)


def test_predicates_do_not_predict_the_gender() -> None:
    nouns = {noun.en: noun for noun in NOUNS}
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for fable in select_pronoun_fables("train"):
        noun, predicate = antecedent_and_predicate(fable)
        seen[predicate][nouns[noun].gender] += 1
    assert len(seen) >= 40
    for predicate, counts in seen.items():
        assert 0.2 <= counts["m"] / counts.total() <= 0.8, (predicate, counts)


@FORMS
def test_unseen_pairs_do_not_occur_in_the_splits(short: bool) -> None:
    plural = {noun.en: noun.en_plural for noun in NOUNS}
    together, alone = set(), set()
    for split in SPLITS:
        for fable in load_fables_split(split, short):
            present = {word.lower() for word in split_words(fable.source)}
            together |= {(a, b) for a in present for b in present} if split != "train" else set()
            alone |= present if split == "train" else set()
    train = [
        {word.lower() for word in split_words(f.source)} for f in load_fables_split("train", short)
    ]
    sentence_indices: dict[str, set[int]] = defaultdict(set)
    for i, present in enumerate(train):
        for word in present:
            sentence_indices[word].add(i)
    for noun, predicate in {
        antecedent_and_predicate(fable) for fable in load_unseen_pronoun_cases(short)
    }:
        for form in (noun, plural[noun]):
            assert not sentence_indices[form] & sentence_indices[predicate], (form, predicate)
            assert (form, predicate) not in together
        assert {noun, predicate} <= alone


def test_unseen_pairs_are_decisive_and_numerous() -> None:
    assert all(annotation(fable).contrastive_pair for fable in load_unseen_pronoun_cases())
    assert len({antecedent_and_predicate(fable) for fable in load_unseen_pronoun_cases()}) >= 150
    assert all(a.source != b.source for a, b in pairwise(load_unseen_pronoun_cases()))
