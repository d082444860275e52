"""Traces: spans of all threads, bounded, in the JSON that Perfetto reads."""

import json
import threading
from contextlib import contextmanager

from foregather.observe.trace import Trace, span


def test_spans_of_threads(tmp_path):
    entered = []

    @contextmanager
    def ranged(name):
        entered.append(name)
        yield

    with span("before"):
        pass
    with Trace(ranged) as trace:
        with span("outer"), span("inner"):
            pass

        def work():
            with span("sample"):
                pass

        thread = threading.Thread(target=work, name="ahead")
        thread.start()
        thread.join()
    with span("after"):
        pass
    assert entered == ["outer", "inner", "sample"]
    assert set(trace.totals()) == {"outer", "inner", "sample"}
    trace.write(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    spans = {event["name"]: event for event in events if event["ph"] == "X"}
    assert spans["outer"]["ts"] <= spans["inner"]["ts"]
    assert spans["outer"]["dur"] >= spans["inner"]["dur"] >= 0
    assert spans["sample"]["tid"] != spans["outer"]["tid"]
    assert "ahead" in {event["args"]["name"] for event in events if event["ph"] == "M"}


def test_events_are_bounded_and_totals_are_not():
    with Trace(most=3) as trace:
        for _ in range(10):
            trace.add("a", 0.0, 1.0)
    assert len(trace.events()) == 3 and trace.totals() == {"a": 10.0}
