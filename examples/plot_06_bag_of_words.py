"""
Compressing bags of words
=========================

Short texts as counts of words: hundreds of columns, a handful of nonzeros a row. The texts are the first paragraphs of
the docstrings of numpy and scipy, which are on every machine that can build this page.
"""

# %%
# Texts to rows
# -------------
import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

import sparselens as sl

texts = set()
for package in (
    "numpy",
    "scipy.linalg",
    "scipy.sparse",
    "scipy.stats",
    "scipy.signal",
    "scipy.special",
    "scipy.ndimage",
):
    module = importlib.import_module(package)
    for name in module.__all__:
        documentation = inspect.getdoc(getattr(module, name)) or ""
        texts |= set(documentation.split("\n\n")[:8])  # paragraphs
texts = sorted(text for text in texts if 40 < len(text) < 250)
words = CountVectorizer(min_df=4, token_pattern=r"[a-z]{3,}", stop_words="english")
counts = words.fit_transform(texts).astype(float)
counts = counts[np.diff(counts.indptr) >= 2]
order = np.random.default_rng(0).permutation(counts.shape[0])
test, valid, train = counts[order[:400]], counts[order[400:800]], counts[order[800:]]
print(
    f"{counts.shape[0]:,} texts, {counts.shape[1]:,} words, {np.diff(counts.indptr).mean():.1f} different words a text"
)

# %%
# Learned against random
# ----------------------
# Words that go together leave a trace in the supports, and a matrix can learn it.
measurements = (20, 40, 60)
exact = {"Certificate": [], "Gaussian": []}
for m in measurements:
    recipe = {"loss": "hinge", "margin": 0.3, "swap": 0.1, "uniform": 0.5, "max_steps": 300}  # in place of a search
    learned = sl.CertificateEncoder(m, **recipe, device="cpu", random_state=0)
    for label, enc in (("Certificate", learned), ("Gaussian", sl.GaussianEncoder(m, random_state=0))):
        enc.fit(train, X_valid=valid)
        rec = enc.decoder().decode(enc.transform(test))
        exact[label].append(sl.recovery_report(test, rec).exact)
    print(f"m = {m}: {exact['Certificate'][-1]:.1%} against {exact['Gaussian'][-1]:.1%}")

# %%
# No text is lost
# ---------------
# Rows that would not come back are kept aside as they are. Counts are whole numbers, so that they come back bit for
# bit.
packed = sl.encode_lossless(learned, test)
print(packed.summary())
print("bit for bit:", (sl.decode_lossless(packed) != test).nnz == 0)

# %%
# One text, there and back:
i = int(packed.measured[0])
names = words.get_feature_names_out()
back = sl.decode_lossless(packed)[[i]]
print(", ".join(f"{names[j]} {int(v)}" for j, v in zip(back.indices, back.data, strict=True)))

# %%
# The picture
# -----------
# Left: what m buys. Right: texts with more different words need more measurements, whatever the matrix.
lengths = np.diff(test.indptr)
came_back = np.zeros(len(lengths), dtype=bool)
came_back[packed.measured] = True
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for label, marker, colour in (("Certificate", "o", "#0072B2"), ("Gaussian", "^", "#8A8A8A")):
    left.plot(measurements, [100 * value for value in exact[label]], marker=marker, color=colour, label=label)
left.set(xlabel="measurements m", ylabel="texts recovered exactly (%)")
left.legend()
bins = np.arange(1.5, lengths.max() + 1.5)
groups = {"comes back": lengths[came_back], "kept aside": lengths[~came_back]}
right.hist(list(groups.values()), bins=bins, stacked=True, color=("#0072B2", "#D55E00"), label=list(groups))
right.set(xlabel="different words in a text", ylabel="texts", title=f"m = {measurements[-1]}, learned")
right.legend()
plt.show()
