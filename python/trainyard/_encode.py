"""A report as one line of JSON."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, Mapping, Optional, Union

from ._warn import warn_once

Number = Union[int, float]

# A longer line is passed over by the scheduler (64 KiB).
_LONGEST_LINE_BYTES = 60_000
_LONGEST_TEXT = 1_000


def number(name: str, value: Any) -> Optional[Number]:
    """A number of anything that is like one: of Python, numpy, or a tensor with one element."""
    if value is None:
        return None
    if isinstance(value, bool) or type(value) is int:
        return int(value)
    try:
        return float(value)
    except Exception as error:  # A tensor of several elements, a string, anything: training goes on.
        warn_once(f"number {name}", "the %s cannot be reported: %s", name, error)
        return None


def encode(known: Mapping[str, Optional[Number]], more: Mapping[str, Any]) -> str:
    """The line, without its end. What has no value is left out; what is not finite becomes a string, since JSON lacks it.

    Everything else that a script wants to say stands apart, so that no name of its own is mistaken for one of the contract.
    """
    told: Dict[str, Any] = {name: _plain(value) for name, value in known.items() if value is not None}
    if not more:
        return json.dumps(told)
    text = json.dumps({**told, "more": {name: _plain(value) for name, value in more.items()}}, default=_text)
    if len(text) > _LONGEST_LINE_BYTES:
        warn_once("long", "a report is longer than %d bytes; only its usual numbers are sent", _LONGEST_LINE_BYTES)
        return json.dumps(told)
    return text


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str, list, tuple, dict)):
        return value
    if type(value) is int:
        return value if abs(value) < 2**53 else float(value)
    try:
        real = float(value)
    except Exception:
        return _text(value)
    return real if math.isfinite(real) else str(real)


def _text(value: Any) -> str:
    return str(value)[:_LONGEST_TEXT]
