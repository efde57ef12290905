"""How many plural forms a language has, and which numbers take which, as gettext writes it."""

from __future__ import annotations

import re

_SLAVIC = (
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : "
    "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);"
)
_ONE_AND_OTHERS = "nplurals=2; plural=(n != 1);"
_FORMS = {
    "nplurals=1; plural=0;": "bo dz id ja jv km ko lo ms my su th tt ug vi wo yo yue zh",
    "nplurals=2; plural=(n > 1);": "ak am br fa fil fr hy ln mg oc pt-br ti tr uz wa",
    _SLAVIC: "be bs hr ru sh sr uk",
    "nplurals=3; plural=(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2;": "cs sk",
    "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);": "pl",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : "
    "n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);": "lt",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);": "lv",
    "nplurals=3; plural=(n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2);": "ro",
    "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);": "sl",
    "nplurals=4; plural=(n==1 ? 0 : n==0 || (n%100>1 && n%100<11) ? 1 : "
    "(n%100>10 && n%100<20) ? 2 : 3);": "mt",
    "nplurals=5; plural=(n==1 ? 0 : n==2 ? 1 : n<7 ? 2 : n<11 ? 3 : 4);": "ga",
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : "
    "n%100>=11 ? 4 : 5);": "ar",
}
_BY_LANGUAGE = {code: form for form, codes in _FORMS.items() for code in codes.split()}


def plural_forms(language: str) -> str:
    """Return the header of a language; those not known have one form for 1 and one for the rest."""
    tag = language.lower().replace("_", "-")
    return _BY_LANGUAGE.get(tag) or _BY_LANGUAGE.get(re.split("-", tag)[0]) or _ONE_AND_OTHERS
