from __future__ import annotations

from proxy.demo.evidence import count_found

USER = b'{"role":"user","content":"tides"}'
SAID = b'{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":%s}]}'
CALL = b'{"name":"look","arguments":"{}"}'


def test_messages_count_byte_for_byte() -> None:
    assert count_found([USER], [USER]) == 1
    assert count_found([USER], [USER.replace(b":", b": ", 1)]) == 0
    assert count_found([USER, USER], [USER]) == 1


def test_the_models_own_words_may_be_kept_as_they_were_heard() -> None:
    sent = SAID % CALL
    heard = b'{"content":"","role":"assistant","tool_calls":[{"function":%s,"id":"a","type":"function"}]}' % CALL
    assert count_found([sent], [heard]) == 1
    assert count_found([sent], [heard.replace(b'"a"', b'"b"')]) == 0
    assert count_found([sent, sent], [heard]) == 1
