"""Inflection of English nouns, verbs and adjectives, and of French nouns, adjectives and verbs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

SHORT_VOWEL_SYLLABLE = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]")
"""One syllable with a short vowel: the last letter is doubled before an ending."""
MORE_ADJECTIVES = frozenset({"cowardly", "slippery", "sour", "vast"})
"""Adjectives that take "more", although their form would allow "-er"."""


def inflect_english_plural(noun: str) -> str:
    """Return the regular plural: foxes, berries."""
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search(r"(s|x|ch|sh)$", noun) else "s")


def inflect_third_person(verb: str) -> str:
    """Return the third person singular: crosses, carries, goes."""
    if verb == "have":
        return "has"
    return verb + "es" if verb.endswith("o") else inflect_english_plural(verb)


def inflect_regular_past(verb: str) -> str:
    """Return the regular past: crossed, carried, stopped, liked."""
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return _double_last_letter(verb).removesuffix("e") + "ed"


def inflect_ing_form(verb: str) -> str:
    """Return the -ing form: crossing, stopping, liking, seeing, lying."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    return re.sub(r"(?<=[^aeiouy])e$|(?<=u)e$", "", _double_last_letter(verb)) + "ing"


def inflect_comparative(adjective: str) -> str:
    """Return the comparative: wider, bigger, heavier, more careful."""
    if adjective in MORE_ADJECTIVES:
        return f"more {adjective}"
    if adjective.endswith("y") and len(adjective) > 3:
        return adjective[:-1] + "ier"
    syllables = re.findall(r"[aeiouy]+", adjective.removesuffix("e"))
    if len(syllables) > 1:
        return f"more {adjective}"
    return _double_last_letter(adjective).removesuffix("e") + "er"


def inflect_superlative(adjective: str) -> str:
    """Return the superlative: widest, most careful."""
    more = inflect_comparative(adjective)
    return more.replace("more ", "most ") if more.startswith("more ") else more[:-2] + "est"


def _double_last_letter(word: str) -> str:
    return word + word[-1] if SHORT_VOWEL_SYLLABLE.fullmatch(word) else word


Gender = Literal["m", "f"]


def inflect_french_plural(word: str) -> str:
    """Return the plural of a noun or masculine adjective: renards, animaux, oiseaux, gris."""
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith(("eau", "eu")) and word != "bleu" else "s")


FEMININE_ENDINGS = [
    (r"e$", "e"),
    (r"er$", "ère"),
    (r"eux$", "euse"),
    (r"eau$", "elle"),
    (r"if$", "ive"),
    (r"on$", "onne"),
    (r"ien$", "ienne"),
    (r"el$", "elle"),
    (r"$", "e"),
]


def inflect_feminine(adjective: str) -> str:
    """Return the feminine of a regular adjective: grande, fière, heureuse, belle, craintive."""
    ending, new = next(rule for rule in FEMININE_ENDINGS if re.search(rule[0], adjective))
    return re.sub(ending, new, adjective, count=1)


def inflect_participle(participle: str, gender: Gender, plural: bool) -> str:
    """Return a participle that agrees in gender and number: mangé, mangée, mangés, mangées."""
    word = participle + ("e" if gender == "f" else "")
    return word + ("s" if plural and not word.endswith("s") else "")


Person = Literal["I", "we", "you", "it", "they"]
Tense = Literal["present", "progressive", "past", "perfect", "imperfect", "future"]


@dataclass(frozen=True, slots=True)
class Conjugation:
    """The principal parts of a French verb."""

    infinitive: str
    je: str
    il: str
    ils: str
    stem: str
    """Stem of the "nous" form and of the imparfait."""
    future_stem: str
    participle: str

    def present(self, person: Person) -> str:
        """Return the form of the présent."""
        irregular = {"être": ("sommes", "êtes"), "dire": ("disons", "dites")}.get(self.infinitive)
        nous, vous = irregular or (_join_ending(self.stem, "ons"), self.stem + "ez")
        return {"I": self.je, "we": nous, "you": vous, "it": self.il, "they": self.ils}[person]

    def imperfect(self, person: Person) -> str:
        """Return the form of the imparfait."""
        endings = {"I": "ais", "we": "ions", "you": "iez", "it": "ait", "they": "aient"}
        return _join_ending("ét" if self.infinitive == "être" else self.stem, endings[person])

    def simple_future(self, person: Person) -> str:
        """Return the form of the futur simple."""
        endings = {"I": "ai", "we": "ons", "you": "ez", "it": "a", "they": "ont"}
        return self.future_stem + endings[person]


