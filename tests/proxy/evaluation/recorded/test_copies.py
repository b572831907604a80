"""The second extractor: six tokens copied word for word."""

from __future__ import annotations

from proxy.evaluation.recorded.copies import LENGTH, copied_runs
from tests.proxy.evaluation.recorded.made import run


def test_copied_lines_are_found_without_knowing_what_an_id_is() -> None:
    found = copied_runs(run())
    assert found and all(fact.band == "copy" and len(fact.sources) <= 3 for step in found for fact in step.facts)
    assert all(len(fact.atom.split()) >= 3 and LENGTH == 6 for step in found for fact in step.facts)
    edits = {step.index for step in run().steps if step.is_decisive}
    assert {step.index for step in found} & edits
