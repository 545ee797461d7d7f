"""Warnings, each kind once: a training script that goes on for days must not be drowned in them."""

from __future__ import annotations

import logging
from typing import Set

log = logging.getLogger("trainyard")

_told: Set[str] = set()


def warn_once(kind: str, message: str, *arguments: object) -> None:
    """Warns, unless something of this kind was told before."""
    if kind not in _told:
        _told.add(kind)
        log.warning("trainyard: " + message, *arguments)
