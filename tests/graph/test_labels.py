"""Labels and splits: every accepted form becomes the stored one; every other is refused."""

import numpy as np
import pytest

from foregather.errors import InputError
from foregather.graph.labels import normalize_labels, normalize_split


@pytest.mark.parametrize(
    ("given", "stored", "kind", "classes", "missing"),
    [
        (np.array([0, 2, -1]), np.array([0, 2, -1], np.int8), "single", 3, 1),
        (np.array([[0], [300], [1]]), np.array([0, 300, 1], np.int16), "single", 301, 0),
        (np.array([0.0, np.nan, 5.0]), np.array([0, -1, 5], np.int8), "single", 6, 1),
        (np.array([True, False, True]), np.array([1, 0, 1], np.int8), "single", 2, 0),
        (np.array([0.5, 1.0, np.nan]), np.array([0.5, 1.0, np.nan], "f4"), "float", None, 1),
        (np.eye(3), np.eye(3, dtype=np.uint8), "multi", 3, 0),
    ],
)
def test_forms(given, stored, kind, classes, missing):
    labels, facts = normalize_labels(given, 3)
    np.testing.assert_array_equal(labels, stored)
    assert labels.dtype == stored.dtype
    assert facts == {"kind": kind, "num_classes": classes, "missing": missing}


def test_partly_missing_multi_labels_stay_float():
    labels, facts = normalize_labels(np.array([[0, 1], [np.nan, 1]]), 2)
    assert labels.dtype == np.float32 and facts["kind"] == "float" and facts["missing"] == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros(4), r"shape \(4,\), expected 3 rows"),
        (np.array([0, -2, 1]), "node 1 has label -2"),
        (np.array(["a", "b", "c"]), "expected integers or floats"),
    ],
)
def test_bad_labels(given, message):
    with pytest.raises(InputError, match=message):
        normalize_labels(given, 3)


def test_split_forms():
    np.testing.assert_array_equal(normalize_split("a", np.array([[2], [0]]), 3), [2, 0])
    np.testing.assert_array_equal(normalize_split("a", np.array([True, False, True]), 3), [0, 2])
    np.testing.assert_array_equal(normalize_split("a", np.array([1.0]), 3), [1])


@pytest.mark.parametrize(
    ("name", "ids", "message"),
    [
        ("a", np.array([3]), "holds 3 at position 0, but there are 3 nodes"),
        ("a", np.array([-1]), "holds -1 at position 0"),
        ("a", np.array([0.5]), "is float64 of shape"),
        ("a", np.array([True]), "is bool of shape"),
        ("../x", np.array([0]), "split name '../x'"),
        ("a", np.zeros((2, 2)), "expected a list of whole numbers"),
    ],
)
def test_bad_splits(name, ids, message):
    with pytest.raises(InputError, match=message):
        normalize_split(name, ids, 3)
