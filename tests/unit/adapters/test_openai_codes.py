"""Which Fault a refusal is: every status, every code, and the sentences of the servers that send no code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.adapters.openai_codes import STATUSES, WORDS, fault_of_code, fault_of_status
from turnout.faults import Fault


@pytest.mark.parametrize(
    ("code", "error_type", "fault"),
    [
        ("rate_limit_exceeded", None, Fault.RATE_LIMIT),
        ("too_many_requests", None, Fault.RATE_LIMIT),
        (None, "rate_limit_error", Fault.RATE_LIMIT),
        ("Throttling.RateQuota", None, Fault.RATE_LIMIT),
        ("insufficient_quota", "rate_limit_error", Fault.QUOTA),
        (None, "exceeded_current_quota_error", Fault.QUOTA),
        ("billing_hard_limit_reached", None, Fault.QUOTA),
        (None, "overloaded_error", Fault.SERVER_ERROR),
        ("429", None, Fault.RATE_LIMIT),
        ("429", "insufficient_quota", Fault.QUOTA),
        ("402", None, Fault.QUOTA),
        ("502", None, Fault.SERVER_ERROR),
        ("7", None, Fault.UNKNOWN),
        ("²", None, Fault.UNKNOWN),
        ("invalid_api_key", None, Fault.AUTH),
        ("server_error", None, Fault.SERVER_ERROR),
        ("request_timeout", None, Fault.TIMEOUT),
        ("vector_store_timeout", None, Fault.TIMEOUT),
        ("context_length_exceeded", "invalid_request_error", Fault.CONTEXT_LENGTH),
        ("content_filter", None, Fault.CONTENT_FILTER),
        ("image_content_policy_violation", None, Fault.CONTENT_FILTER),
        ("bio_policy", None, Fault.CONTENT_FILTER),
        ("misalignment_policy_violation", None, Fault.CONTENT_FILTER),
        ("invalid_prompt", None, Fault.BAD_REQUEST),
        ("invalid_image_url", None, Fault.BAD_REQUEST),
        ("image_too_large", None, Fault.BAD_REQUEST),
        ("empty_image_file", None, Fault.BAD_REQUEST),
        ("failed_to_download_image", None, Fault.BAD_REQUEST),
        (None, None, Fault.UNKNOWN),
    ],
)
def test_a_code_without_a_status_is_one_fault(code: str | None, error_type: str | None, fault: Fault) -> None:
    assert fault_of_code(code, error_type) is fault


TOO_LONG = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens.",
    "This endpoint's maximum context length is 131072 tokens. However, you requested about 132463 tokens",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "Input tokens exceed the configured limit of 272000 tokens.",
    "prompt is too long: 208310 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
    "Input is too long for requested model.",
    "the request exceeds the available context size, try increasing it",
    "The number of tokens to keep from the initial prompt is greater than the context length",
    "The decoder prompt (length 40000) is longer than the maximum model length of 32768.",
    "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
    "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "too many tokens: total number of tokens in the prompt cannot exceed 4081",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Invalid request: Your request exceeded model token limit: 8192",
    "Range of input length should be [1, 30720]",
    "Prompt exceeds max length",
    "Please reduce the length of the messages or completion.",
    "Request too large for model `x` on tokens per minute: Limit 6000, Requested 7912, please reduce your message size",
]


@pytest.mark.parametrize("message", TOO_LONG)
def test_every_wording_of_a_request_that_is_too_long_is_known(message: str) -> None:
    for status in (400, 413, 422):
        assert fault_of_status(status, str(status), "BadRequestError", message) is Fault.CONTEXT_LENGTH
    assert fault_of_code(None, "invalid_request_error", message) is Fault.CONTEXT_LENGTH
    assert fault_of_code(None, None, message) is Fault.CONTEXT_LENGTH


@pytest.mark.parametrize(
    "message",
    [
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        "Your request was rejected as a result of our safety system.",
        "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
        "Output blocked by content filtering policy",
        "Content Exists Risk",
    ],
)
def test_every_wording_of_a_refusal_to_speak_of_it_is_known(message: str) -> None:
    assert fault_of_status(400, None, "invalid_request_error", message) is Fault.CONTENT_FILTER
    assert fault_of_code("invalid_prompt", None, message) is Fault.CONTENT_FILTER


@pytest.mark.parametrize(
    ("status", "code", "message", "fault"),
    [
        (403, None, "You have insufficient quota left", Fault.QUOTA),
        (403, "insufficient_user_quota", "", Fault.QUOTA),
        (403, None, "Your account balance is insufficient", Fault.QUOTA),
        (403, "access_denied", "Not for you", Fault.AUTH),
        (403, None, "Your chosen model requires moderation and your input was flagged", Fault.CONTENT_FILTER),
        (403, "rate_limit_exceeded", "", Fault.RATE_LIMIT),
        (400, None, "Your credit balance is too low to access the API", Fault.QUOTA),
        (400, "invalid_request_error", "Your credit balance is too low", Fault.QUOTA),
        (400, "out_of_credits", "", Fault.QUOTA),
        (429, "credit_balance_too_low", "", Fault.QUOTA),
        (400, None, "You don't have enough credits: you're out of credits", Fault.QUOTA),
        (400, "billing_hard_limit_reached", "Billing hard limit has been reached", Fault.QUOTA),
        (429, None, "This request requires more credits", Fault.QUOTA),
    ],
)
def test_what_is_used_up_is_told_from_what_is_forbidden_or_wrong(
    status: int, code: str | None, message: str, fault: Fault
) -> None:
    assert fault_of_status(status, code, None, message) is fault


@pytest.mark.parametrize(
    ("status", "code", "message", "fault"),
    [
        # A rate limit's message points to the billing page, and tells of tokens.
        (429, "rate_limit_exceeded", "Add a payment method at https://x/account/billing", Fault.RATE_LIMIT),
        (429, None, "You exceeded your current quota, check your plan and billing details", Fault.RATE_LIMIT),
        (429, "rate_limit_exceeded", "You have no credits; too many tokens per minute", Fault.RATE_LIMIT),
        (401, "insufficient_quota", "credit balance", Fault.AUTH),
        (
            400,
            "invalid_type",
            "max_tokens is too large: 100000. At most 4096 are supported",
            Fault.BAD_REQUEST,
        ),
        (400, None, "rate limit", Fault.BAD_REQUEST),
        # The caller's own words, given back.
        (
            400,
            "invalid_value",
            "Invalid value: 'no credits left'. Supported values are ...",
            Fault.BAD_REQUEST,
        ),
        (400, "invalid_value", "Invalid value: no credits left", Fault.BAD_REQUEST),
        (400, None, "Invalid value: 'no credits left'", Fault.BAD_REQUEST),
        (400, None, 'Unknown parameter: "content_policy".', Fault.BAD_REQUEST),
        (
            400,
            "invalid_function_parameters",
            "Invalid schema for function 'get_credit balance': it's not an object",
            Fault.BAD_REQUEST,
        ),
        (400, "credit_card_number_invalid", "That card number won't do", Fault.BAD_REQUEST),
        (413, None, "The request body is too large.", Fault.BAD_REQUEST),
        (500, "context_length_exceeded", "", Fault.SERVER_ERROR),
        (404, "context_length_exceeded", "maximum context length", Fault.UNKNOWN),
    ],
)
def test_words_make_of_a_status_only_what_it_can_be(
    status: int, code: str | None, message: str, fault: Fault
) -> None:
    assert fault_of_status(status, code, None, message) is fault


@given(st.integers(300, 999), st.text(), st.text(), st.text())
def test_whatever_a_server_writes_its_status_bounds_what_it_means(
    status: int, code: str, error_type: str, message: str
) -> None:
    fault = fault_of_status(status, code, error_type, message)
    row = STATUSES.get(status)
    if row is None:
        assert fault is (Fault.SERVER_ERROR if status >= 500 else Fault.UNKNOWN)
    else:
        assert fault in row.may_say | {row.fault}


@given(st.text(), st.text(), st.text())
def test_any_words_are_some_fault(code: str, error_type: str, message: str) -> None:
    known = {row.fault for row in WORDS} | {row.fault for row in STATUSES.values()} | {Fault.UNKNOWN}
    assert fault_of_code(code, error_type, message) in known
