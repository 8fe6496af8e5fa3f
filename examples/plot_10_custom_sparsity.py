"""
A sparsity model of your own
============================

A model is any object with one method, ``support(Z, order=1)``: which entries of each row does the best approximation
keep? CoSaMP asks nothing else of it. Here the ten nonzeros are a run that may begin anywhere (think of a burst in a
signal), which no built-in model describes.
"""

# %%
# The model
# ---------
# The best run of a row is the window with the largest energy, found from one running sum. ``order=2`` asks for the
# best sum of *two* such rows, which CoSaMP uses to look for what it has missed: the best window, and the best one
# beside it.
import matplotlib.pyplot as plt
import numpy as np

import sparselens as sl


class Run:
    """One run of `length` neighbouring columns, anywhere."""

    def __init__(self, length):
        self.length = length

    def support(self, Z, order=1):
        mask = np.zeros(Z.shape, dtype=bool)
        rows = np.arange(len(Z))[:, None]
        for _ in range(order):
            energy = np.cumsum(np.pad(np.where(mask, 0.0, Z) ** 2, ((0, 0), (1, 0))), axis=1)
            start = np.argmax(energy[:, self.length :] - energy[:, : -self.length], axis=1)
            mask[rows, start[:, None] + np.arange(self.length)] = True
        return mask


print(Run(2).support(np.array([[0.0, 3.0, 1.0, 0.0, 2.0]])).astype(int))

# %%
# Rows and measurements
# ---------------------
rng = np.random.default_rng(0)
X = np.zeros((300, 500))
starts = rng.integers(0, 491, size=300)
X[np.arange(300)[:, None], starts[:, None] + np.arange(10)] = rng.uniform(0.1, 1.0, (300, 10))
X /= np.linalg.norm(X, axis=1, keepdims=True)

decoders = {
    "CoSaMP, a run of ten": sl.CoSaMPDecoder(Run(10)),
    "CoSaMP, aligned blocks (wrong model)": sl.CoSaMPDecoder(sl.BlockSparse(2, 10)),
    "ℓ1 minimisation": sl.L1Decoder(positive=True),
}
measurements = (10, 15, 20, 25, 30, 40, 50, 60)
exact = {label: [] for label in decoders}
for m in measurements:
    enc = sl.GaussianEncoder(m, random_state=0).fit(X)
    Y = enc.transform(X)
    for label, decoder in decoders.items():
        exact[label].append(sl.recovery_report(X, decoder.bind(enc.components_).decode(Y)).exact)

# %%
# The picture
# -----------
fig, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for (label, values), marker, colour in zip(exact.items(), "oDs", ("#0072B2", "#009E73", "#8A8A8A"), strict=True):
    axis.plot(measurements, [100 * value for value in values], marker=marker, color=colour, label=label)
axis.set(xlabel="measurements m (Gaussian)", ylabel="rows recovered exactly (%)")
axis.legend()
plt.show()
