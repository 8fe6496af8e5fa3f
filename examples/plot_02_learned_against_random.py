"""
Learned against random
======================

How many rows come back exactly from m measurements? A random matrix needs about 60 for these rows, which have ten
nonzeros in one of a hundred blocks. A matrix that was learned from examples needs ten, and fewer are impossible: ten
unknown values cannot be had from nine numbers.
"""

# %%
# The rows
# --------
import matplotlib.pyplot as plt

import sparselens as sl

data = sl.load_dataset("synthetic1", random_state=0)
test = data.test[:500]
print(data.provenance)

# %%
# The encoders
# ------------
# All of them are linear: they differ in the matrix alone, and all are decoded in the same way. ℓ1-AE is the encoder
# of the ICML 2019 paper; here it is trained for 20 epochs, a small part of what the paper spends.
# ``CertificateEncoder`` is trained on dual certificates (:doc:`/certificate`). PCA keeps the directions of largest
# variance, which is another aim than exact recovery.
encoders = {
    "Certificate": lambda m: sl.CertificateEncoder(m, max_steps=400, device="cpu", random_state=0),
    "ℓ1-AE, 20 epochs": lambda m: sl.L1AE.preset(
        "synthetic1", n_components=m, max_epochs=20, device="cpu", random_state=0
    ),
    "Gaussian": lambda m: sl.GaussianEncoder(m, random_state=0),
    "PCA": lambda m: sl.PCAEncoder(m),
}
measurements = {"Certificate": (10, 12, 20, 40), "ℓ1-AE, 20 epochs": (10, 20)}
reports = {}
for label, make in encoders.items():
    for m in measurements.get(label, (10, 20, 30, 40, 50, 60, 70)):
        enc = make(m).fit(data.train, X_valid=data.valid)
        rec = sl.L1Decoder(positive=True).bind(enc.components_).decode(enc.transform(test))
        reports[label, m] = sl.recovery_report(test, rec)
        print(f"{label}, m = {m}: {reports[label, m]}")

# %%
# The picture
# -----------
# Left: the part of the rows that came back within 1e-10. Right: the root mean squared error of all rows.
colours = {"Certificate": "#0072B2", "ℓ1-AE, 20 epochs": "#D55E00", "Gaussian": "#8A8A8A", "PCA": "#CC79A7"}
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for label, marker in zip(encoders, "os^v", strict=True):
    ms = [m for name, m in reports if name == label]
    left.plot(ms, [100 * reports[label, m].exact for m in ms], marker=marker, color=colours[label], label=label)
    right.plot(ms, [reports[label, m].rmse for m in ms], marker=marker, color=colours[label])
left.set(xlabel="measurements m", ylabel="rows recovered exactly (%)")
right.set(xlabel="measurements m", ylabel="RMSE", ylim=(-0.02, None))
left.legend()
plt.show()
