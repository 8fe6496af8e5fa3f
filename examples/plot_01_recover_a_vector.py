"""
Recover a vector, and check the proof
=====================================

A vector with 1,000 entries, ten of them not zero, is reduced to 80 numbers by one matrix product. The decoder gets it
back, to the last digits, and hands over a proof that it is the only answer.
"""

# %%
# Measure
# -------
# ``GaussianEncoder`` is a scikit-learn transformer. Its matrix is drawn at random and knows nothing about the data;
# :doc:`the next example <plot_02_learned_against_random>` learns one.
import matplotlib.pyplot as plt
import numpy as np

import sparselens as sl

data = sl.load_dataset("unstructured", random_state=0)  # ten nonzeros anywhere, rows of unit norm
x = data.test[[0]]
enc = sl.GaussianEncoder(n_components=80, random_state=0).fit(data.train)
y = enc.transform(x)
print(x.shape, "->", y.shape)

# %%
# Decode
# ------
# ``bind`` does what depends on the matrix alone; ``decode`` takes any number of rows. Among all nonnegative vectors
# with these measurements the decoder finds the one with the smallest sum.
decoder = sl.L1Decoder(positive=True).bind(enc.components_)
rec = decoder.decode(y)
print(rec.summary())
print(sl.Status(rec.status[0]).sentence)
print("largest difference:", abs(rec.x - x).max())

# %%
# Check the proof yourself
# ------------------------
# The proof is a vector u of 80 numbers. If no column of A has a product with u above 1, then no nonnegative vector
# with these measurements has a sum below yᵀu. Here that bound is reached, so the answer cannot be beaten.
u = rec.dual[0]
A = enc.components_
print("largest product of u with a column:", (A.T @ u).max())
print("sum of the answer:", rec.x.sum(), " its lower bound:", y[0] @ u)

# %%
# The picture shows the products: they touch 1 in the columns of the answer and stay below it everywhere else.
touching = np.isclose(A.T @ u, 1)
truth = x.toarray()[0]
fig, (top, middle, bottom) = plt.subplots(3, 1, figsize=(8, 6.5), layout="constrained")
top.vlines(np.flatnonzero(truth), 0, truth[truth > 0], color="#0072B2", linewidth=1.5)
top.plot(rec.x.indices, rec.x.data, "o", color="#D55E00", markersize=5, fillstyle="none")
top.set(title="the vector (lines) and what came back (circles)", xlabel="column", ylim=(0, None), xlim=(-10, 1010))
middle.bar(np.arange(80), y[0], color="#8A8A8A")
middle.set(title="its 80 measurements", xlabel="measurement")
bottom.plot(np.flatnonzero(~touching), (A.T @ u)[~touching], ".", color="#8A8A8A", markersize=3)
bottom.plot(np.flatnonzero(touching), (A.T @ u)[touching], "o", color="#D55E00", markersize=5, fillstyle="none")
bottom.axhline(1, color="black", linewidth=0.8)
bottom.set(title="the proof: products of u with every column, none above 1", xlabel="column", xlim=(-10, 1010))
plt.show()
