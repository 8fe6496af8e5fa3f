"""
From a text file to ranked labels
=================================

Documents with words and tags in a text file, in the format of the Extreme Classification Repository: learn to rank the
tags of new documents. :doc:`/multilabel` says more about the classifiers.
"""

# %%
# A text file
# -----------
# A header ``rows features labels``, then ``tag,tag word:weight word:weight`` a line. This one has forty topics, each
# with words and tags of its own.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import sparselens as sl
from sparselens.xml import BlendClassifier

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(0)
words_of, tags_of = rng.integers(0, 800, (40, 25)), rng.integers(0, 200, (40, 4))
for part, n in (("train", 1500), ("test", 400)):
    lines = [f"{n} 800 200"]
    for first, second in rng.integers(0, 40, (n, 2)):
        tags = sorted({*tags_of[first], *rng.choice(tags_of[second], 1)})
        words = sorted({*rng.choice(words_of[first], 9), *rng.choice(words_of[second], 6), *rng.integers(0, 800, 12)})
        lines.append(",".join(map(str, tags)) + " " + " ".join(f"{w}:{rng.random():.2f}" for w in words))
    (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")
print((folder / "train.txt").read_text()[:75], "...")

# %%
# The whole path
# --------------
X, Y = sl.data.read_multilabel(folder / "train.txt")
X_test, Y_test = sl.data.read_multilabel(folder / "test.txt")
model = BlendClassifier(random_state=0).fit(X, Y)
scores = model.predict_topk(X_test, k=5)
model.save(folder / "model")
sl.data.write_ranking(folder / "ranked.txt", scores)
print((folder / "ranked.txt").read_text().splitlines()[1])
print(f"P@1 {model.score(X_test, Y_test):.3f}, P@3 {sl.metrics.precision_at_k(Y_test, scores, k=3):.3f}")

# %%
# What the blend is made of
# -------------------------
# Its parts can be asked one by one, and their weights were learned on held-out rows.
names = [*model.weights_, "blend"]
precision = [100 * part.score(X_test, Y_test, k=3) for part in [*model.parts_, model]]
fig, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
axis.barh(names, precision, color=["#8A8A8A"] * len(model.parts_) + ["#0072B2"])
axis.set(xlabel="P@3 (%)", xlim=(min(precision) - 5, max(precision) + 2))
for name, value in zip(names, precision, strict=True):
    axis.annotate(f" {value:.1f}", (value, name), va="center")
plt.show()
