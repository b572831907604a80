from proxy.core.model import Usage
from proxy.core.usage import UsageReport, add, merge, total


def test_running_totals_are_replaced_field_by_field() -> None:
    report = None
    for output in (12, 40, 90):
        report = merge(report, UsageReport(input=100 if output == 12 else None, output=output))
    assert total(report) == Usage(input=100, output=90)


def test_nothing_reported_is_no_usage() -> None:
    assert total(None) is None
    assert total(UsageReport(cached=3)) is None
    assert total(UsageReport(input=0)) == Usage(input=0, output=0)


def test_merge_with_nothing_keeps_the_other() -> None:
    report = UsageReport(input=1)
    assert merge(None, report) is report
    assert merge(report, None) is report


def test_calls_of_one_request_add_up() -> None:
    one, two = Usage(10, 1, cached=5, cost=0.5), Usage(20, 2, is_estimated=True)
    assert add(one, two) == Usage(30, 3, cached=5, cost=0.5, is_estimated=True)
    assert add(None, two) is two
    assert add(one, None) is one
