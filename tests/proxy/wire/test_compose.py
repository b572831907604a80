"""Messages that the library writes."""

from __future__ import annotations

import pytest

from proxy.errors import InputError
from proxy.wire import compose
from proxy.wire.chat import ChatFormat


def test_a_call_and_its_result_pair_up() -> None:
    fmt = ChatFormat()
    asked = fmt.read_element(compose.call("c1", "bash", {"input": 'ls "a"'}))
    answered = fmt.read_element(compose.result("c1", "a b"))
    assert asked.calls[0].name == "bash" and asked.calls[0].arguments == '{"input":"ls \\"a\\""}'
    assert answered.answers == asked.calls[0].id and answered.texts == ("a b",)
    assert fmt.read_element(compose.message("user", "hallo")).text == "hallo"


def test_a_given_message_is_kept_as_it_is() -> None:
    value = {"role": "user", "content": [{"type": "text", "text": "a"}], "name": "x"}
    assert compose.to_send([compose.given(value)]) == (value,)


@pytest.mark.parametrize("value", [{}, {"role": 3}, {"role": "user", "content": object()}])
def test_what_is_no_message_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(InputError):
        compose.given(value)
