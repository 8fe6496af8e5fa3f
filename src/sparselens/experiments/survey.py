"""The points of a plan's curve: each is measured once, on held-out rows, and kept in a folder."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparselens._files import written_whole
from sparselens._random import derive_rng, derive_seed
from sparselens._validation import FloatArray
from sparselens._version import __version__
from sparselens.decoders.l1 import L1Decoder
from sparselens.metrics import EXACT, row_errors, wilson_interval
from sparselens.persist import rows_checksum
from sparselens.recovery import CheckpointError

Progress = Callable[[float, float, str], None]  # called with (part done, 1.0, what is going on)

GAUSSIAN, LEARNED = "Gaussian", "Certificate"
_BLOCK = 256  # rows after which a hopeless m is given up
_SURE = 0.999  # confidence that it takes
_REUSE = 0.8  # exact rows from which on the recipe of an earlier m is taken over
_SEARCH_COST = 2.6  # the time of a training that searches its recipe, in trainings that take one over


class Survey:
    """Measures points of the curve, each once, and keeps them in a folder."""

    def __init__(
        self,
        train: sp.csr_array,
        valid: sp.csr_array,
        held_out: sp.csr_array,
        *,
        seed: int,
        max_steps: int | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        folder: Path | None = None,
        callback: Progress | None = None,
    ) -> None:
        self.train, self.valid, self.held_out = train, valid, held_out
        self.seed, self.max_steps, self.device, self.n_jobs = seed, max_steps, device, n_jobs
        self.folder, self._callback = folder, callback
        self.recipe: dict[str, Any] | None = None
        self.models: dict[int, str] = {}
        self.points: dict[tuple[str, int], dict[str, Any]] = {}
        self._gaussian_flags: dict[int, np.ndarray] = {}
        self._gaussian_rows: list[FloatArray] = []
        self._done, self._total, self._shown = 0.0, 1.0, 0.0
        if folder is not None:
            self._read(folder)

    def reached(self, point: dict[str, Any], target: float) -> bool:
        """Whether a point reaches the target: with 95% confidence where there are rows enough to say so."""
        enough = wilson_interval(self.held_out.shape[0], self.held_out.shape[0])[0] >= target
        return bool((point["low"] if enough else point["exact"]) >= target)

    def gaussian(self, m: int, target: float | None = None) -> dict[str, Any]:
        """The point of the first m rows of the Gaussian matrix; a hopeless one is given up after a few rows."""
        if (GAUSSIAN, m) not in self.points:
            start = time.perf_counter()
            self.tell(f"Gaussian matrix, m = {m}")
            flags, figures = self._decoded(self._gaussian_matrix(m), target)
            self._gaussian_flags[m] = flags
            self._keep({"encoder": GAUSSIAN, "m": m} | figures | {"seconds": time.perf_counter() - start})
        return self.points[GAUSSIAN, m]

    def learned(self, m: int) -> dict[str, Any]:
        """The point of a matrix that is trained for m, beside the Gaussian one of the same m on the same rows."""
        if (LEARNED, m) not in self.points:
            from sparselens.encoders.certificate import CertificateEncoder

            start = time.perf_counter()
            encoder = CertificateEncoder(m, device=self.device, random_state=derive_seed(self.seed, role="plan", m=m))
            known = encoder.get_params()
            reused = self.recipe is not None
            encoder.set_params(**{key: value for key, value in (self.recipe or {}).items() if key in known})
            if self.max_steps is not None:
                encoder.set_params(max_steps=self.max_steps)
            if self.folder is not None:
                encoder.set_params(checkpoint=str(self.folder / f"unfinished-{m}"))
            self.tell(f"training, m = {m}")
            cost = 1.0 if reused else _SEARCH_COST
            self._fit(encoder, lambda event: self.tell(f"training, m = {m}", cost * event.progress))
            self.tell(f"decoding, m = {m}", cost)
            flags, figures = self._decoded(encoder.components_, None)
            other = self._gaussian_of(m, len(flags))
            self._save(encoder, m, figures)
            self._done += cost
            self._keep(
                {"encoder": LEARNED, "m": m}
                | figures
                | {"seconds": time.perf_counter() - start, "recipe": encoder.recipe_, "recipe_reused": reused}
                | {"structure_found": bool(encoder.structure_found_)}
                | {"learned_only": int((flags & ~other).sum()), "gaussian_only": int((other & ~flags).sum())}
            )
        point = self.points[LEARNED, m]
        if self.recipe is None and point["exact"] >= _REUSE:
            self.recipe = point["recipe"]
        return point

    def _fit(self, encoder: Any, callback: Callable[[Any], None]) -> None:
        try:
            encoder.fit(self.train, X_valid=self.valid, callback=callback)
        except CheckpointError:  # of a training with another recipe, or damaged by a kill: begin it anew
            shutil.rmtree(encoder.checkpoint)
            encoder.fit(self.train, X_valid=self.valid, callback=callback)

    def expect(self, n_trainings: float) -> None:
        """Say how much is still to come, for the bar."""
        cost = n_trainings + (_SEARCH_COST - 1.0 if self.recipe is None else 0.0)
        self._total = max(self._done + cost, 1e-9)

    def tell(self, text: str, more: float = 0.0) -> None:
        """Tell the callback how far the plan is."""
        if self._callback is not None:
            self._shown = max(self._shown, min(1.0, (self._done + more) / self._total))  # a bar never goes back
            self._callback(self._shown, 1.0, text)

    # ---- measuring ----------------------------------------------------------------------------------------------

    def _decoded(self, A: FloatArray, target: float | None) -> tuple[np.ndarray, dict[str, Any]]:
        """Which held-out rows come back, and the figures; of the first rows only where the target is clearly missed."""
        decoder = L1Decoder(positive=True, n_jobs=self.n_jobs).bind(A)
        columns = np.ascontiguousarray(A.T)
        n, errors, certified, done = self.held_out.shape[0], [], 0, 0
        while done < n:
            block = self.held_out[done : done + (_BLOCK if done == 0 else n)]
            rec = decoder.decode(block @ columns, keep_dual=False)
            errors.append(row_errors(block, rec.x))
            certified += int(rec.certified.sum())
            done += block.shape[0]
            good = sum(int((part <= EXACT).sum()) for part in errors)
            if target is not None and wilson_interval(good, done, confidence=_SURE)[1] < target:
                break
        all_errors = np.concatenate(errors)
        flags = all_errors <= EXACT
        low, high = wilson_interval(int(flags.sum()), len(flags))
        return flags, {
            "n_rows": len(flags),
            "exact": float(flags.mean()),
            "low": low,
            "high": high,
            "rmse": float(np.sqrt(np.mean(all_errors**2))),
            "certified": certified / len(flags),
        }

    def _gaussian_of(self, m: int, n: int) -> np.ndarray:
        """Which of the first n held-out rows come back from the Gaussian matrix of the same m."""
        self.gaussian(m)
        flags = self._gaussian_flags.get(m)
        if flags is None or len(flags) < n:  # given up after a few rows, or read from the folder
            flags, figures = self._decoded(self._gaussian_matrix(m), None)
            self._gaussian_flags[m] = flags
            self._keep(self.points[GAUSSIAN, m] | figures)
        return flags

    def _gaussian_matrix(self, m: int) -> FloatArray:
        d = self.train.shape[1]
        while sum(map(len, self._gaussian_rows)) < m:
            rng = derive_rng(self.seed, role="plan, gaussian", block=len(self._gaussian_rows))
            self._gaussian_rows.append(rng.standard_normal((64, d)))
        return np.concatenate(self._gaussian_rows)[:m] / math.sqrt(m)

    # ---- the folder ---------------------------------------------------------------------------------------------

    @property
    def _request(self) -> dict[str, Any]:
        rows = {"train": self.train, "valid": self.valid, "held_out": self.held_out}
        facts = {f"{name} rows": rows_checksum(part) for name, part in rows.items()}
        return facts | {"seed": self.seed, "max_steps": self.max_steps, "version": __version__}

    def _read(self, folder: Path) -> None:
        path = folder / "points.json"
        if not path.exists():
            return
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            request, points = stored["request"], stored["points"]
            models = {int(m): str(folder / "models" / f"m-{m}") for m in stored["models"]}  # the plan may have moved
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is damaged ({error}): delete it to start anew, or use another folder.") from None
        differ = [key for key, value in self._request.items() if request.get(key) != value]
        if differ:
            raise ValueError(
                f"{folder} holds a plan of other {', '.join(differ)}: use another folder, or delete it to start anew."
            )
        self.points = {(point["encoder"], point["m"]): point for point in points}
        self.models = models

    def _keep(self, point: dict[str, Any]) -> None:
        self.points[point["encoder"], point["m"]] = point
        if self.folder is not None:
            stored = {"request": self._request, "points": list(self.points.values()), "models": self.models}
            with written_whole(self.folder / "points.json") as draft:
                draft.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")

    def _save(self, encoder: Any, m: int, figures: dict[str, Any]) -> None:
        if self.folder is None:
            return
        unfinished = encoder.checkpoint
        encoder.set_params(checkpoint=None)
        self.models[m] = str(encoder.save(self.folder / "models" / f"m-{m}", metrics={"held_out": figures}))
        shutil.rmtree(unfinished, ignore_errors=True)
