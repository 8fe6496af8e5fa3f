"""Extreme multi-label learning with learned label embeddings: SLEEC, ℓ1-AE, one-vs-all, and blends of them.

Names are imported when they are first used.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "SLEECClassifier": "sparselens.xml.sleec",
    "EmbeddingClassifier": "sparselens.xml.embedding",
    "RidgeOneVsAll": "sparselens.xml.one_vs_all",
    "BlendClassifier": "sparselens.xml.blend",
    "RidgeMap": "sparselens.xml.linear_map",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'sparselens.xml' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
