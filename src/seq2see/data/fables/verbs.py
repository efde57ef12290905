"""The verbs: English, French, who does it to what; and their conjugation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from seq2see.data.fables import english
from seq2see.data.fables.nouns import Kind

Person = Literal["I", "we", "you", "it", "they"]
Tense = Literal["present", "progressive", "past", "perfect", "imperfect", "future"]

BE_PAST: dict[Person, str] = {"I": "was", "we": "were", "you": "were", "it": "was", "they": "were"}
BE: dict[Person, str] = {"I": "am", "we": "are", "you": "are", "it": "is", "they": "are"}


@dataclass(frozen=True, slots=True)
class Conjugation:
    """The principal parts of a French verb."""

    infinitive: str
    je: str
    il: str
    ils: str
    stem: str
    """Of "nous" and of the imparfait."""
    future: str
    participle: str

    def present(self, person: Person) -> str:
        """Return the présent."""
        special = {"être": ("sommes", "êtes"), "dire": ("disons", "dites")}.get(self.infinitive)
        nous, vous = special or (_joined(self.stem, "ons"), self.stem + "ez")
        return {"I": self.je, "we": nous, "you": vous, "it": self.il, "they": self.ils}[person]

    def imperfect(self, person: Person) -> str:
        """Return the imparfait."""
        endings = {"I": "ais", "we": "ions", "you": "iez", "it": "ait", "they": "aient"}
        return _joined("ét" if self.infinitive == "être" else self.stem, endings[person])

    def coming(self, person: Person) -> str:
        """Return the futur simple."""
        endings = {"I": "ai", "we": "ons", "you": "ez", "it": "a", "they": "ont"}
        return self.future + endings[person]


def _joined(stem: str, ending: str) -> str:
    """Keep the sound of g and c before a and o: mangeait, commençait."""
    if ending[0] in "ao" and stem[-1] in "gc":
        stem = stem + "e" if stem[-1] == "g" else stem[:-1] + "ç"
    return stem + ending


IRREGULAR = """
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
PARTS = {line.split()[0]: line.split() for line in IRREGULAR.strip().splitlines()}
GOING = frozenset(
    ["aller", "venir", "revenir", "entrer", "arriver", "partir", "tomber", "rester", "passer"]
)


def conjugation(infinitive: str) -> Conjugation:
    """Return the principal parts, by rule unless they are listed: -er, -ir like finir, -dre."""
    if infinitive in PARTS:
        return Conjugation(*PARTS[infinitive])
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
    s = root + "iss"
    return Conjugation(infinitive, root + "is", root + "it", s + "ent", s, infinitive, root + "i")


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in both languages, with the particle or preposition it takes in each."""

    en: str
    en_past: str
    en_participle: str
    en_rest: str
    fr: Conjugation
    fr_rest: str
    reflexive: bool = False
    subjects: tuple[Kind, ...] = ()
    objects: tuple[Kind, ...] = ()
    state: bool = False
    """Whether its past is a state: imparfait, and no progressive."""
    momentary: bool = False
    """Whether it takes no time: no imparfait, and no progressive."""

    @property
    def with_etre(self) -> bool:
        """Whether être makes its compound tenses."""
        return self.reflexive or self.fr.infinitive in GOING

    @property
    def plain(self) -> Verb:
        """The verb without its particles."""
        return replace(self, en_rest="", fr_rest="")

    def english(self, tense: Tense, person: Person) -> tuple[str, str]:
        """Return the auxiliary, or "", and the verb."""
        if self.en == "be":
            return self._being(tense, person)
        if tense == "present" or (self.state and tense == "progressive"):
            return "", english.third(self.en) if person == "it" else self.en
        if tense == "past" or (self.state and tense == "imperfect"):
            return "", self.en_past
        if tense == "perfect":
            return "has" if person == "it" else "have", self.en_participle
        if tense == "future":
            return "will", self.en
        return (BE if tense == "progressive" else BE_PAST)[person], english.gerund(self.en)

    def _being(self, tense: Tense, person: Person) -> tuple[str, str]:
        if tense == "future":
            return "will", "be"
        return (BE if tense == "present" else BE_PAST)[person], ""

    def french(self, tense: Tense, person: Person) -> str:
        """Return the verb in a simple tense, or its auxiliary in a compound one."""
        if tense in {"present", "progressive"}:
            return self.fr.present(person)
        if tense in {"past", "perfect"}:
            return (ETRE if self.with_etre else AVOIR).present(person)
        return self.fr.imperfect(person) if tense == "imperfect" else self.fr.coming(person)


ETRE, AVOIR = conjugation("être"), conjugation("avoir")
