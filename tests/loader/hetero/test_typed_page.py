"""Docs: the page on batches of typed graphs runs, and names the attributes that batches have."""

import re
from pathlib import Path

from tests.some import some

PAGE = Path(__file__).parents[3] / "docs/howto/typed_batches.md"


def test_the_example_runs_and_the_table_is_right():
    text = PAGE.read_text(encoding="utf-8")
    code = re.search(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert code
    made = {"__name__": "example"}
    exec(compile(code[1], str(PAGE), "exec"), made)
    table = set(re.findall(r"`(\w+)`", text[text.index("| of |") : text.index("- `e_id` is")]))
    batch = made["batch"]
    for store in some(batch.stores):
        assert set(store.keys()) - {"target"} <= table
    assert made["loss"].isfinite() and batch["user"].batch_size == 64
