"""
In a scikit-learn pipeline
==========================

Encoders are transformers: they stand in a ``Pipeline``, ``GridSearchCV`` searches their parameters, and ``set_output``
names their columns. Here a table of categories is one-hot encoded, measured, and classified from the measurements.
"""

# %%
# A table, and a pipeline
# -----------------------
# Five categorical columns with 40 values each; the class depends on two of them.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

import sparselens as sl

rng = np.random.default_rng(0)
prototypes = rng.integers(0, 40, size=(30, 5))
cells = prototypes[rng.integers(0, 30, size=4000)]
cells = np.where(rng.random(cells.shape) < 0.2, rng.integers(0, 40, size=cells.shape), cells)
weight = rng.standard_normal((2, 40))
labels = (weight[0, cells[:, 0]] + weight[1, cells[:, 1]] > 0).astype(int)
X_train, X_test, y_train, y_test = train_test_split(cells, labels, random_state=0)

pipeline = Pipeline(
    [
        ("categories", OneHotEncoder(handle_unknown="ignore")),
        ("measure", sl.CertificateEncoder(max_steps=200, device="cpu", random_state=0)),
        ("classify", LogisticRegression(max_iter=1000)),
    ]
)

# %%
# Choose m as any other parameter
# -------------------------------
search = GridSearchCV(pipeline, {"measure__n_components": [5, 10, 20]}, cv=2, error_score="raise")
search.fit(X_train, y_train)
print(search.best_params_, f"accuracy {search.score(X_test, y_test):.3f}")

# %%
# The measurements are still rows
# -------------------------------
# Unlike most reductions, this one can be undone: the pipeline up to the measurements is inverted exactly.
front = search.best_estimator_[:-1]
Y = front.transform(X_test)
print("rows of", Y.shape[1], "numbers; the table comes back:", (front.inverse_transform(Y) == X_test).mean())

# %%
# The picture
# -----------
# A linear classifier on m numbers sees m directions of the table, and loses accuracy whatever the matrix is. But a
# row that comes back can be decoded first and then classified by the classifier of the whole table (dotted).
encoders = {"Certificate": search.best_estimator_["measure"], "Gaussian": sl.GaussianEncoder(random_state=0)}
measurements = (5, 10, 20, 30)
categories = OneHotEncoder(handle_unknown="ignore").fit(X_train)
train, test = categories.transform(X_train), categories.transform(X_test)
on_columns = LogisticRegression(max_iter=1000).fit(train, y_train)
full = on_columns.score(test, y_test)
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for (label, enc), marker, colour in zip(encoders.items(), "o^", ("#0072B2", "#8A8A8A"), strict=True):
    accuracy, decoded, exact = [], [], []
    for m in measurements:
        enc.set_params(n_components=m).fit(train)
        classifier = LogisticRegression(max_iter=1000).fit(enc.transform(train), y_train)
        accuracy.append(100 * classifier.score(enc.transform(test), y_test))
        back = enc.inverse_transform(enc.transform(test))
        decoded.append(100 * on_columns.score(back, y_test))
        exact.append(100 * sl.recovery_report(test, back).exact)
    left.plot(measurements, accuracy, marker=marker, color=colour, label=label)
    left.plot(measurements, decoded, ":", marker=marker, color=colour, label=f"{label}, decoded first")
    right.plot(measurements, exact, marker=marker, color=colour, label=label)
left.axhline(100 * full, color="black", linewidth=0.8, linestyle="--", label=f"all {train.shape[1]} columns")
left.set(xlabel="measurements m", ylabel="accuracy (%)", title="classification")
right.set(xlabel="measurements m", ylabel="rows recovered exactly (%)", title="recovery")
left.legend(fontsize=8)
plt.show()
