"""Units: sizes and counts as people write them."""

import pytest

from foregather.errors import InputError
from foregather.units import (
    format_bytes,
    format_count,
    format_number,
    parse_count,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2 * 10**9),
        ("1.5GiB", 3 << 29),
        ("512MB", 512 * 10**6),
        ("4096", 4096),
        (7, 7),
        ("1kb", 1000),
        ("3 TB", 3 * 10**12),
        ("2g", 2 * 10**9),
        ("1_000B", 1000),
        ("1e3", 1000),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "0", "2XB", "1..5GB", "two", "1GBB", "nan"])
def test_bad_sizes(text):
    with pytest.raises(InputError, match="size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "count"), [("10M", 10**7), ("1.6B", 1_600_000_000), ("20k", 20_000), ("5", 5), (3, 3)]
)
def test_counts(text, count):
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["1.5", "M", "3Q", "", "-4"])
def test_bad_counts(text):
    with pytest.raises(InputError, match="count"):
        parse_count(text)


def test_formats():
    assert format_bytes(512) == "512 B"
    assert format_bytes(2.05e9) == "2.05 GB"
    assert format_bytes(999_999) == "1 MB"
    assert format_count(1234567) == "1,234,567"
    assert [format_number(n, "epoch") for n in (0, 1, 2000)] == [
        "0 epochs",
        "1 epoch",
        "2,000 epochs",
    ]
    assert [format_number(1, noun) for noun in ("batch", "class")] == ["1 batch", "1 class"]
    assert [format_number(2, noun) for noun in ("batch", "class", "community", "way", "array")] == [
        "2 batches",
        "2 classes",
        "2 communities",
        "2 ways",
        "2 arrays",
    ]
