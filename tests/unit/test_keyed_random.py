from itertools import islice

import numpy as np
import pytest

from seq2see.keyed_random import (
    hash_key,
    hash_text,
    hash_uniform,
    iterate_uniform,
    keyed_uniform,
    mix_bits,
    mix_seeds,
)


def test_numbers_are_the_same_on_every_machine() -> None:
    assert keyed_uniform(20170612, 0, 0, 0) == 0.730217095628377
    assert hash_uniform(np.arange(2), 4) == pytest.approx([0.62631982, 0.72549226])
    assert list(islice(iterate_uniform((1, 2)), 2)) == [0.9006109088931585, 0.28014258045387297]
    assert mix_seeds(1, 2, 3) == 18229680201238944035
    assert hash_key(1, 2) == 13608149317741381227
    assert hash_text("a cat \udc80") == 4549024978071180255


def test_arrays_are_mixed_like_integers() -> None:
    values = [0, 1, 2**63, 2**64 - 1]
    assert mix_bits(np.array(values, np.uint64)).tolist() == [mix_bits(value) for value in values]


def test_keys_of_several_numbers_are_distinct() -> None:
    for function in (mix_seeds, hash_key, keyed_uniform):
        assert len({function(1, a, b) for a in range(100) for b in range(100)}) == 10_000
    assert keyed_uniform(1, 2) != keyed_uniform(12)


@pytest.mark.parametrize(
    "numbers",
    [
        hash_uniform(np.arange(100_000), 4),
        np.fromiter(islice(iterate_uniform((4, 5)), 100_000), np.float64),
        np.array([keyed_uniform(0, line, step) for line in range(1000) for step in range(100)]),
    ],
)
def test_numbers_are_uniform(numbers) -> None:
    assert numbers.min() >= 0
    assert numbers.max() <= 1
    assert np.histogram(numbers, 10)[0] == pytest.approx(10_000, rel=0.05)
