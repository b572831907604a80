"""Charts: whole SVG, every figure in a title, nothing of a name taken for markup."""

from __future__ import annotations

from xml.etree import ElementTree

from proxy.evaluation.charts import Series, bars, intervals, lines
from proxy.evaluation.statistics import Interval

SERIES = [Series("sticky", (1.0, 0.5, None), 0), Series("<b>&last", (0.25, None, 3.5), 9)]


def texts(svg: str, tag: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(svg).iter(tag)]


def test_lines_go_through_what_is_known() -> None:
    svg = lines("steps", ["full", "half", "<8K>"], SERIES[:1])
    assert texts(svg, "title") == ["sticky: 100.0 %", "sticky: 50.0 %"]
    (line,) = ElementTree.fromstring(svg).iter("polyline")
    (_, high), (_, low) = (map(float, point.split(",")) for point in line.attrib["points"].split())
    assert high < low
    assert "<8K>" in texts(svg, "text")


def test_bars_are_as_high_as_their_value_and_cut_above_twice() -> None:
    svg = bars("bill", ["a", "b", "c"], SERIES)
    heights = [float(one.attrib["height"]) for one in ElementTree.fromstring(svg).iter("rect")]
    full, quarter, half, cut = heights
    assert abs(full - 2 * half) < 0.5 and abs(full - 4 * quarter) < 0.5 and abs(cut - 2 * full) < 0.5
    assert svg.count('class="cut"') == 1
    assert "<b>&last, c: 3.50 of direct" in texts(svg, "title")


def test_an_interval_lies_about_its_value() -> None:
    svg = intervals("steps", [("sticky · half", 0, Interval(0.1, -0.05, 0.2, 9)), ("x", 1, Interval(0, 0, 0, 9))])
    (group, _) = ElementTree.fromstring(svg).iter("g")
    line, dot = group.find("line"), group.find("circle")
    assert line is not None and dot is not None
    assert float(line.attrib["x1"]) < float(dot.attrib["cx"]) < float(line.attrib["x2"])
    assert texts(svg, "title")[0] == "sticky · half: +10.0 points, -5.0 to +20.0, 9 tasks"


def test_nothing_to_draw_is_still_a_drawing() -> None:
    for svg in (lines("", [], []), bars("", [], []), intervals("", [])):
        assert ElementTree.fromstring(svg).tag == "svg"
