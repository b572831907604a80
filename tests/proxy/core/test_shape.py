"""The shape of a parsed JSON value, and the parts of it that are asked for."""

from __future__ import annotations

import pytest

from proxy.core.shape import SHAPE_CHARS, NumberText, matches, shape


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"id": 7, "name": "Anna", "open": True, "note": None}, '{id: 7, name: "Anna", open: true, note: null}'),
        ({"text": "x" * 1_234}, "{text: string, 1,234 chars}"),
        ([{"a": 1}, {"b": "x"}], "[2 × {a: number, b: string}]"),
        ([1, "a", 2], "[3 × number | string]"),
        ([], "[]"),
        ({"a": {"b": {"c": {"d": {"e": 1}}}}}, "{a: {b: {c: {d: {1 keys}}}}}"),
        ({str(n): n for n in range(30)}, None),
    ],
)
def test_shape(value: object, expected: str | None) -> None:
    if expected is None:
        assert "… 6 more keys}" in shape(value)
    else:
        assert shape(value) == expected


def test_numbers_stay_as_they_are_spelt() -> None:
    value = {"id": NumberText("9007199254740993123456789"), "price": NumberText("0.10")}
    assert shape(value) == "{id: 9007199254740993123456789, price: 0.10}"
    assert matches({"a": [value]}, {"9007199254740993123456789"})[0] == [
        "a: [{id: 9007199254740993123456789, price: 0.10}]"
    ]


def test_a_match_is_the_smallest_row_that_says_what_it_belongs_to() -> None:
    orders = [
        {"id": f"#W{n:07}", "items": [{"sku": f"sku_{n}_{k}", "note": "x" * 90} for k in range(5)]} for n in range(50)
    ]
    rows, count = matches({"orders": orders}, {"sku_7_2"})
    assert count == 1
    assert rows == [f'orders.7.items.2: {{sku: "sku_7_2", note: "{"x" * 90}"}}']
    assert matches({"orders": orders}, {"note"}, limit=3)[1] == 250


def test_long_and_encoded_strings_are_not_told_whole() -> None:
    rows, _ = matches({"text": "tide " * 500}, {"tide"})
    assert rows[0].startswith('text: "tide tide') and len(rows[0]) < 260
    deep: object = "tide"
    for _ in range(3_000):
        deep = [deep]
    assert matches(deep, {"tide"}) == ([], 0)


def test_the_shape_of_anything_is_small() -> None:
    wide = {f"key_{n}": {f"inner_{k}": {f"leaf_{j}": j for j in range(30)} for k in range(30)} for n in range(30)}
    assert len(shape(wide)) <= SHAPE_CHARS
    assert shape([{"a": n} for n in range(100_000)]) == "[100,000 × {a: number}]"
