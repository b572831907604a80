"""Overflow against its near misses: own paraphrases here, recorded samples beside the repository where they are."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import pytest

from proxy.core.model import Usage
from proxy.core.overflow import Overflow, classify, is_bodiless_overflow, is_silent_overflow
from proxy.core.overflow_rules import DEFAULT

SAMPLES = pathlib.Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "overflow" / "samples.jsonl"

Shape = Callable[[str], object]
SHAPES: dict[str, Shape] = {
    "nested": lambda text: {"error": {"message": text, "type": "invalid_request_error", "code": "400"}},
    "null code": lambda text: {"error": {"message": text, "param": None, "code": None}},
    "flat": lambda text: {"object": "error", "message": text, "type": "BadRequestError", "code": 400},
    "array": lambda text: [{"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}],
    "bare": lambda text: {"error": text, "error_type": "validation"},
    "detail": lambda text: {"detail": text},
    "detail object": lambda text: {"detail": {"error": {"message": text}}},
    "object": lambda text: {"object": {"message": text, "code": "400"}},
    "raw": lambda text: {
        "error": {"message": "upstream refused", "metadata": {"raw": json.dumps({"error": {"message": text}})}}
    },
    "prefixed": lambda text: {"error": {"message": "Provider error: 400 - " + json.dumps({"message": text})}},
    "text": lambda text: text,
}

PARAPHRASES = [
    ("Prompt of 150000 tokens does not fit in the 131072-token window of this model", 131072, 150000),
    ("The conversation you sent is 201,334 tokens long; this deployment allows 200,000.", 200000, 201334),
    ("Your request used 131,500 tokens, but the limit for this model is 131,072 tokens", 131072, 131500),
    ("Total of 9000 tokens requested, context holds 8192", 8192, 9000),
    ("ctx overflow: have 40000 tokens, n_ctx = 32768", 32768, 40000),
    ("n_ctx_slot=4096 exceeded: prompt has 5000 tokens", 4096, 5000),
    ("prompt size (5000) > context size (4096)", 4096, 5000),
    ("Prompt is 33k tokens, maximum is 32k", 32000, 33000),
    ("The number of prompt tokens (140001) is greater than the maximum of 131072", 131072, 140001),
    ("request (140001 tokens) is larger than allowed (131072)", 131072, 140001),
    ("Sequence length 9001 is larger than the model maximum 8192", 8192, 9001),
    ("Allowed input token range is 1..131072", 131072, None),
    ("input tokens must be in the range [1, 131072], got 150000", 131072, 150000),
    ("Number of input tokens must be between 1 and 32768", 32768, None),
    ("messages: total tokens 220000 over the allowed 200000", 200000, 220000),
    ("Context window exhausted: 204800 of 200000 tokens", 200000, 204800),
    ("The input (tokens: 210000) exceeds this model's limit (tokens: 200000)", 200000, 210000),
    ("Please shorten your conversation, it no longer fits into the model's context.", None, None),
    ("7000 prompt tokens plus 4000 completion tokens exceeds the 8192 token context window", 8192, None),
    ("The model can handle up to 8192 tokens, your input has 9000", 8192, 9000),
    ("Maximum input length exceeded: 9000 tokens given, 8192 allowed", 8192, 9000),
    ("Maximum request tokens exceeded (limit: 8192, actual: 9000)", 8192, 9000),
    ("Context limit of 1 048 576 tokens exceeded: request has 1 200 000 tokens", 1048576, 1200000),
    ("model context length is 128K tokens but input is 140K tokens", 128000, 140000),
    ("Input exceeds context window. Limit=131072 Got=150000", 131072, 150000),
    ("The chat history is too long for the model to process.", None, None),
    ("prompt_tokens 9000 exceeds max_model_len 8192", 8192, 9000),
    ("The size of the input, 9000 tokens, is above the context limit of the model, 8192 tokens.", 8192, 9000),
    ("INVALID_ARGUMENT: input tokens 9000 > 8192", 8192, 9000),
    ("Cannot process 9000 tokens: model context is limited to 8192", 8192, 9000),
    ("Input too large: 9000 tokens. Reduce to under 8192 tokens.", 8192, 9000),
    ("Token limit exceeded. Max tokens allowed: 8192, tokens in request: 9000", 8192, 9000),
    ("Request has 1,200,000 tokens, which is more than the 1,048,576 supported", 1048576, 1200000),
    ("Too many tokens in messages: 9000 (max 8192)", 8192, 9000),
    ("messages exceed the model's maximum context length by 300 tokens", None, None),
    ("max context length exceeded (8192)", 8192, None),
    ("The prompt exceeds the model's 32,768-token context", 32768, None),
    ("This request would need 300000 tokens of context, the model has 262144", 262144, 300000),
    ("Encoded prompt length 9000 surpasses session_len 8192", 8192, 9000),
    ("The total number of tokens in the request (9000) must be less than 8192", 8192, 9000),
    ("Prompt too long (9000 tokens, max 8192)", 8192, 9000),
    ("Request exceeds model context: 9000/8192 tokens", 8192, 9000),
    ("The model's context size of 8192 tokens is not enough for 9000 prompt tokens", 8192, 9000),
    ("请求的 token 数 9000 超过模型的上下文长度 8192", 8192, 9000),
    ("输入过长，最大支持 8192 个 token", 8192, None),
    ("The text you submitted is longer than this model's input limit (8192 tokens).", 8192, None),
    ("Invalid request: prompt is longer than context window (9000 > 8192)", 8192, 9000),
    ("Input token limit is 8192. You provided 9000.", 8192, 9000),
    ("Your input of 9000 tokens goes over the 8192 tokens this model can take", 8192, 9000),
    ("Inference request exceeds the maximum number of tokens (8192) for model foo-32k: 9000", 8192, 9000),
    ("request too large: 9000 tokens exceed the 8192-token limit of model gpt-4-0613", 8192, 9000),
    ("Request body too large for this model. Max size: 8000 tokens.", 8000, None),
    ("Unable to fit 9000 tokens into an 8192 token context", 8192, 9000),
    ("Please keep your prompt under 8192 tokens (was 9000)", 8192, 9000),
    ("8192 tokens is the most this model can read; you sent 9000", 8192, 9000),
    ("prompt length 9001 > max 8192", 8192, 9001),
    ("Token count 70021 is beyond the model's window (65536).", 65536, 70021),
    ("Your prompt is 808 tokens over the context limit of 8192", 8192, None),
    ("Conversation history exceeds supported context. Remove earlier messages.", None, None),
    ("Size of the images and text in tokens exceeds the maximum context length", None, None),
]

# limit, requested, input, output, cause
PARTS = [
    ("tokens: 198214 + 8192 > 200000, lower either", 200000, None, 198214, 8192, "output"),
    ("prompt tokens + max_tokens exceeds the window: 7000 + 4000 = 11000 > 8192", 8192, 11000, 7000, 4000, "output"),
    ("prompt (7000 tokens) + max_tokens (4000) = 11000 exceeds 8192", 8192, 11000, 7000, 4000, "output"),
    ("max_tokens (8192) + prompt tokens (130000) exceeds context length 131072", 131072, None, 130000, 8192, "output"),
    ("input_length (9000) + max_new_tokens (100) > max_seq_length (8192)", 8192, None, 9000, 100, "input"),
    (
        "The context holds 8192 tokens but you requested 9000 (500 in the messages, 8500 in the completion).",
        8192,
        9000,
        500,
        8500,
        "output",
    ),
    (
        "At most 8192 tokens fit the context; your prompt has 9000 prompt tokens and asks for 100 completion tokens",
        8192,
        None,
        9000,
        100,
        "input",
    ),
    (
        "context length is 40960 but 33000 of text input, 5000 of tool input and 4000 in the output were requested",
        40960,
        None,
        38000,
        4000,
        "output",
    ),
    (
        "max_tokens is too large: 32768. The maximum context length is 40960 tokens and your request has 15000 input"
        " tokens "
        "(32768 > 40960 - 15000)",
        40960,
        None,
        15000,
        32768,
        "output",
    ),
    (
        "inputs tokens + max_new_tokens must be <= 4096. Given: 80125 inputs tokens and 512 max_new_tokens",
        4096,
        None,
        80125,
        512,
        "input",
    ),
]

NEAR_MISSES = [
    "Rate limit reached for this model on tokens per min (TPM): Limit 30000, Requested 342389. Input tokens must be"
    " reduced.",
    "Request too large on tokens per minute (TPM): Limit 6000, Requested 9123, please reduce your message size",
    "Too many tokens, please wait before trying again.",
    "Daily token limit exceeded: 1000000 of 1000000 tokens used for today",
    "Your account's token limit of 100000 tokens per hour was exceeded by this request of 120000 tokens",
    "Monthly limit reached: 1000000 tokens of 1000000",
    "You exceeded your current quota of input tokens",
    "This needs more credits: you requested up to 32000 tokens but can only afford 1234",
    "Too many requests: prompt exceeds the allowed pace",
    "Server is busy, your request of 20000 tokens is over current capacity 10000",
    "Image too large: 12000000 bytes, limit 5242880 bytes",
    "messages.1.image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
    "Too many images in request: 25. Maximum is 20.",
    "Payload too large: body size 21000000 bytes exceeds limit 20000000",
    "Request body exceeds the limit of 10 MB",
    "Invalid 'messages[2].content': string too long. Expected a string with maximum length 10485760, got 62114761.",
    "Invalid 'messages': array too long. Expected maximum length 2048, but got 3000 instead.",
    "Metadata value too long: maximum 512 characters",
    "tools: too many tools, maximum is 128 but the input has 150",
    "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided 32000.",
    "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for this model",
    "max_tokens must be less than or equal to 8192, the maximum is less than the context_window of this model",
    "Range of max_tokens should be [1, 8192]",
    "max_new_tokens (9000) exceeds the maximum of 4096 for this model",
    "Requested output length 9000 exceeds the model's maximum output of 8192 tokens",
    "thinking budget_tokens 40000 exceeds maximum 24576",
    "The response was filtered by our content management policy; please reduce the length of the prompt",
    "messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
    "Each tool_use block must have a tool_result block in the next message",
    "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    "Request timed out while the prompt of 200000 tokens was processed, limit 600s",
    "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
    "Unrecognized request argument supplied: context_length",
    "The model `long-context-128k` does not exist",
    "Batch size exceeded: 600 inputs > 512 inputs",
    "top_logprobs must be between 0 and 20",
    "Cached content is too small. total_token_count=1024, min_total_token_count=32768",
    "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    "logit_bias has too many tokens",
    "Too many tokens requested for completion: 20000, model limit 16384",
    "completion tokens requested (20000) exceed maximum (16384)",
    "Reasoning tokens limit 8192 exceeded by effort setting 9000",
    "The access token exceeds its lifetime of 3600 seconds",
    "Vocabulary token id 200100 out of range, must be below 200019",
    "max_tokens 100 must be greater than min_tokens 2000",
    "Audio input is too long: 1500 seconds exceeds the maximum of 1400 seconds",
    "您的账户已达到速率限制，输入 token 超过每分钟上限",
    "余额不足，请求超过账户 token 上限",
    "<html><body><h1>413 Request Entity Too Large</h1></body></html>",
    "The long context option is not yet available for this subscription",
]


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize(("text", "limit", "requested"), PARAPHRASES)
def test_a_paraphrase_is_overflow_with_its_figures_under_every_status(
    status: int, text: str, limit: int | None, requested: int | None
) -> None:
    for name, shape in SHAPES.items():
        found = classify(status, shape(text), loads=json.loads)
        assert found is not None, name
        assert (found.limit, found.requested) == (limit, requested), name


@pytest.mark.parametrize(("text", "limit", "requested"), PARAPHRASES)
def test_a_paraphrase_is_overflow_inside_a_stream(text: str, limit: int | None, requested: int | None) -> None:
    error = {"code": "invalid_request_error", "message": text}
    for value in (
        {"type": "error", "error": error},
        {"type": "response.failed", "response": {"status": "failed", "error": error}},
        {"error": error},
        {"id": "c", "choices": [{"error": error, "delta": {"content": ""}}]},
        error,
        text,
        "data: " + json.dumps({"error": error}) + "\n\n",
    ):
        found = classify(200, value, is_streamed=True, loads=json.loads)
        assert found is not None, value
        assert (found.limit, found.requested) == (limit, requested), value


@pytest.mark.parametrize(("text", "limit", "requested", "tokens_in", "tokens_out", "cause"), PARTS)
def test_parts_tell_input_from_output(
    text: str, limit: int, requested: int | None, tokens_in: int, tokens_out: int, cause: str
) -> None:
    found = classify(400, SHAPES["nested"](text))
    assert found is not None
    assert (found.limit, found.requested, found.input, found.output) == (limit, requested, tokens_in, tokens_out)
    assert found.cause == cause
    assert found.room == max(0, limit - tokens_in)


@pytest.mark.parametrize("status", [400, 413, 422, 429, 500])
@pytest.mark.parametrize("text", NEAR_MISSES)
def test_a_near_miss_is_no_overflow_in_any_shape(status: int, text: str) -> None:
    for name, shape in SHAPES.items():
        assert classify(status, shape(text), loads=json.loads) is None, name


@pytest.mark.parametrize("text", NEAR_MISSES)
def test_a_near_miss_inside_a_stream_is_no_overflow(text: str) -> None:
    assert classify(200, {"type": "error", "error": {"message": text}}, is_streamed=True) is None
    assert classify(200, text, is_streamed=True) is None


@pytest.mark.parametrize("status", [401, 402, 403, 404, 408, 409, 429, 500, 502, 503, 529])
def test_another_status_is_never_overflow(status: int) -> None:
    body = {"error": {"code": "context_length_exceeded", "message": "maximum context length is 8192 tokens, got 9000"}}
    assert classify(status, body) is None
    assert classify(400, body) == Overflow(8192, 9000, 9000)


@pytest.mark.parametrize(
    "code",
    [
        "context_length_exceeded",
        "ContextWindowExceededError",
        "exceed_context_size_error",
        "model_max_prompt_tokens_exceeded",
        "context_too_large",
        "PromptTooLong",
        "tokens_limit_reached",
        "1261",
    ],
)
def test_a_strong_code_is_enough(code: str) -> None:
    assert classify(400, {"error": {"message": "no words", "code": code}}) is not None
    if not code.isdigit():
        assert classify(400, {"error": {"message": "no words", "type": code}}) is not None


@pytest.mark.parametrize(
    "code",
    [
        "rate_limit_exceeded",
        "tokens",
        "insufficient_quota",
        "string_above_max_length",
        "request_too_large",
        "content_filter",
    ],
)
def test_a_veto_code_beats_every_word(code: str) -> None:
    assert classify(400, {"error": {"message": "prompt is too long: 9000 tokens > 8192 maximum", "code": code}}) is None


def test_a_refusing_status_inside_the_body_vetoes() -> None:
    inner = json.dumps({"error": {"code": 429, "message": "input tokens exceed the limit of 30000"}})
    assert classify(400, {"error": {"message": "x", "metadata": {"raw": inner}}}, loads=json.loads) is None


def test_what_the_user_or_the_model_wrote_is_not_read() -> None:
    words = "context_length_exceeded: prompt is too long: 300000 tokens > 200000 maximum"
    echo = {"detail": [{"type": "missing", "loc": ["body"], "msg": "Field required", "input": {"messages": [words]}}]}
    answer = {"id": "c", "object": "chat.completion", "choices": [{"message": {"content": words}}]}
    failed = {"response": {"error": {"code": "server_error", "message": "Sorry"}, "instructions": words}}
    assert classify(422, echo) is None
    for value in (
        answer,
        failed,
        {"error": None, "choices": [{"delta": {"content": words}}]},
        words,
        [answer],
        None,
        7,
    ):
        assert classify(200, value, loads=json.loads) is None


def test_numbers_beside_the_message_are_read() -> None:
    body = {
        "error": {"type": "exceed_context_size_error", "message": "too big", "n_prompt_tokens": 13392, "n_ctx": 8192}
    }
    assert classify(400, body) == Overflow(8192, 13392, 13392)


def test_an_application_code_under_a_200_is_read() -> None:
    assert classify(200, {"choices": None, "base_resp": {"status_code": 1039, "status_msg": "token limit"}}) is not None
    assert classify(200, {"error_code": 336103, "error_msg": "Prompt tokens too long"}) is not None


@pytest.mark.parametrize("limit", [999, 100_000_001])
def test_a_limit_outside_sane_bounds_is_dropped(limit: int) -> None:
    found = classify(
        400, {"error": {"code": "context_length_exceeded", "message": f"maximum context length is {limit} tokens"}}
    )
    assert found == Overflow()


def test_an_operator_can_add_patterns_and_vetoes() -> None:
    body = {"error": {"message": "Zu viel Text"}}
    assert classify(400, body) is None
    assert classify(400, body, rules=DEFAULT.extended(patterns=["zu viel text"])) is not None
    assert classify(400, body, rules=DEFAULT.extended(patterns=["zu viel"], vetoes=["viel text"])) is None


def test_odd_bodies_are_survived() -> None:
    deep: object = "x"
    for _ in range(3000):
        deep = {"error": deep}
    for value in (
        deep,
        "{" * 5000,
        {"error": {"message": "a" * 3_000_000}},
        {"error": [[]] * 100_000},
        {1: {None: True}},
        "",
    ):
        assert classify(400, value, loads=json.loads) is None
        assert classify(200, value, is_streamed=True, loads=json.loads) is None


def test_silent_overflow() -> None:
    assert is_silent_overflow("model_context_window_exceeded", None, None)
    assert is_silent_overflow("length", Usage(input=130_000, output=0), 131_072)
    assert not is_silent_overflow("length", Usage(input=130_000, output=5), 131_072)
    assert not is_silent_overflow("length", Usage(input=100_000, output=0), 131_072)
    assert not is_silent_overflow("length", Usage(input=130_000, output=0), None)
    assert not is_silent_overflow("stop", Usage(input=130_000, output=0), 131_072)


def test_a_refusal_without_a_body_needs_a_full_window() -> None:
    assert is_bodiless_overflow(400, 0, 60_000, 65_536)
    assert is_bodiless_overflow(413, 0, 60_000, 65_536)
    assert not is_bodiless_overflow(413, 12, 60_000, 65_536)
    assert not is_bodiless_overflow(413, 0, 50_000, 65_536)
    assert not is_bodiless_overflow(413, 0, 60_000, None)
    assert not is_bodiless_overflow(429, 0, 60_000, 65_536)


@pytest.mark.skipif(not SAMPLES.exists(), reason="the recorded samples are not here")
def test_every_recorded_sample_is_classified_with_exact_figures() -> None:
    wrong = []
    for line in SAMPLES.read_text("utf-8").splitlines():
        sample = json.loads(line)
        found = classify(sample["status"], sample["body"], loads=json.loads)
        figures = (found.limit, found.requested) if found else None
        if figures != ((sample["limit"], sample["requested"]) if sample["overflow"] else None):
            wrong.append((sample["id"], found))
    assert not wrong
