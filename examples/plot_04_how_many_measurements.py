"""
How many measurements do my rows need?
======================================

The answer depends on the rows and on the matrix, so it is measured: encode validation rows with several m, decode them,
and take the smallest m that brings back as many as you want. ``sparselens plan`` does this for a file.
"""

# %%
# Rows
# ----
# A table with six categorical columns, one-hot encoded: six ones among 300 columns. The categories depend on each
# other (each row is a variation of one of 40 templates), which is the structure that a learned matrix can use.
import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import sparselens as sl


def table(n, rng):
    templates = np.random.default_rng(1).integers(0, 50, size=(40, 6))
    cells = templates[rng.integers(0, 40, size=n)]
    changed = rng.random((n, 6)) < 0.15
    cells = np.where(changed, rng.integers(0, 50, size=(n, 6)), cells) + 50 * np.arange(6)
    return sp.csr_array((np.ones(6 * n), cells.ravel(), np.arange(0, 6 * n + 1, 6)), shape=(n, 300))


rng = np.random.default_rng(0)
train, valid, test = table(4000, rng), table(1000, rng), table(1000, rng)

# %%
# Measure it
# ----------
# m cannot be below the number of nonzeros of a row (six here) when nothing is known about their values.
target = 0.99
measurements = {"Certificate": (8, 12, 16, 20, 25, 30), "Gaussian": (8, 16, 20, 25, 30, 35, 40)}
exact = {}
for label, ms in measurements.items():
    for m in ms:
        if label == "Gaussian":
            enc = sl.GaussianEncoder(m, random_state=0)
        else:
            enc = sl.CertificateEncoder(m, max_steps=200, device="cpu", random_state=0)
        enc.fit(train, X_valid=valid)
        exact[label, m] = sl.recovery_report(test, enc.decoder().decode(enc.transform(test))).exact
        print(f"{label}, m = {m}: {exact[label, m]:.1%} of the rows come back")

# %%
# How sure is that?
# -----------------
# A fraction that was counted over 1,000 rows has an error of its own. The bars are Wilson's 95% intervals: an m is
# safe when the whole bar lies above the target.


def wilson(fraction, n, z=1.96):
    middle = (fraction + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(fraction * (1 - fraction) / n + z**2 / (4 * n**2))
    return middle - half, middle + half


fig, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for (label, ms), marker, colour in zip(measurements.items(), "o^", ("#0072B2", "#8A8A8A"), strict=True):
    low, high = np.transpose([wilson(exact[label, m], test.shape[0]) for m in ms])
    axis.plot(ms, [100 * exact[label, m] for m in ms], marker=marker, color=colour, label=label)
    axis.vlines(ms, 100 * low, 100 * high, color=colour, linewidth=3, alpha=0.5)
    enough = [m for m, bound in zip(ms, low, strict=True) if bound >= target]
    print(f"{label}: {min(enough, default=None)} measurements are enough for {target:.0%}, with 95% confidence")
axis.axhline(100 * target, color="black", linewidth=0.8, linestyle="--", label="target")
axis.set(xlabel="measurements m", ylabel="rows recovered exactly (%)")
axis.legend()
plt.show()
