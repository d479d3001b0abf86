"""The landing page's journey: one sentence on its way through a small, trained Transformer."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from npt_lib import (
    Adam,
    Transformer,
    attention_maps,
    greedy,
    sinusoidal_positions,
    softmax,
    train,
    warmup_cosine,
)
from npt_lib.module import Array, Rng
from npt_lib.tasks import Task
from npt_lib.tasks.task import translation

from .figures.stage import N_BARS, Scene, crossing
from .figures.svg import Picture, fixed
from .figures.words import described_row, described_weights

SENTENCE = "the cat lost her red ball"
WHO = """cat gato gata, bear oso osa, wolf lobo loba, child niño niña, teacher maestro maestra,
baker panadero panadera, cook cocinero cocinera, neighbour vecino vecina, student alumno alumna,
friend amigo amiga"""
DID = """lost perdió, found encontró, sold vendió, washed lavó, painted pintó, hid escondió,
bought compró, wanted quiso"""
HOW = """red rojo roja, black negro negra, white blanco blanca, yellow amarillo amarilla,
small pequeño pequeña, new nuevo nueva, old viejo vieja"""
WHAT = """ball pelota f, house casa f, box caja f, shirt camisa f, bed cama f, flower flor f,
hat sombrero m, book libro m, car coche m, coat abrigo m, clock reloj m, boat barco m"""
HELD_OUT = ("red ball", "cat lost", "bear lost", "child lost")
N_TRAIN, N_STEPS, D_MODEL = 6000, 200, 32
N_SLOW = 2                               # words that take three frames each; the others one


def _words(lines: str) -> list[list[str]]:
    return [entry.split() for entry in lines.split(",")]


def sentences() -> list[tuple[str, str]]:
    """Every sentence like ours with its translation: her makes gata of gato, and ball, roja."""
    pairs = []
    for who, did, his, how, what in product(*map(_words, (WHO, DID, "his m, her f", HOW, WHAT))):
        female, thing_female = his[1] == "f", what[2] == "f"
        pairs.append((f"the {who[0]} {did[0]} {his[0]} {how[0]} {what[0]}",
                      f"{'la' if female else 'el'} {who[1 + female]} {did[1]} "
                      f"su {what[1]} {how[1 + thing_female]}"))
    return pairs


def red_balls(rng: Rng) -> Task:
    """To learn from: some of the sentences. To be tested on: all that have a pair held out."""
    pairs = sentences()
    held_out = [pair for pair in pairs if any(words in pair[0] for words in HELD_OUT)]
    others = sorted(set(pairs) - set(held_out))
    chosen = rng.permutation(len(others))[:N_TRAIN]
    return translation("red balls", [others[i] for i in chosen], held_out)


def learn(task: Task, rng: Rng) -> Transformer:
    """A Transformer with one block on each side and one head in each attention, in a second."""
    config = task.config(d_model=D_MODEL, n_heads=1, n_layers=1, d_ff=64, dropout=0.0, max_len=16)
    model = Transformer(config, rng).astype(np.float64)
    batches = task.batches(32, rng)
    train(model, Adam(model.parameters()), batches, None, N_STEPS,
          lambda step: warmup_cosine(step, 5e-3, 33, N_STEPS))
    return model


def accuracy(model: Transformer, task: Task) -> float:
    """Of the sentences held out, the part that it translates without a fault."""
    written = greedy(model, task.arrays("test")[0], max_len=9)
    spanish = task.tgt_tokenizer.decode_batch(written)
    return float(np.mean([a == b for a, (_, b) in zip(spanish, task.test, strict=True)]))


@dataclass(frozen=True)
class Trip:
    """All that happens to one sentence: the numbers behind every frame."""

    source: list[str]
    ids: list[int]
    embedded: Array                  # (S, D)
    placed: Array                    # (S, D), with positions
    reads: list[list[float]]         # (S, S)
    memory: Array                    # (S, D)
    written: list[str]               # <bos>, the words, <eos>
    across: list[list[float]]        # (T, S)
    back: list[list[float]]          # (T, T)
    chances: Array                   # (T, V)
    vocabulary: list[str]


def travel(model: Transformer, task: Task, sentence: str = SENTENCE) -> Trip:
    """Send a sentence through, and keep what is on the way."""
    src = task.encode_sources([sentence])                                 # (1, S)
    ids = np.insert(greedy(model, src, max_len=9), 0, model.config.bos_id, axis=1)
    logits, backward = model.forward(src, ids[:, :-1])
    maps = {name: w[0, 0].tolist() for name, w in attention_maps(backward).items()}
    placed, chances = model.src_embed(src)[0], softmax(logits[0])[0]
    english, spanish = task.src_tokenizer.tokens, task.tgt_tokenizer.tokens
    return Trip([english[i] for i in src[0]], src[0].tolist(),
                placed - sinusoidal_positions(len(placed), D_MODEL), placed,
                maps["encoder.0.attn"], model.encode(src)[0], [spanish[i] for i in ids[0]],
                maps["decoder.0.cross"], maps["decoder.0.attn"], chances, spanish)


REMARKS = {
    ("the", "<eos>"): "Nobody told it where to look: it has learned that.",
    ("red", "ball"): "A Spanish colour takes the gender of its thing, and a ball is a she as well.",
    ("cat", "her"): "Of a she-cat Spanish says “gata”, else “gato”: “her” could tell it which.",
    ("la", "her"): "The Spanish word for “the” depends on who the cat is, and only “her” says so.",
    ("gata", "cat"): "It has just written “la”, so it is “gata”. After “el” it would be “gato”.",
    ("pelota", "ball"): "Spanish names the thing before its colour, so here the looks cross.",
    ("roja", "red"): "It must end in a, as “pelota” does.",
}


def remark(word: str, source: list[str], weights: list[float]) -> str:
    """What is worth saying where this word looks most at that one."""
    seen = source[int(np.argmax(weights))]
    return f" {REMARKS[word, seen]}" if (word, seen) in REMARKS else ""


def quoted(words: list[str]) -> list[str]:
    return [f"“{word}”" for word in words]


def frames(trip: Trip) -> list[tuple[Picture, str]]:
    """The journey, a picture and a sentence or two for each step; first its end, as a poster."""
    start, end = trip.written[0], trip.written[-1]
    poster = ("This is how it will end: in the middle the vectors that the model made of the "
              "English words, below the Spanish ones, and lines to where it looked most. "
              f"({start} and {end} mark the beginning and the end.) "
              "How does a sentence get here?")
    done = ("The end mark has been written, so the translation is finished: "
            f"{' '.join(trip.written[1:-1])}. Each word is tied to the English words that it "
            "looked at most.")
    steps = [frame for t in range(len(trip.across)) for frame in _next_word(trip, t)]
    return [_end(trip, "", poster), *_arrive(trip), *_read(trip), *steps, _end(trip, "write", done)]


def _end(trip: Trip, station: str, caption: str) -> tuple[Picture, str]:
    """All is written, and each word tied to where it looked."""
    scene = Scene(station, trip.source, trip.ids, trip.memory, written=trip.written,
                  slots=len(trip.written), pairs=trip.across)
    looks = described_weights(trip.across, trip.written[1:], trip.source)
    return scene.picture(f"{' '.join(trip.source)}: {' '.join(trip.written)}. {looks}"), caption


def _arrive(trip: Trip) -> list[tuple[Picture, str]]:
    """Words become ids, ids become vectors, vectors learn their places."""
    words, ids = trip.source, trip.ids
    scenes = [
        (Scene("words", [*words[:-1], ""]),
         "Six English words, on their way to become Spanish. The model has never met this "
         "sentence; nor has it met “red ball”, or “cat lost”."),
        (Scene("ids", words, ids),
         f"Each word becomes a number, its id: its place in a list of words. {words[-1]} marks "
         "the end of the sentence and is treated like a word."),
        (Scene("vectors", words, ids, trip.embedded),
         f"Each id picks a row from a table of numbers that were learned. A row has {D_MODEL} "
         "numbers, drawn as small squares: blue above zero, orange below."),
        (Scene("vectors", words, ids, trip.placed),
         "Then each place in the sentence adds its own pattern, made of waves. Without it, the "
         "model could not tell which word came first."),
    ]
    return [(scene.picture(caption), caption) for scene, caption in scenes]


def _read(trip: Trip) -> list[tuple[Picture, str]]:
    """Every word looks at every other, one after the other, and comes out changed."""
    out = []
    for i, word in enumerate(trip.source):
        seen = described_row(trip.reads[i], quoted(trip.source), f"“{word}”", most=2)
        caption = f"{seen}. The thicker the arc, the stronger the look."
        caption += remark(word, trip.source, trip.reads[i])
        scene = Scene("attention", trip.source, trip.ids, trip.placed, i, trip.reads[i])
        alt = described_row(trip.reads[i], trip.source, word, most=len(trip.source))
        out.append((scene.picture(alt), caption))
    caption = ("What a word gathered is added to its vector. The rest of the block normalises it "
               "and bends it with a feed-forward network. Seven new vectors come out: the "
               "sentence, as the model has understood it.")
    done = Scene("block", trip.source, trip.ids, trip.memory)
    return [*out, (done.picture(caption), caption)]


def whole(trip: Trip) -> Picture:
    """The end of the journey alone: the sentence, its translation, and what looked where."""
    looks = described_weights(trip.across, trip.written[1:], trip.source)
    return crossing(trip.source, trip.written[1:], trip.across,
                    f"{' '.join(trip.source[:-1])} becomes {' '.join(trip.written[1:-1])}. {looks}")


def _next_word(trip: Trip, t: int) -> list[tuple[Picture, str]]:
    """Where it looks, how likely each word is, and the word in its place.

    A frame for each while that is new, for two words; then one for all.
    """
    word, so_far, back = trip.written[t + 1], trip.written[:t + 1], trip.back[t][:t + 1]
    likely = np.argsort(-trip.chances[t], kind="stable")[:N_BARS]
    chances = [(trip.vocabulary[i], float(trip.chances[t, i])) for i in likely]
    stage = Scene("write", trip.source, trip.ids, trip.memory, written=so_far,
                  across=trip.across[t], slots=len(trip.written))
    looks = described_row(trip.across[t], quoted(trip.source), "", verb="most at", most=2)
    start = (f"Now it writes, beginning with a start mark, {so_far[0]}. It looks" if t == 0 else
             f"For the next word it looks back at “{' '.join(so_far[1:])}”, and")
    numbers = ", ".join(f"{name} {fixed(chance, 2)}" for name, chance in chances)
    if t >= N_SLOW:
        scene = replace(stage, written=trip.written[:t + 2], chances=chances, chosen=True)
        lead = "The same for the next word, in one step: it" if t == N_SLOW else "The next"
        return [(scene.picture(f"{word} looks {looks}; the likeliest: {numbers}"),
                 f"{lead} looks {looks}. The likeliest, “{word}”, is written."
                 f"{remark(word, trip.source, trip.across[t])}"
                 f"{' That ends the sentence.' if word == trip.written[-1] else ''}")]
    return [
        (replace(stage, back=back).picture(
            f"Across, {looks}; {described_row(back, so_far, 'back,', verb='most at')}"),
         f"{start} across at the English, {looks}.{remark(word, trip.source, trip.across[t])}"),
        (replace(stage, chances=chances).picture(f"The likeliest: {numbers}"),
         f"Each of the {len(trip.vocabulary)} entries in its list of Spanish words gets a "
         f"probability: “{word}” {fixed(chances[0][1], 2)}, all others together "
         f"{fixed(1 - chances[0][1], 2)}."),
        (replace(stage, written=trip.written[:t + 2], across=(), chances=chances,
                 chosen=True).picture(f"{word} is written after {' '.join(so_far)}"),
         f"The likeliest, “{word}”, is written. It goes back in, as input for the next."),
    ]
