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
        (np.array([0.0, 2.0, 5.0]), np.array([0, 2, 5], np.int8), "single", 6, 0),
        (np.array([0.0, 2.0, -1.0]), np.array([0, 2, -1], "f4"), "float", None, 0),
        (np.array([0.0, 2.0, 2.0**54]), np.array([0, 2, 2.0**54], "f4"), "float", None, 0),
        (np.eye(3), np.eye(3, dtype=np.uint8), "multi", 3, 0),
        (np.eye(3, dtype=np.uint8), np.eye(3, dtype=np.uint8), "multi", 3, 0),
        (np.eye(3, dtype=bool), np.eye(3, dtype=np.uint8), "multi", 3, 0),
        (np.eye(3) * 2, np.eye(3, dtype=np.float32) * 2, "float", None, 0),
    ],
)
def test_forms(given, stored, kind, classes, missing):
    labels, facts = normalize_labels(given, 3)
    np.testing.assert_array_equal(labels, stored)
    assert labels.dtype == stored.dtype
    assert facts == {"kind": kind, "num_classes": classes, "missing": missing}


@pytest.mark.parametrize("missing", [np.nan, -1.0, -1])
def test_partly_missing_multi_labels_are_multi_labels(missing):
    labels, facts = normalize_labels(np.array([[0, 1], [missing, 1]]), 2)
    np.testing.assert_array_equal(labels, np.array([[0, 1], [-1, 1]], np.int8))
    assert labels.dtype == np.int8
    assert facts == {"kind": "multi", "num_classes": 2, "missing": 1}


@pytest.mark.parametrize("missing", [False, True])
def test_whole_floats_are_classes_whether_or_not_one_is_missing(missing):
    given = np.array([4.0, 0.0, 130.0, np.nan if missing else 3.0])
    labels, facts = normalize_labels(given, 4)
    assert facts["kind"] == "single" and labels.dtype == np.int16
    assert labels.tolist() == [4, 0, 130, -1 if missing else 3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros(4), r"shape \(4,\), expected 3 rows"),
        (np.array([0, -2, 1]), "node 1 has label -2"),
        (np.array(["a", "b", "c"]), "expected integers or floats"),
        (np.array([0, 1 << 63, 1], np.uint64), "node 1 has label 9223372036854775808"),
        (np.array([0, (1 << 64) - 1, 1], np.uint64), "node 1 has label 18446744073709551615"),
        (np.array([0.5, 1e39, 1]), r"node 1 has label 1e\+39, beyond float32"),
        (np.array([[1, 2], [3, -1e300], [5, 6]]), r"node 1 has label -1e\+300, beyond float32"),
        (np.array([[1, 2], [3, (1 << 24) + 1], [5, 6]]), "node 1 has label 16777217, which float"),
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
        ("\u00e9", np.array([0]), "split name '\u00e9'"),
        ("-x", np.array([0]), "split name '-x'"),
        ("a", np.zeros((2, 2)), "expected a list of whole numbers"),
    ],
)
def test_bad_splits(name, ids, message):
    with pytest.raises(InputError, match=message):
        normalize_split(name, ids, 3)
