"""Random generators of the user's own, and which of them a fork has draw other numbers.

One that was given a seed, or a state, is part of what the user has computed: every child has
it as it is. One that was made without a seed should draw what nobody can foresee: every
child's draws anew. Looking through the whole heap for them would cost more than the fork, and
every page it touches. So `random.Random` notes which of its objects have no seed; of numpy's,
which cannot be noted, those that variables of the session hold are looked at: numpy keeps
what it seeded them with, 128 bits of the system's where it was given none.
"""

import functools
import random
import sys
import weakref

_LEAST_OF_THE_SYSTEM = 1 << 64
_unseeded = weakref.WeakSet()
_seed = random.Random.seed


def follow_generators():
    setstate = random.Random.setstate

    @functools.wraps(_seed)
    def noted_seed(self, a=None, version=2):
        _seed(self, a, version)
        _note(self, a is None)

    @functools.wraps(setstate)
    def noted_setstate(self, state):
        setstate(self, state)
        _note(self, False)

    random.Random.seed, random.Random.setstate = noted_seed, noted_setstate


def _note(generator, is_unseeded):
    try:
        (_unseeded.add if is_unseeded else _unseeded.discard)(generator)
    except TypeError:  # of a class whose objects cannot be told apart
        pass


def draw_anew(names):
    """`names` are the session's variables."""
    for generator in list(_unseeded):
        _seed(generator)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None:
        return
    numpy_random.seed()
    for value in list(names.values()):
        if type(value) is numpy_random.Generator:
            bits = value.bit_generator
        elif type(value) is numpy_random.RandomState:
            bits = getattr(value, "_bit_generator", None)
        else:
            continue
        seeded_by = getattr(bits, "seed_seq", None) or getattr(bits, "_seed_seq", None)
        entropy = getattr(seeded_by, "entropy", None)
        if isinstance(entropy, int) and entropy >= _LEAST_OF_THE_SYSTEM and type(bits).__module__.startswith("numpy."):
            bits.state = type(bits)().state
