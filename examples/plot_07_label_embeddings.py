"""
Label embeddings for multi-label learning
=========================================

Texts carry a few of many tags. In the place of one classifier for each tag, predict a short *embedding* of the tag
vector and read the tags off it. Bibtex (159 tags, 1,836 words) is used where its files are at hand, and otherwise
generated rows. :doc:`/multilabel` has the classifiers that the library offers for this.
"""

# %%
# Features and labels
# -------------------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestNeighbors

import sparselens as sl
from sparselens.recovery import DataNotFoundError

try:
    X_train, Y_train, X_test, Y_test = sl.load_dataset("bibtex").official_split()
    name = "Bibtex"
except DataNotFoundError:
    X, Y = make_multilabel_classification(
        3000, n_features=300, n_classes=100, n_labels=3, sparse=True, return_indicator="sparse", random_state=0
    )
    X_train, Y_train, X_test, Y_test = X[:2000], Y[:2000].astype(float), X[2000:], Y[2000:].astype(float)
    name = "generated rows (the files of Bibtex are not here)"
with_labels = np.flatnonzero(np.diff(Y_train.indptr))
X_train, Y_train = X_train[with_labels], Y_train[with_labels]
print(f"{name}: {Y_train.shape[1]} labels, {Y_train.sum(axis=1).mean():.1f} a row")

# %%
# Embed, regress, look at the neighbours
# --------------------------------------
# A ridge regression predicts the embedding from the features. Its prediction is off by much more than 1e-10, so that
# exact decoding has nothing to offer (:doc:`plot_09_noise`); the labels of the training rows with the nearest
# embeddings vote.


def precision_at(k, scores, truth):
    best = np.argsort(-scores, axis=1)[:, :k]
    return np.take_along_axis(truth.toarray(), best, axis=1).mean()


def predict(enc):
    """Scores (n, L) of the test rows: votes of the ten nearest training rows in the space of embeddings."""
    Z = enc.fit(Y_train).transform(Y_train)
    Z_hat = Ridge(alpha=1.0).fit(X_train, Z).predict(X_test)
    train_hat = Ridge(alpha=1.0).fit(X_train, Z).predict(X_train)
    nearest = NearestNeighbors(n_neighbors=10).fit(train_hat).kneighbors(Z_hat, return_distance=False)
    return np.stack([np.asarray(Y_train[rows].sum(axis=0)).ravel() for rows in nearest])


encoders = {
    "Certificate": lambda m: sl.CertificateEncoder(
        m, max_steps=200, loss="hinge", margin=0.3, device="cpu", random_state=0
    ),
    "Gaussian": lambda m: sl.GaussianEncoder(m, random_state=0),
    "PCA": lambda m: sl.PCAEncoder(m),
}
measurements = (5, 15, 40)
precision = {label: [] for label in encoders}
for label, make in encoders.items():
    for m in measurements:
        scores = predict(make(m))
        precision[label].append([precision_at(k, scores, Y_test) for k in (1, 3, 5)])
        print(f"{label}, m = {m}: P@1 {precision[label][-1][0]:.3f}, P@3 {precision[label][-1][1]:.3f}")

# %%
# One regression for each label, without any embedding, as the yardstick:
direct = Ridge(alpha=1.0).fit(X_train, Y_train.toarray()).predict(X_test)
every_label = precision_at(1, direct, Y_test)

# %%
# The picture
# -----------
# Precision rises with m and then levels off: what limits it is the regression, not the embedding. An embedding from
# which the labels can be recovered exactly is not by itself one that is easy to predict.
fig, axis = plt.subplots(figsize=(7, 4), layout="constrained")
colours = ("#0072B2", "#8A8A8A", "#CC79A7")
for (label, values), marker, colour in zip(precision.items(), "o^v", colours, strict=True):
    axis.plot(measurements, [100 * p[0] for p in values], marker=marker, color=colour, label=label)
axis.axhline(100 * every_label, color="black", linewidth=0.8, linestyle="--", label="a regression for every label")
axis.set(xlabel="size m of the embedding", ylabel="P@1 (%)", title=name)
axis.legend()
plt.show()
