"""
What a learned matrix looks like
================================

The toy experiment of the paper's appendix: rows with 100 columns, whose five nonzeros always lie among the first 20.
Ten measurements are learned with ℓ1-AE. Where do they look?
"""

# %%
# Train
# -----
# The paper's parameters with a limit on the epochs, so that this page is built in seconds.
import matplotlib.pyplot as plt
import numpy as np

import sparselens as sl

data = sl.load_dataset("toy", random_state=0)
enc = sl.L1AE.preset("toy", n_components=10, max_epochs=60, device="cpu", random_state=0)
enc.fit(data.train, X_valid=data.valid)
print(f"{enc.history_['n_epochs']} epochs, best validation loss {enc.history_['best']:.3f}")
print(sl.recovery_report(data.test, enc.decoder().decode(enc.transform(data.test))))

# %%
# Look
# ----
# The matrix spends its measurements on the 20 columns that are ever used: they are about twice as long as the others.
# A short column is an expensive one for the decoder, because a large entry is needed to explain anything with it.
A = enc.components_
fig, (top, bottom) = plt.subplots(2, 1, figsize=(8, 4.6), height_ratios=(3, 2), sharex=True, layout="constrained")
limit = np.abs(A).max()
image = top.imshow(A, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
fig.colorbar(image, ax=top, label="entry of A")
top.set(ylabel="measurement", title="the learned 10 x 100 matrix")
bottom.bar(np.arange(100), np.linalg.norm(A, axis=0), color=["#0072B2" if j < 20 else "#8A8A8A" for j in range(100)])
bottom.set(xlabel="column", ylabel="length", title="the length of each column (blue: those that the data use)")
plt.show()
