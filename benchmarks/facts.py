"""Where and with what a benchmark ran: part of every stored row."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def facts(device: str = "cpu") -> dict[str, Any]:
    """Version, commit, date and hardware. SPARSELENS_COMMIT names the commit where there is no git."""
    from sparselens import __version__

    commit = os.environ.get("SPARSELENS_COMMIT", "")
    if not commit:
        asked = ["git", "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(asked, capture_output=True, text=True, cwd=Path(__file__).parent, check=True).stdout
    return {
        "version": __version__,
        "commit": commit.strip(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "hardware": _gpu() if device.startswith("cuda") else f"{_cpu()}, {os.cpu_count()} cores",
    }


def _gpu() -> str:
    import torch

    return str(torch.cuda.get_device_name())


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next((s.split(":", 1)[1].strip() for s in lines if s.startswith("model name")), platform.processor())
