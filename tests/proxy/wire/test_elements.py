from proxy.core.model import Call
from proxy.wire.elements import atom_of_call, build_call, build_element, count_head, describe_call, join_lines


def test_calls_take_values_of_any_type() -> None:
    assert build_call("c", "f", {"b": 1, "a": 2}) == Call("c", "f", '{"a":2,"b":1}')
    assert build_call(None, 5, None) == Call("", "", "")
    assert describe_call(Call("c", "f", "{}")) == "f({})"
    assert join_lines("", "a", "", "b") == "a\nb"


def test_an_id_that_no_provider_issued_is_no_anchor() -> None:
    call = Call("call_1", "f", "{}")
    assert atom_of_call(call).anchor == "call1"
    assert atom_of_call(call, has_id=False).anchor == ""


def test_the_head_is_the_leading_run() -> None:
    roles = ["system", "developer", "user", "system"]
    elements = [build_element(b"{}", "message", role, "", ()) for role in roles]
    assert count_head(elements) == 2
    assert count_head(elements[:2]) == 2
    assert count_head(elements[2:]) == 0
