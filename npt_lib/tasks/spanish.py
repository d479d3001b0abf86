"""English phrases and their Spanish translations: tasks of chapter 10.

In Spanish the adjective follows its noun, and takes its gender and number, as does the
determiner: the red houses, las casas rojas. All words here are plain ones for things and
animals, and none of the nouns is of the kind that says el in the feminine (el agua).
"""

from itertools import product
from typing import NamedTuple

from npt_lib.module import Rng
from npt_lib.require import check_number, check_rng
from npt_lib.tasks.task import Task, shuffled, translation


class Noun(NamedTuple):
    """An English noun in both numbers, its Spanish word, and that word's gender."""

    singular: str
    plural: str
    spanish: str
    gender: str                 # "m" or "f"


class Phrase(NamedTuple):
    """One phrase in both languages, and the noun and adjective that it is made from."""

    english: str
    spanish: str
    pair: tuple[str, str] | None     # (noun, adjective) in English, or None without adjective


def _nouns(gender: str, lines: str) -> list[Noun]:
    words = [line.split() for line in lines.strip().splitlines()]
    return [Noun(singular, plural, spanish, gender) for singular, plural, spanish in words]


NOUNS = _nouns("m", """
    book books libro
    car cars coche
    dog dogs perro
    cat cats gato
    horse horses caballo
    bird birds pájaro
    mouse mice ratón
    shoe shoes zapato
    hat hats sombrero
    coat coats abrigo
    uniform uniforms uniforme
    umbrella umbrellas paraguas
    train trains tren
    plane planes avión
    bridge bridges puente
    hotel hotels hotel
    garden gardens jardín
    tree trees árbol
    map maps mapa
    pencil pencils lápiz
    knife knives cuchillo
    egg eggs huevo
    clock clocks reloj
""") + _nouns("f", """
    house houses casa
    table tables mesa
    chair chairs silla
    door doors puerta
    window windows ventana
    street streets calle
    city cities ciudad
    church churches iglesia
    island islands isla
    flower flowers flor
    apple apples manzana
    cow cows vaca
    key keys llave
    bed beds cama
    shirt shirts camisa
    box boxes caja
    lamp lamps lámpara
    bottle bottles botella
    guitar guitars guitarra
    motorbike motorbikes moto
    photo photos foto
""")

COLOURS_AND_ORIGINS = dict(
    red="rojo", white="blanco", black="negro", yellow="amarillo", blue="azul", green="verde",
    grey="gris", brown="marrón", Spanish="español", French="francés",
)
QUALITIES = dict(                                        # those that "very" goes with
    new="nuevo", old="viejo", small="pequeño", big="grande", clean="limpio", dirty="sucio",
    cheap="barato", expensive="caro", strange="extraño", pretty="bonito", ugly="feo",
    modern="moderno",
)
ADJECTIVES = COLOURS_AND_ORIGINS | QUALITIES

SINGULAR = dict(the="el la", a="un una", my="mi mi", our="nuestro nuestra",
                this="este esta", that="ese esa")
PLURAL = dict(the="los las", some="unos unas", my="mis mis", our="nuestros nuestras",
              these="estos estas", those="esos esas")


def noun_phrase(noun: Noun, plural: bool, determiner: str, adjective: str = "",
                very: bool = False) -> Phrase:
    """One phrase in both languages, such as: these very old maps, estos mapas muy viejos."""
    masculine, feminine = (PLURAL if plural else SINGULAR)[determiner].split()
    english = ["very"] * very + [adjective] * bool(adjective)
    english += [noun.plural if plural else noun.singular]
    spanish = [masculine if noun.gender == "m" else feminine]
    spanish += [pluralise(noun.spanish) if plural else noun.spanish] + ["muy"] * very
    if adjective:
        spanish.append(agree(ADJECTIVES[adjective], noun.gender, plural))
        pair = (noun.singular, adjective)
    article = article_before(english[0]) if determiner == "a" else determiner
    return Phrase(" ".join([article, *english]), " ".join(spanish), pair if adjective else None)


def all_noun_phrases() -> list[Phrase]:
    """Every noun in both numbers, with every determiner, and with every adjective or none."""
    qualifiers = [("", False), *((a, False) for a in ADJECTIVES), *((a, True) for a in QUALITIES)]
    return [
        noun_phrase(noun, plural, determiner, adjective, very)
        for noun, plural in product(NOUNS, (False, True))
        for determiner in (PLURAL if plural else SINGULAR)
        for adjective, very in qualifiers
    ]


def article_before(word: str) -> str:
    """an before a, e, i, o, u, but not before uni-: an apple, an old car, a uniform."""
    return "an" if word[0] in "aeiou" and not word.startswith("uni") else "a"


def agree(adjective: str, gender: str, plural: bool) -> str:
    """The form of a Spanish adjective: rojo, roja, rojos, rojas; azul, azul, azules, azules."""
    word = feminine(adjective) if gender == "f" else adjective
    return pluralise(word) if plural else word


def feminine(adjective: str) -> str:
    """rojo, roja; español, española; francés, francesa; the others do not change."""
    if adjective.endswith("o"):
        return adjective[:-1] + "a"
    return {"español": "española", "francés": "francesa"}.get(adjective, adjective)


def pluralise(word: str) -> str:
    """casa, casas; flor, flores; lápiz, lápices; avión, aviones; paraguas, paraguas."""
    if word == "paraguas":
        return word
    if word[-1] in "aeiou":
        return word + "s"
    if word.endswith("z"):
        return word[:-1] + "ces"
    for stressed, plain in (("ón", "on"), ("ín", "in"), ("és", "es")):
        if word.endswith(stressed):
            return word.removesuffix(stressed) + plain + "es"
    return word + "es"


def hold_out_pairs(rng: Rng, share: float) -> set[tuple[str, str]]:
    """Random pairs (noun, adjective), at most half of those of any noun or adjective."""
    check_rng(rng)
    share = check_number("held_out", share, "above 0 and at most 0.4", lambda x: 0 < x <= 0.4)
    pairs = shuffled(rng, [(noun.singular, a) for noun in NOUNS for a in ADJECTIVES])
    room = {noun.singular: len(ADJECTIVES) // 2 for noun in NOUNS}
    room |= {adjective: len(NOUNS) // 2 for adjective in ADJECTIVES}
    chosen: set[tuple[str, str]] = set()
    for noun, adjective in pairs:
        if len(chosen) < share * len(pairs) and room[noun] and room[adjective]:
            chosen.add((noun, adjective))
            room[noun] -= 1
            room[adjective] -= 1
    return chosen


def phrases() -> Task:
    """Three English phrases and their Spanish translations, to be learned by heart."""
    return translation("phrases", *[[
        ("hello my name", "hola mi nombre"),
        ("hello messi", "hola messi"),
        ("my name is messi", "mi nombre es messi"),
    ]] * 2)


def noun_phrases(rng: Rng, held_out: float = 0.15) -> Task:
    """English noun phrases, to be written in Spanish: the red houses -> las casas rojas.

    This share of the pairs (noun, adjective) is held out, with every determiner, in both
    numbers, with and without very: the model has seen both words, but never together.
    """
    pairs = hold_out_pairs(rng, held_out)
    everything = all_noun_phrases()
    seen = [(p.english, p.spanish) for p in everything if p.pair not in pairs]
    unseen = [(p.english, p.spanish) for p in everything if p.pair in pairs]
    return translation("noun phrases", shuffled(rng, seen), shuffled(rng, unseen))
