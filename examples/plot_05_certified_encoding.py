"""
Which rows will come back? Certified encoding
=============================================

Whoever encodes knows the rows, and can know *before anything is sent* which of them the receiver will recover. The
others are kept aside, so that nothing is lost. The rows are those of the Amazon Employee Access data (nine categorical
columns, one-hot: 15,626 columns), where its file is at hand, and otherwise those of a generated table.
"""

# %%
# Rows
# ----
import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import sparselens as sl
from sparselens.recovery import DataNotFoundError


def generated_table():
    """Nine columns with few common and many rare categories, as in a table of employees."""
    rng = np.random.default_rng(0)
    sizes = np.array([400, 300, 128, 177, 300, 200, 250, 67, 178])
    kinds = [rng.zipf(1.4, size=(60, 1)) % size for size in sizes]  # 60 kinds of employee
    kind = rng.integers(0, 60, size=6000)
    own = np.column_stack([rng.zipf(1.4, size=6000) % size for size in sizes])
    typical = np.column_stack([column[kind, 0] for column in kinds])
    cells = np.where(rng.random(own.shape) < 0.5, own, typical) + np.concatenate([[0], np.cumsum(sizes)[:-1]])
    X = sp.csr_array((np.full(cells.size, 1 / 3), cells.ravel(), np.arange(0, cells.size + 1, 9)))
    X.resize(6000, int(sizes.sum()))
    return X[:4000], X[4000:5000], X[5000:]


try:
    data = sl.load_dataset("amazon", sizes=(19_661, 1_000, 1_000))
    train, valid, test = data.train, data.valid, data.test
    print("Amazon Employee Access:", train.shape)
except DataNotFoundError:
    train, valid, test = generated_table()
    print("The Amazon file is not here, so this page shows a generated table:", train.shape)

# %%
# Train, and ask for a promise
# ----------------------------
# The recipe is fixed here, so that the page is built in seconds; by default it is searched, which recovers more rows
# (:doc:`/certificate` has the figures). ``certify`` needs no solver for most rows: one small linear system each gives
# the dual vector u of the proof, and its *slack* says how far the other columns stay below 1.
enc = sl.CertificateEncoder(
    n_components=60,
    loss="hinge",
    margin=0.3,
    swap=0.05,
    uniform=1.0,
    max_steps=200,
    n_validation=256,
    device="cpu",
    random_state=0,
)
enc.fit(train, X_valid=valid)
promise = enc.certify(test)
print(promise.summary())

# %%
# The promise is kept
# -------------------
packed = sl.encode_lossless(enc, test)
print(packed.summary())
back = sl.decode_lossless(packed)
print("every row is the same:", abs(back - test).max() <= 1e-10)
rec = enc.decoder().decode(enc.transform(test))
came_back = sl.metrics.row_errors(test, rec.x) <= 1e-10
print("promised and not kept:", int((promise.exact & ~came_back).sum()))

# %%
# The slack of each row
# ---------------------
# Rows with a large slack also stand noise and rounding best. Rows that the short proof does not reach are decided by
# the linear program itself.
fig, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
groups = {how: promise.slack[promise.by == how] for how in ("certificate", "lp")}
axis.hist(list(groups.values()), bins=30, stacked=True, color=("#0072B2", "#56B4E9"), label=list(groups))
axis.set(xlabel="slack: 1 − largest product of u with another column", ylabel="rows")
axis.legend(title=f"proved by ({int((promise.by == 'no').sum())} of {len(promise):,} rows will not come back)")
plt.show()
