"""What models learn: in chapter 10 pairs of texts, each task with the tokenizers for them.

Every task keeps its held-out pairs apart from those it trains on; only ``next_token`` and
``phrases`` are so small that there is nothing to hold out, and test on what they trained on.
A language model needs no pairs: ``numpy_documentation`` is text to read on.
"""

from npt_lib.tasks.documentation import Texts, numpy_documentation
from npt_lib.tasks.numbers import number_words
from npt_lib.tasks.sequences import (
    copy_task,
    identity_strings,
    next_token,
    reverse_numbers,
    reverse_strings,
    sort_numbers,
)
from npt_lib.tasks.spanish import noun_phrases, phrases
from npt_lib.tasks.task import Task

__all__ = [
    "Task", "Texts", "copy_task", "identity_strings", "next_token", "noun_phrases",
    "number_words", "numpy_documentation", "phrases", "reverse_numbers", "reverse_strings",
    "sort_numbers",
]
