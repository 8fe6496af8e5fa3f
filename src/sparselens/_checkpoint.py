"""The state of a training on disk: safetensors and JSON, never a pickle, never half a file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from sparselens._files import written_whole
from sparselens.recovery import CheckpointError

FORMAT = "sparselens training checkpoint"
_STATE = "checkpoint.json"


class HasState(Protocol):
    """What is trained: a `torch.nn.Module`, or a stack of them."""

    def state_dict(self) -> dict[str, torch.Tensor]: ...

    def load_state_dict(self, state_dict: dict[str, torch.Tensor]) -> Any: ...


@dataclass
class Resumed:
    """What a checkpoint gives back beside the weights and the optimiser's state, which it puts in their places."""

    best: dict[str, torch.Tensor]
    n_bad: int
    history: dict[str, Any]


class Checkpoint:
    """A folder that holds the latest state of one training.

    ``checkpoint.json`` names the file of tensors and its sha256; it is replaced by one rename after the tensors are
    on the disk, so that a process killed at any moment leaves the old state or the new one.

    Parameters
    ----------
    folder : path
        Made where it does not exist.
    seconds : float
        Write at most once in this time (the last state is always written). What is trained does not depend on it.
    """

    def __init__(self, folder: str | os.PathLike[str], *, seconds: float = 30.0) -> None:
        self.folder = Path(folder)
        self.seconds = seconds
        self._written = time.monotonic()

    def write(
        self,
        config: dict[str, Any],
        module: HasState,
        optimizer: torch.optim.Optimizer,
        best: dict[str, torch.Tensor],
        n_bad: int,
        history: dict[str, Any],
        *,
        final: bool = False,
    ) -> None:
        """Keep this state, unless one was kept less than `seconds` ago and training goes on."""
        from safetensors.torch import save

        if not final and time.monotonic() - self._written < self.seconds:
            return
        tensors = {f"module.{name}": value for name, value in module.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in best.items()}
        tensors |= {
            f"optimizer.{index}.{name}": torch.as_tensor(value)
            for index, state in optimizer.state_dict()["state"].items()
            for name, value in state.items()
            if value is not None
        }
        # clone, because safetensors refuses tensors that share memory
        content = save({name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()})
        name = f"state-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
        state = {
            "format": FORMAT,
            "config": _as_json(config),
            "n_bad": n_bad,
            "history": history | {"best": history["best"] if math.isfinite(history["best"]) else None},
            "tensors": name,
        }
        state["sha256"] = _checksum(state, content)
        for file, data in ((name, content), (_STATE, (json.dumps(state, indent=1) + "\n").encode())):
            with written_whole(self.folder / file) as draft:
                draft.write_bytes(data)
        for old in self.folder.glob("*state-*.safetensors"):  # drafts of a killed process too
            if old.name != name:
                with contextlib.suppress(OSError):
                    old.unlink()
        self._written = time.monotonic()

    def read(self, config: dict[str, Any], module: HasState, optimizer: torch.optim.Optimizer) -> Resumed | None:
        """Put the kept state into the module and the optimiser; None where nothing is kept.

        Raises
        ------
        CheckpointError
            The files are damaged, or they belong to a training with other parameters or other data.
        """
        self._make_folder()
        path = self.folder / _STATE
        if not path.exists():
            return None
        state = self._read_state(path)
        tensors = self._read_tensors(state)
        differ = _differences(state["config"], _as_json(config))
        if differ:
            raise CheckpointError(
                f"{self.folder} holds a training with other parameters or data ({'; '.join(differ)}): "
                "use the same ones to resume it, or another folder to start anew."
            )
        device = next(iter(module.state_dict().values())).device
        kept = {name.partition(".")[2]: v.to(device) for name, v in tensors.items() if name.startswith("module.")}
        best = {name.partition(".")[2]: v.to(device) for name, v in tensors.items() if name.startswith("best.")}
        try:
            module.load_state_dict(kept)
            _restore_optimizer(optimizer, tensors)
        except (RuntimeError, ValueError, KeyError) as error:
            raise CheckpointError(f"{self.folder} does not fit this model: {error}") from None
        history = state["history"]
        if history["best"] is None:
            history["best"] = math.inf
        return Resumed(best, state["n_bad"], history)

    def _make_folder(self) -> None:
        """Before hours of training and not after them."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"{self.folder} cannot hold a checkpoint ({error}): pass another folder.") from None
        if not os.access(self.folder, os.W_OK):
            raise CheckpointError(f"{self.folder} cannot be written: pass another folder.")

    def _read_state(self, path: Path) -> dict[str, Any]:
        damaged = f"{path} is damaged: delete {self.folder} to start anew"
        try:
            state = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{damaged} ({error}).") from None
        if not isinstance(state, dict) or state.get("format") != FORMAT:
            raise CheckpointError(f"{path} is not a checkpoint of sparselens: pass another folder.")
        if not {"config", "n_bad", "history", "tensors", "sha256"} <= set(state):
            raise CheckpointError(f"{damaged} (entries are missing).")
        return state

    def _read_tensors(self, state: dict[str, Any]) -> dict[str, torch.Tensor]:
        from safetensors import SafetensorError
        from safetensors.torch import load

        path = self.folder / Path(str(state["tensors"])).name
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read ({error}): delete {self.folder} to start anew.") from None
        if _checksum(state, content) != state["sha256"]:
            raise CheckpointError(
                f"{path} or {_STATE} is truncated or was edited (the sha256 does not match): "
                f"delete {self.folder} to start anew."
            )
        try:
            return dict(load(content))
        except (SafetensorError, ValueError, KeyError) as error:
            raise CheckpointError(
                f"{path} is no safetensors file ({error}): delete {self.folder} to start anew."
            ) from None


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, torch.Tensor]) -> None:
    described = optimizer.state_dict()
    described["state"] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".", 2)
            described["state"].setdefault(int(index), {})[key] = value
    optimizer.load_state_dict(described)


def _as_json(config: dict[str, Any]) -> Any:
    """The configuration as it comes back from a file: tuples are lists, numpy's numbers are numbers."""
    return json.loads(json.dumps(config, default=lambda value: value.tolist()))


def _checksum(state: dict[str, Any], tensors: bytes) -> str:
    """sha256 of the tensors and of all that stands beside them."""
    rest = {name: value for name, value in state.items() if name != "sha256"}
    return hashlib.sha256(tensors + json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _differences(kept: Any, asked: Any, name: str = "") -> list[str]:
    """Where two configurations differ, in words."""
    if isinstance(kept, dict) and isinstance(asked, dict):
        keys = sorted(set(kept) | set(asked))
        return [
            d for key in keys for d in _differences(kept.get(key), asked.get(key), f"{name}.{key}" if name else key)
        ]
    return [] if kept == asked else [f"{name} was {kept!r} and is {asked!r}"]