def _join_ending(stem: str, ending: str) -> str:
    """Add an ending; the spelling of g and c changes before a and o: mangeait, commençait."""
    if ending[0] in "ao" and stem[-1] in "gc":
        stem = stem + "e" if stem[-1] == "g" else stem[:-1] + "ç"
    return stem + ending


# infinitive, je, il, ils, stem of nous, stem of the future, participle
IRREGULAR_VERBS = """
être suis est sont somm ser été
avoir ai a ont av aur eu
aller vais va vont all ir allé
voir vois voit voient voy verr vu
suivre suis suit suivent suiv suivr suivi
poursuivre poursuis poursuit poursuivent poursuiv poursuivr poursuivi
craindre crains craint craignent craign craindr craint
peindre peins peint peignent peign peindr peint
connaître connais connaît connaissent connaiss connaîtr connu
reconnaître reconnais reconnaît reconnaissent reconnaiss reconnaîtr reconnu
appeler appelle appelle appellent appel appeller appelé
acheter achète achète achètent achet achèter acheté
lever lève lève lèvent lev lèver levé
soulever soulève soulève soulèvent soulev soulèver soulevé
promener promène promène promènent promen promèner promené
essayer essaie essaie essaient essay essaier essayé
effrayer effraie effraie effraient effray effraier effrayé
balayer balaie balaie balaient balay balaier balayé
nettoyer nettoie nettoie nettoient nettoy nettoier nettoyé
envoyer envoie envoie envoient envoy enverr envoyé
espérer espère espère espèrent espér espérer espéré
protéger protège protège protègent protég protéger protégé
construire construis construit construisent construis construir construit
ouvrir ouvre ouvre ouvrent ouvr ouvrir ouvert
offrir offre offre offrent offr offrir offert
dormir dors dort dorment dorm dormir dormi
endormir endors endort endorment endorm endormir endormi
partir pars part partent part partir parti
courir cours court courent cour courr couru
rire ris rit rient ri rir ri
sourire souris sourit sourient souri sourir souri
venir viens vient viennent ven viendr venu
revenir reviens revient reviennent reven reviendr revenu
tenir tiens tient tiennent ten tiendr tenu
vouloir veux veut veulent voul voudr voulu
pouvoir peux peut peuvent pouv pourr pu
apprendre apprends apprend apprennent appren apprendr appris
boire bois boit boivent buv boir bu
dire dis dit disent dis dir dit
croire crois croit croient croy croir cru
savoir sais sait savent sav saur su
"""
PRINCIPAL_PARTS = {line.split()[0]: line.split() for line in IRREGULAR_VERBS.strip().splitlines()}


def build_conjugation(infinitive: str) -> Conjugation:
    """Return the principal parts of a French verb.

    Verbs that are not in the table are regular and end in -er, -ir (like finir) or -dre.
    """
    if infinitive in PRINCIPAL_PARTS:
        return Conjugation(*PRINCIPAL_PARTS[infinitive])
    root = infinitive[:-2]
    if infinitive.endswith("er"):
        return Conjugation(
            infinitive, root + "e", root + "e", root + "ent", root, infinitive, root + "é"
        )
    if infinitive.endswith("dre"):
        return Conjugation(
            infinitive, root + "s", root, root + "ent", root, infinitive[:-1], root + "u"
        )
    assert infinitive.endswith("ir"), infinitive
    stem = root + "iss"
    return Conjugation(
        infinitive, root + "is", root + "it", stem + "ent", stem, infinitive, root + "i"
    )
