"""Dependent batches of Labor: minibatches in a row that share their random numbers."""

import numpy as np
import pytest

from foregather import Loader
from foregather.errors import InputError
from foregather.sampling import Labor, MatrixSampler
from foregather.sampling.identity import identity_of
from tests.helpers_sampling import same_sample, skewed_graph
from tests.some import some

GRAPH = skewed_graph(0, 400, 8000)


def seeds(count):
    return [np.random.default_rng(k).permutation(400)[:30] for k in range(count)]


@pytest.mark.parametrize("every", [1, 2, 3, 100])
@pytest.mark.parametrize("first", [0, 5])
def test_a_minibatch_has_the_numbers_of_its_group(every, first):
    """Minibatch b is what an independent sampler makes of the same seeds as minibatch b // k."""
    plain, given = Labor([4, 3]), seeds(9)
    made = Labor([4, 3], batch_dependency=every).sample_bulk(
        GRAPH, given, seed=2, epoch=1, first_batch=first
    )
    for number, (one, nodes) in enumerate(zip(made, given, strict=True)):
        group = (first + number) // every
        (same,) = plain.sample_bulk(GRAPH, [nodes], seed=2, epoch=1, first_batch=group)
        for name in some(("node", "row", "col", "edge", "weight")):
            assert np.array_equal(getattr(one, name), getattr(same, name))
        assert one.batch == first + number


def test_the_matrix_program_makes_the_same():
    rule = Labor([4, 3], batch_dependency=3)
    bulk = rule.sample_bulk(GRAPH, seeds(7), seed=2, first_batch=2)
    program = MatrixSampler.sample_bulk(rule, GRAPH, seeds(7), seed=2, first_batch=2)
    for one, other in zip(bulk, program, strict=True):
        assert same_sample(one, other)


def test_dependent_batches_touch_fewer_nodes():
    def touched(every):
        bulk = Labor([2, 2], batch_dependency=every).sample_bulk(GRAPH, seeds(8), seed=2)
        return len(np.unique(np.concatenate([one.node for one in bulk])))

    assert touched(8) < touched(1)


def test_a_dependency_of_one_is_the_sampler_that_was():
    assert repr(Labor([4, 3])) == (
        "Labor(num_neighbors=(4, 3), expand='once', layer_dependency=False, debias='exact')"
    )
    assert identity_of(Labor([4, 3])) == repr(Labor([4, 3]))
    assert "batch_dependency=4" in identity_of(Labor([4, 3], batch_dependency=4))
    loader = Loader(GRAPH, None, range(100), 10, sampler=Labor([4], batch_dependency=2))
    other = Loader(GRAPH, None, range(100), 10, sampler=Labor([4], batch_dependency=3))
    with pytest.raises(InputError, match="saved with sampler"):
        other.load_state_dict(loader.state_dict())


@pytest.mark.parametrize("every", [0, -1, 1.5, "two"])
def test_bad_input_is_one_sentence(every):
    with pytest.raises(InputError, match="batch_dependency"):
        Labor([4], batch_dependency=every)
