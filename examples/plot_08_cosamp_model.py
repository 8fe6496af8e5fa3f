"""
CoSaMP with a model
===================

Where the structure of the rows is known exactly, a decoder can use it in the place of a learned matrix. The rows here
have one block of ten nonzeros. ``CoSaMPDecoder`` takes the model as an object: ``Sparse(10)`` knows that there are ten
nonzeros, ``BlockSparse(1, 10)`` that they are neighbours.
"""

# %%
# One random matrix, three decoders
# ---------------------------------
# CoSaMP offers no proof, so that its rows have the status ESTIMATE; only their residual can be read. ℓ1 minimisation
# knows nothing about blocks, and proves its answers.
import matplotlib.pyplot as plt

import sparselens as sl

data = sl.load_dataset("synthetic1", random_state=0)
test = data.test[:300]
decoders = {
    "CoSaMP, one block of ten": sl.CoSaMPDecoder(sl.BlockSparse(1, 10)),
    "ℓ1 minimisation": sl.L1Decoder(positive=True),
    "CoSaMP, any ten": sl.CoSaMPDecoder(sl.Sparse(10)),
}
measurements = (10, 12, 15, 20, 25, 30, 40, 50, 60, 70, 80)
exact = {label: [] for label in decoders}
for m in measurements:
    enc = sl.GaussianEncoder(m, random_state=0).fit(data.train)
    Y = enc.transform(test)
    for label, decoder in decoders.items():
        rec = decoder.bind(enc.components_).decode(Y)
        exact[label].append(sl.recovery_report(test, rec).exact)
print(rec.summary())

# %%
# What the model is worth
# -----------------------
# The right model saves about two thirds of the measurements of ℓ1 minimisation. A learned matrix
# (:doc:`plot_02_learned_against_random`) gains as much without being told, and keeps the proofs.
fig, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for (label, values), marker, colour in zip(exact.items(), "osv", ("#0072B2", "#8A8A8A", "#CC79A7"), strict=True):
    axis.plot(measurements, [100 * value for value in values], marker=marker, color=colour, label=label)
axis.set(xlabel="measurements m (Gaussian)", ylabel="rows recovered exactly (%)")
axis.legend()
plt.show()
