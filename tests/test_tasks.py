"""What the models learn: right in both languages, and held out for real."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

import npt_lib as npt
from npt_lib import tasks
from npt_lib.tasks import spanish as grammar
from npt_lib.tasks.numbers import draw_numbers, number_to_english, number_to_spanish
from npt_lib.tokenizer import BOS, EOS, PAD

SEQUENCES = {
    "copy_task": list,
    "reverse_numbers": lambda s: s[::-1],
    "sort_numbers": lambda s: sorted(s, key=int),
    "identity_strings": list,
    "reverse_strings": lambda s: s[::-1],
}
SAMPLE = np.random.default_rng(6).integers(10_000, 1_000_000, 4_000).tolist()


def rng(seed=0):
    return np.random.default_rng(seed)


def make(name, seed=0):
    small = {"n_train": 300, "n_test": 50}
    if name in ("next_token", "phrases"):
        return getattr(tasks, name)()
    return getattr(tasks, name)(rng(seed), **({} if name == "noun_phrases" else small))


ALL = [*SEQUENCES, "next_token", "phrases", "number_words", "noun_phrases"]
HELD_OUT = [*SEQUENCES, "number_words", "noun_phrases"]


def raises(message):
    return pytest.raises(ValueError, match="^" + re.escape(message) + "$")


# ---- every task

@pytest.mark.parametrize("name", ALL)
def test_arrays_are_ids_with_padding_at_the_end(name):
    task = make(name)
    for part, pairs in (("train", task.train), ("test", task.test)):
        src, tgt = task.arrays(part)
        assert src.dtype == tgt.dtype == np.int64
        assert len(src) == len(tgt) == len(pairs)
        assert (tgt[:, 0] == BOS).all() and not (src == BOS).any()
        for ids in (src, tgt):
            real = ids != PAD
            last = real.sum(axis=1) - 1
            assert (ids == EOS).sum() == len(ids)
            assert (ids[np.arange(len(ids)), last] == EOS).all()
            assert (np.diff(real.astype(int), axis=1) <= 0).all()
        assert task.src_tokenizer.decode_batch(src) == [a for a, _ in pairs]
        assert task.tgt_tokenizer.decode_batch(tgt) == [b for _, b in pairs]


@pytest.mark.parametrize("name", HELD_OUT)
def test_nothing_held_out_is_trained_on(name):
    task = make(name)
    sources = [a for a, _ in task.train + task.test]
    assert len(set(sources)) == len(sources)
    assert len(task.test) >= 50


@pytest.mark.parametrize("name", HELD_OUT)
def test_a_seed_gives_the_same_task_and_another_seed_another(name):
    task, again, other = make(name, 3), make(name, 3), make(name, 4)
    assert (task.train, task.test) == (again.train, again.test)
    assert task.test != other.test


@pytest.mark.parametrize("name", HELD_OUT)
def test_the_global_random_state_is_left_alone(name):
    before = np.random.get_state()[1].copy()
    make(name)
    assert (np.random.get_state()[1] == before).all()


def test_part_is_train_or_test():
    with raises("part must be 'train' or 'test', got 'valid'."):
        tasks.phrases().arrays("valid")


def test_a_task_shows_its_name_and_sizes_and_makes_a_config():
    task = make("reverse_numbers")
    assert repr(task) == "Task('reverse numbers', 300 train, 50 test)"
    config = task.config(d_model=32)
    assert (config.n_src_vocab, config.n_tgt_vocab, config.d_model) == (13, 13, 32)
    own = type("Own", (npt.Config,), {})
    assert vars(task.config(own, d_model=32)) == vars(config) and type(task.config(own)) is own
    with raises("kind must be Config or a subclass of it, got 32."):
        task.config(32)


# ---- sequences

@pytest.mark.parametrize("name", SEQUENCES)
def test_each_target_is_what_becomes_of_its_source(name):
    task = make(name)
    split = task.src_tokenizer.split
    for source, target in task.train + task.test:
        assert split(target) == SEQUENCES[name](split(source))


@pytest.mark.parametrize("name", SEQUENCES)
def test_all_lengths_appear_in_both_parts(name):
    task = make(name)
    for pairs in (task.train, task.test):
        assert {len(task.src_tokenizer.split(a)) for a, _ in pairs} == {3, 4, 5, 6, 7, 8}


@given(st.integers(1, 6), st.integers(0, 3), st.integers(1, 5), st.integers(0, 2**32))
def test_any_sizes_give_distinct_sequences_or_an_error(low, more, n_values, seed):
    try:
        task = tasks.copy_task(rng(seed), 7, 3, (low, low + more), n_values)
    except ValueError as error:
        assert "sequences need at least" in str(error)
        return
    sources = [a for a, _ in task.train + task.test]
    assert len(task.train) == 7 and len(set(sources)) == 10
    assert all(low <= len(a.split()) <= low + more for a in sources)


def test_too_few_sequences_to_choose_from_is_an_error():
    with raises("60 sequences need at least 120 to choose from, got 110."):
        tasks.copy_task(rng(), 50, 10, lengths=(1, 2))
    with raises("lengths must be two whole numbers, 1 <= shortest <= longest <= 1,000, "
                "got (5, 4)."):
        tasks.copy_task(rng(), lengths=(5, 4))


def test_absurd_sizes_are_refused_before_anything_is_made():
    with raises("n_values must be at most 1,000,000, got 1,000,000,000,000."):
        tasks.copy_task(rng(), n_values=10**12)
    with raises("lengths must be two whole numbers, 1 <= shortest <= longest <= 1,000, "
                "got (1, 1000000000)."):
        tasks.reverse_numbers(rng(), lengths=(1, 10**9))
    with raises("rng must be a generator, such as np.random.default_rng(0), got int."):
        tasks.sort_numbers(0)


def test_a_task_makes_its_batches():
    task = make("copy_task")
    batches = task.batches(16, rng(), "test", by_length=True)
    assert batches.n_rows == 50 and batches.pad_id == PAD and batches.by_length
    src, tgt = next(batches)
    assert len(src) == len(tgt) == 16 and (src != PAD).any(axis=0).all()


def test_next_token_is_one_sequence():
    assert tasks.next_token().train == [
        ("1", "2"), ("1 2", "3"), ("1 2 3", "4"), ("1 2 3 4", "5"), ("1 2 3 4 5", "6"),
    ]


def test_the_three_phrases():
    assert dict(tasks.phrases().train) == {
        "hello my name": "hola mi nombre",
        "hello messi": "hola messi",
        "my name is messi": "mi nombre es messi",
    }


# ---- number words

def num2words_english(n):
    return num2words(n, lang="en").replace(",", "")


def num2words_spanish(n):
    """num2words 0.5.14, corrected where it is wrong.

    It leaves uno and veintiuno whole before mil (veintiuno mil, treinta y uno mil, ciento uno
    mil); the Royal Academy's forms are veintiún mil, treinta y un mil, ciento un mil. That
    concerns the thousands that end in 1, other than 1 and those that end in 11.
    """
    words = num2words(n, lang="es")
    return words.replace("veintiuno mil", "veintiún mil").replace("uno mil", "un mil")


def ends_in_one_before_thousand(n):
    return n // 1000 > 1 and n // 1000 % 10 == 1 and n // 1000 % 100 != 11


@pytest.mark.parametrize("ours,theirs", [(number_to_english, num2words_english),
                                         (number_to_spanish, num2words_spanish)])
def test_number_words_agree_with_num2words(ours, theirs):
    different = [n for n in [*range(10_000), *SAMPLE] if ours(n) != theirs(n)]
    assert different == []


def test_num2words_is_corrected_only_before_a_thousand_that_ends_in_one():
    corrected = [n for n in [*range(10_000), *SAMPLE]
                 if num2words_spanish(n) != num2words(n, lang="es")]
    assert corrected == [n for n in SAMPLE if ends_in_one_before_thousand(n)]
    assert len(corrected) > 200


@pytest.mark.parametrize("n,english,spanish", [
    (0, "zero", "cero"),
    (1, "one", "uno"),
    (16, "sixteen", "dieciséis"),
    (21, "twenty-one", "veintiuno"),
    (22, "twenty-two", "veintidós"),
    (23, "twenty-three", "veintitrés"),
    (26, "twenty-six", "veintiséis"),
    (31, "thirty-one", "treinta y uno"),
    (42, "forty-two", "cuarenta y dos"),
    (100, "one hundred", "cien"),
    (101, "one hundred and one", "ciento uno"),
    (116, "one hundred and sixteen", "ciento dieciséis"),
    (500, "five hundred", "quinientos"),
    (731, "seven hundred and thirty-one", "setecientos treinta y uno"),
    (999, "nine hundred and ninety-nine", "novecientos noventa y nueve"),
    (1000, "one thousand", "mil"),
    (1001, "one thousand and one", "mil uno"),
    (1100, "one thousand one hundred", "mil cien"),
    (2021, "two thousand and twenty-one", "dos mil veintiuno"),
    (11_000, "eleven thousand", "once mil"),
    (16_000, "sixteen thousand", "dieciséis mil"),
    (21_000, "twenty-one thousand", "veintiún mil"),
    (21_021, "twenty-one thousand and twenty-one", "veintiún mil veintiuno"),
    (31_000, "thirty-one thousand", "treinta y un mil"),
    (100_000, "one hundred thousand", "cien mil"),
    (100_100, "one hundred thousand one hundred", "cien mil cien"),
    (101_000, "one hundred and one thousand", "ciento un mil"),
    (121_121, "one hundred and twenty-one thousand one hundred and twenty-one",
     "ciento veintiún mil ciento veintiuno"),
    (201_001, "two hundred and one thousand and one", "doscientos un mil uno"),
    (511_000, "five hundred and eleven thousand", "quinientos once mil"),
    (999_999, "nine hundred and ninety-nine thousand nine hundred and ninety-nine",
     "novecientos noventa y nueve mil novecientos noventa y nueve"),
])
def test_number_words_by_hand(n, english, spanish):
    assert number_to_english(n) == english
    assert number_to_spanish(n) == spanish


@pytest.mark.parametrize("words", [number_to_english, number_to_spanish])
def test_no_two_numbers_share_their_words(words):
    numbers = [*range(20_000), *{n for n in SAMPLE if n >= 20_000}]
    assert len({words(n) for n in numbers}) == len(numbers)


@pytest.mark.parametrize("n,shown", [(-1, "-1"), (1_000_000, "1,000,000")])
def test_numbers_have_a_range(n, shown):
    for words in (number_to_english, number_to_spanish):
        with raises(f"numbers go from 0 to 999,999, got {shown}."):
            words(n)


def drawn():
    """Words to number, for all that a task of the usual size holds."""
    return {number_to_english(n): n for n in [*range(100), *draw_numbers(rng(), 21_900)]}


def test_number_words_hold_out_what_is_never_trained_on():
    task = tasks.number_words(rng())
    numbers = drawn()
    train, test = ({numbers[a] for a, _ in pairs} for pairs in (task.train, task.test))
    assert (len(train), len(test)) == (20_000, 2_000)
    assert not train & test
    assert set(range(100)) <= train
    assert task.train[42] == ("forty-two", "cuarenta y dos")
    assert all(b == number_to_spanish(numbers[a]) for a, b in task.train + task.test)


def test_number_words_have_all_lengths_in_both_parts():
    task, numbers = tasks.number_words(rng()), drawn()
    for pairs in (task.train, task.test):
        digits = np.array([len(str(numbers[a])) for a, _ in pairs])
        for length, share in zip((3, 4, 5, 6), (0.03, 0.17, 0.3, 0.5), strict=True):
            assert 0.75 * share < (digits == length).mean() < 1.25 * share


def test_number_words_small_vocabularies():
    task = tasks.number_words(rng())
    assert len(task.src_tokenizer) == 3 + 20 + 8 + 4      # and, hundred, thousand, the hyphen
    assert len(task.tgt_tokenizer) == 3 + 30 + 7 + 9 + 5  # cien, mil, un, veintiún, y


def test_number_words_sizes_are_checked():
    with raises("n_train must be a whole number of at least 200, got 100."):
        tasks.number_words(rng(), 100, 10)
    with raises("1500 distinct numbers from 100 to 999 were asked for."):
        draw_numbers(rng(), 50_000)


# ---- noun phrases

PLURALS = dict(
    libro="libros", coche="coches", perro="perros", gato="gatos", caballo="caballos",
    pájaro="pájaros", ratón="ratones", zapato="zapatos", sombrero="sombreros", abrigo="abrigos",
    uniforme="uniformes", paraguas="paraguas", tren="trenes", avión="aviones", puente="puentes",
    hotel="hoteles", jardín="jardines", árbol="árboles", mapa="mapas", lápiz="lápices",
    cuchillo="cuchillos", huevo="huevos", reloj="relojes", casa="casas", mesa="mesas",
    silla="sillas", puerta="puertas", ventana="ventanas", calle="calles", ciudad="ciudades",
    iglesia="iglesias", isla="islas", flor="flores", manzana="manzanas", vaca="vacas",
    llave="llaves", cama="camas", camisa="camisas", caja="cajas", lámpara="lámparas",
    botella="botellas", guitarra="guitarras", moto="motos", foto="fotos",
)
FORMS = """
rojo roja rojos rojas; blanco blanca blancos blancas; negro negra negros negras
amarillo amarilla amarillos amarillas; azul azul azules azules; verde verde verdes verdes
gris gris grises grises; marrón marrón marrones marrones
español española españoles españolas; francés francesa franceses francesas
nuevo nueva nuevos nuevas; viejo vieja viejos viejas; pequeño pequeña pequeños pequeñas
grande grande grandes grandes; limpio limpia limpios limpias; sucio sucia sucios sucias
barato barata baratos baratas; caro cara caros caras; extraño extraña extraños extrañas
bonito bonita bonitos bonitas; feo fea feos feas; moderno moderna modernos modernas
"""
ADJECTIVE_FORMS = [line.split() for line in FORMS.strip().replace("\n", ";").split(";")]


@pytest.fixture(scope="module")
def translations():
    return {phrase.english: phrase.spanish for phrase in grammar.all_noun_phrases()}


@pytest.mark.parametrize("english,spanish", [
    ("the red houses", "las casas rojas"),
    ("my new car", "mi coche nuevo"),
    ("the house", "la casa"),
    ("an apple", "una manzana"),
    ("an old uniform", "un uniforme viejo"),
    ("a uniform", "un uniforme"),
    ("a red apple", "una manzana roja"),
    ("an expensive hotel", "un hotel caro"),
    ("an umbrella", "un paraguas"),
    ("these yellow umbrellas", "estos paraguas amarillos"),
    ("some French bridges", "unos puentes franceses"),
    ("this French church", "esta iglesia francesa"),
    ("our Spanish guitars", "nuestras guitarras españolas"),
    ("that old map", "ese mapa viejo"),
    ("those very dirty knives", "esos cuchillos muy sucios"),
    ("these mice", "estos ratones"),
    ("a very old motorbike", "una moto muy vieja"),
    ("an ugly photo", "una foto fea"),
    ("my blue pencils", "mis lápices azules"),
    ("the brown boxes", "las cajas marrones"),
    ("the grey cats", "los gatos grises"),
    ("our big garden", "nuestro jardín grande"),
    ("the big cities", "las ciudades grandes"),
])
def test_noun_phrases_by_hand(translations, english, spanish):
    assert translations[english] == spanish


def test_every_plural_of_a_noun():
    assert {n.spanish: grammar.pluralise(n.spanish) for n in grammar.NOUNS} == PLURALS


def test_every_form_of_every_adjective():
    got = [[grammar.agree(a, gender, plural) for plural in (False, True) for gender in "mf"]
           for a in grammar.ADJECTIVES.values()]
    assert got == ADJECTIVE_FORMS


def test_determiners_adjectives_and_nouns_agree():
    """Read every Spanish phrase on its own: one gender and one number throughout."""
    gender = {n.spanish: n.gender for n in grammar.NOUNS}
    singular = {form: noun for noun, plural in PLURALS.items() for form in (noun, plural)}
    for p in grammar.all_noun_phrases():
        determiner, noun, *rest = p.spanish.split()
        plural = determiner[-1] == "s"
        noun_gender = gender[singular[noun]]
        assert noun == (PLURALS[singular[noun]] if plural else singular[noun])
        assert noun_gender in {"el": "m", "un": "m", "este": "m", "ese": "m", "mi": "mf",
                               "mis": "mf"}.get(determiner, "f" if "a" in determiner else "m")
        if rest:
            forms = next(f for f in ADJECTIVE_FORMS if rest[-1] in f)
            assert rest[-1] == forms[2 * plural + (noun_gender == "f")]


def test_a_or_an_by_the_sound_that_follows():
    for p in grammar.all_noun_phrases():
        article, following = p.english.split()[:2]
        if article in ("a", "an"):
            vowel = following in ("apple", "egg", "umbrella", "island", "old", "expensive", "ugly")
            assert (article == "an") == vowel, p.english


def test_no_english_phrase_has_two_translations():
    everything = grammar.all_noun_phrases()
    assert len({p.english for p in everything}) == len(everything)


@pytest.mark.parametrize("seed", range(3))
def test_held_out_pairs_are_never_seen_together_and_all_words_are(seed):
    task = tasks.noun_phrases(rng(seed))
    pair = {p.english: p.pair for p in grammar.all_noun_phrases()}
    train, test = ({pair[a] for a, _ in pairs} for pairs in (task.train, task.test))
    assert not train & test
    assert None in train and None not in test
    assert len(test) == int(np.ceil(0.15 * len(grammar.NOUNS) * len(grammar.ADJECTIVES)))
    seen = [p for p in train if p]
    assert {noun for noun, _ in seen} == {n.singular for n in grammar.NOUNS}
    assert {adjective for _, adjective in seen} == set(grammar.ADJECTIVES)
    assert len(task.train) + len(task.test) == len(pair)
    task.arrays("test")                      # every held-out word is in the vocabularies


@pytest.mark.parametrize("share", [0.0, 0.5, -1])
def test_the_share_of_held_out_pairs_is_checked(share):
    with raises(f"held_out must be above 0 and at most 0.4, got {share}."):
        tasks.noun_phrases(rng(), share)


def test_half_of_each_words_pairs_are_always_trained_on():
    pairs = grammar.hold_out_pairs(rng(), 0.4)
    for noun in grammar.NOUNS:
        assert sum(n == noun.singular for n, _ in pairs) <= len(grammar.ADJECTIVES) // 2
    for adjective in grammar.ADJECTIVES:
        assert sum(a == adjective for _, a in pairs) <= len(grammar.NOUNS) // 2
    assert len(pairs) >= 0.4 * len(grammar.NOUNS) * len(grammar.ADJECTIVES)
