"""What a page says of full-graph runs over ranks: layers, ranks by time, links; all untrusted."""

from foregather.dist.transport.ledger import Ledger
from foregather.observe.page.stage_charts import (
    layer_staleness,
    links_chart,
    links_table,
    rank_timeline,
)
from foregather.observe.report import write_report
from foregather.train.trainers.epoch_links import sent_links, stage_facts


def record(epoch, **more):
    return {"epoch": epoch, "loss": 1.0, "seconds": 0.5, "peak_memory": 10, **more}


def page(records):
    facts = {"name": "r", "config": "", "settings": {}, "records": records, "environment": {}}
    return write_report(facts)


def test_staleness_by_layer_is_drawn_of_the_last_reading():
    first = record(10, staleness={"error": 0.2, "cosine": 0.9, "layers": {"1": 0.1, "2": 0.2}})
    last = record(20, staleness={"error": 0.5, "cosine": 0.9, "layers": {"10": 0.5, "2": 0.3}})
    chart = layer_staleness([first, record(15), last])
    assert chart is not None
    text = chart.figure()
    assert "in epoch 20: the most in layer 10, 50.0%" in text
    assert "first reading, epoch 10" in text and "error of history (epoch 20)" in text
    assert "Staleness by layer" in page([first, last])
    one = layer_staleness([last])
    assert one is not None and "first reading" not in one.figure()
    for layers in (None, 7, [1], {}, {"x": 1.0}, {"1": "a", "2": None}, {"1": 0.1}):
        assert layer_staleness([record(1, staleness={"layers": layers})]) is None


def test_ranks_are_drawn_by_time():
    lanes = [
        [["forward", 0.0, 0.1], ["send", 0.1, 0.01], ["agree", 0.11, 0.09]],
        [["receive", 0.0, 0.1], ["forward", 0.1, 0.1]],
    ]
    chart = rank_timeline([record(2, timeline=lanes), record(3)])
    assert chart is not None
    text = chart.figure()
    assert "Ranks in epoch 2" in text and "rank 1" in text
    assert "48% of the time of all ranks" in text  # 0.19 of 0.4 s
    assert "Ranks in epoch 2" in page([record(2, timeline=lanes)])
    bad = [["<b>", 0.0, 0.1], ["forward", "0", 1], ["forward", -1, 1], 7, ["forward", 1e308, 1]]
    for found in (None, 3, [], [[]], [lanes[0]], [bad, bad], [None, None]):
        assert rank_timeline([record(2, timeline=found)]) is None


def test_bytes_are_told_by_link():
    records = [record(n, links={"0 > 1": 3000, "1 > 0": 1000}) for n in (1, 2)]
    text = links_table(records)
    assert "0 &gt; 1" in text and "6 KB" in text and "75%" in text and "1 KB" in text
    assert "Bytes between ranks" in page(records) and "Bytes between" not in page([record(1)])
    for links in (None, 4, {}, {"0 > 1": "many"}, {"0 > 1": -5}, {str(n): 1 for n in range(99)}):
        assert links_table([record(1, links=links)]) == ""
    assert "<script>" not in links_table([record(1, links={"<script>": 5})])


def test_bytes_by_link_are_drawn():
    records = [record(n, links={"0 > 1": 3000, "1 > 0": 1000}) for n in (1, 2)]
    chart = links_chart(records)
    assert chart is not None and chart.sentence.startswith("8 KB in 2 epochs, as the ledger")
    text = chart.figure()
    assert "rank 0 &gt; 1" in text and ">3 KB<" in text and ">1 KB<" in text
    assert chart.title in page(records) and chart.title not in page([record(1)])
    for links in (None, {}, {"0 > 1": "many"}, {str(n): 1 for n in range(17)}):
        assert links_chart([record(1, links=links)]) is None


def test_a_record_names_links_and_tasks():
    ledger = Ledger(1, ("forward",))
    ledger.note(0, "forward", 100)
    before = ledger.entries()
    ledger.note(0, "forward", 10)
    ledger.note(0, "weights", 5)
    ledger.note(2, "forward", 7)
    links = sent_links(before, ledger.entries())
    assert links == {"1 > 0": 15, "1 > 2": 7}
    own = {"links": links, "tasks": [("forward", 0.1234567, 0.5)]}
    other = {"links": {"0 > 1": 3}, "tasks": []}
    assert stage_facts([other, own]) == {
        "links": {"0 > 1": 3, "1 > 0": 15, "1 > 2": 7},
        "timeline": [[], [["forward", 0.123457, 0.5]]],
    }
    many = {"links": {str(n): 1 for n in range(65)}, "tasks": []}
    assert stage_facts([many]) == {}
