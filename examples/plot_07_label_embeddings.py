"""
Label embeddings for multi-label learning
=========================================

Texts carry a few of many tags. In the place of one classifier for each tag, predict a short *embedding* of the tag
vector and read the tags off it. Bibtex (159 tags, 1,836 words) is used where its files are at hand, and otherwise
generated rows. :doc:`/multilabel` explains the classifiers of ``sparselens.xml`` and has their figures.
"""

# %%
# Features and labels
# -------------------
import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import sparselens as sl
from sparselens.recovery import DataNotFoundError
from sparselens.xml import EmbeddingClassifier, RidgeOneVsAll


def generated(n, rng):
    """Texts about one or two of 40 topics; a topic has its own words and its own tags."""
    world = np.random.default_rng(1)
    words, tags = world.random((40, 400)) < 0.05, world.random((40, 120)) < 0.03
    topics = (rng.random((n, 40)) < 0.01) | np.eye(40, dtype=bool)[rng.integers(0, 40, n)]
    X = rng.poisson(topics @ (0.5 * words) + 0.02)
    Y = (topics.astype(int) @ tags > 0) & (rng.random((n, 120)) < 0.7)
    return sp.csr_array(X, dtype=float), sp.csr_array(Y, dtype=float)


try:
    X_train, Y_train, X_test, Y_test = sl.load_dataset("bibtex").official_split()
    name = "Bibtex"
except DataNotFoundError:
    rng = np.random.default_rng(0)
    (X_train, Y_train), (X_test, Y_test) = generated(3000, rng), generated(1000, rng)
    name = "generated rows (the files of Bibtex are not here)"
print(f"{name}: {Y_train.shape[0]:,} rows, {Y_train.shape[1]} labels, {Y_train.sum() / Y_train.shape[0]:.1f} a row")

# %%
# Embed, regress, look at the neighbours
# --------------------------------------
# ``EmbeddingClassifier`` fits an encoder on the label rows, a ridge regression from features to embeddings, and lets
# the training rows with the nearest embeddings vote. The regression is off by far more than 1e-10, so that exact
# decoding has nothing to offer here (:doc:`plot_09_noise`).
recipe = {"loss": "hinge", "margin": 0.3, "max_steps": 150}
encoders = {
    "Certificate": lambda m: sl.CertificateEncoder(m, **recipe, device="cpu"),
    "Gaussian": lambda m: sl.GaussianEncoder(m),
    "PCA": lambda m: sl.PCAEncoder(m),
}
sizes = (5, 15, 40)
precision = {label: [] for label in encoders}
for label, make in encoders.items():
    for m in sizes:
        model = EmbeddingClassifier(make(m), predictor="neighbors", random_state=0).fit(X_train, Y_train)
        scores = model.predict_topk(X_test, k=5)
        precision[label].append([sl.metrics.precision_at_k(Y_test, scores, k=k) for k in (1, 3, 5)])
        print(f"{label}, m = {m}: P@1, P@3, P@5 = {np.round(precision[label][-1], 3)}")

# %%
# One regression for each label, without any embedding, is the yardstick:
every_label = RidgeOneVsAll().fit(X_train, Y_train).score(X_test, Y_test, k=1)
print(f"a regression for every label: P@1 = {every_label:.3f}")

# %%
# The picture
# -----------
# Precision rises with m and levels off: what limits it then is the regression, not the embedding. An embedding from
# which the labels can be recovered exactly is not by itself one that is easy to predict.
fig, axis = plt.subplots(figsize=(7, 4), layout="constrained")
colours = ("#0072B2", "#8A8A8A", "#CC79A7")
for (label, values), marker, colour in zip(precision.items(), "o^v", colours, strict=True):
    axis.plot(sizes, [100 * at[0] for at in values], marker=marker, color=colour, label=label)
axis.axhline(100 * every_label, color="black", linewidth=0.8, linestyle="--", label="a regression for every label")
axis.set(xlabel="size m of the embedding", ylabel="P@1 (%)", title=name)
axis.legend()
plt.show()
