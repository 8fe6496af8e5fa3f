"""What every multi-label classifier promises; each is listed once."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import sparselens as sl
from sparselens.recovery import CheckpointError, CorruptFileError
from sparselens.xml import BlendClassifier, EmbeddingClassifier, RidgeOneVsAll, SLEECClassifier

FAST = {"max_epochs": 20, "validation_interval": 5, "batch_size": 32, "device": "cpu", "clip_norm": 1.0}


def l1ae(m=8):
    return sl.L1AE(n_components=m, n_steps=3, **FAST)


CLASSIFIERS = {
    "sleec": lambda: SLEECClassifier(6, svp_neighbors=20, n_neighbors=5, random_state=0),
    "sleec-clusters": lambda: SLEECClassifier(
        6, n_models=2, n_clusters=3, svp_neighbors=10, n_neighbors=5, w_thresh=0.6, random_state=0
    ),
    "one-vs-all": lambda: RidgeOneVsAll(label_block=7),
    "one-vs-all-pruned": lambda: RidgeOneVsAll(prune=0.01),
    "label-space": lambda: EmbeddingClassifier(None, n_neighbors=5),
    "l1ae-1": lambda: EmbeddingClassifier.as_in_paper(l1ae(), predictor="neighbors", n_neighbors=5, random_state=0),
    "l1ae-2": lambda: EmbeddingClassifier.as_in_paper(l1ae(), predictor="decoder", random_state=0),
    "l1ae-3": lambda: EmbeddingClassifier.as_in_paper(l1ae(), n_neighbors=5, n_models=2, random_state=0),
    "l1ae-refit": lambda: EmbeddingClassifier(l1ae(), n_neighbors=5, n_models=2, random_state=0),
    "pca": lambda: EmbeddingClassifier(sl.PCAEncoder(n_components=8), n_neighbors=5),
    "deep": lambda: EmbeddingClassifier(
        sl.DeepAE(n_components=8, n_hidden=(10, 12), max_epochs=4, device="cpu"), decoder="own", random_state=0
    ),
    "blend": lambda: BlendClassifier(
        [("linear", RidgeOneVsAll()), ("near", EmbeddingClassifier(None, predictor="neighbors", n_neighbors=5))],
        random_state=0,
    ),
    "rerank": lambda: BlendClassifier(
        [("pca", EmbeddingClassifier(sl.PCAEncoder(n_components=8))), ("linear", RidgeOneVsAll())],
        rerank=True,
        n_candidates=8,
        random_state=0,
    ),
}


@pytest.fixture(scope="module")
def fitted(problem):
    X, Y, _, _ = problem
    kept = {}

    def get(name):
        if name not in kept:
            kept[name] = CLASSIFIERS[name]().fit(X, Y)
        return kept[name]

    return get


every = pytest.mark.parametrize("name", CLASSIFIERS)


@every
def test_it_is_far_better_than_the_most_frequent_labels(name, fitted, problem):
    _, Y, X_test, Y_test = problem
    frequent = sp.csr_array(np.tile(np.asarray(Y.sum(axis=0), dtype=float), (Y_test.shape[0], 1)))
    floor = sl.metrics.precision_at_k(Y_test, frequent, k=3)
    reached = fitted(name).score(X_test, Y_test, k=3)
    if name in ("l1ae-2", "deep"):  # trained for a moment, these decoders are no more than better than chance
        floor = Y_test.nnz / (Y_test.shape[0] * Y_test.shape[1])
    assert reached > floor + 0.1


@every
def test_every_row_has_k_labels_best_first_of_a_longer_list(name, fitted, problem):
    X_test = problem[2]
    five, ten = (fitted(name).predict_topk(X_test, k=k) for k in (5, 10))
    assert five.shape == (60, 24)
    assert (np.diff(five.indptr) == 5).all()
    assert (np.diff(ten.indptr) == 10).all()
    for a, b in ((five[i : i + 1], ten[i : i + 1]) for i in range(60)):
        assert set(a.indices) <= set(b.indices)
        assert a.data.min() >= np.sort(b.data)[-5] - 1e-12


@every
def test_more_labels_than_there_are_is_all_of_them(name, fitted, problem):
    assert (np.diff(fitted(name).predict_topk(problem[2], k=100).indptr) == 24).all()


@every
def test_blocks_do_not_change_the_answer(name, fitted, problem, monkeypatch):
    X_test = problem[2]
    whole = fitted(name).predict_topk(X_test, k=5)
    monkeypatch.setattr("sparselens.xml._topk._CELLS", 700)
    calls = []
    by_blocks = fitted(name).predict_topk(X_test, k=5, callback=lambda done, total, what: calls.append((done, total)))
    assert len(calls) > 1
    assert calls[-1] == (60, 60)
    np.testing.assert_allclose(by_blocks.toarray(), whole.toarray(), atol=1e-9)


@every
def test_a_model_comes_back_from_disk_bit_by_bit(name, fitted, problem, tmp_path):
    model = fitted(name)
    again = sl.load(model.save(tmp_path / "model"))
    assert repr(again.get_params(deep=False)) == repr(model.get_params(deep=False))
    assert (again.predict_topk(problem[2]) != model.predict_topk(problem[2])).nnz == 0
    assert not list((tmp_path / "model").glob("*.pkl"))
    np.testing.assert_array_equal(again.inverse_propensities(), model.inverse_propensities())


@every
def test_dense_and_sparse_input_agree(name, fitted, problem):
    X_test = problem[2]
    same = fitted(name).predict_topk(X_test.toarray())
    assert (same != fitted(name).predict_topk(sp.csc_array(X_test))).nnz == 0


@every
def test_the_same_seed_gives_the_same_model(name, fitted, problem):
    X, Y, X_test, _ = problem
    assert (CLASSIFIERS[name]().fit(X, Y).predict_topk(X_test) != fitted(name).predict_topk(X_test)).nnz == 0


@every
def test_odd_rows_and_labels_have_a_meaning(name, problem):
    """Rows without labels, labels without rows, rows without features: all of them legal."""
    X, Y, X_test, _ = problem
    X, Y = X.tolil(), Y.tolil()
    X[5], Y[7] = 0.0, 0.0
    Y[:, 3] = 0.0
    model = CLASSIFIERS[name]().fit(sp.csr_array(X), sp.csr_array(Y))
    scores = model.predict_topk(sp.vstack([X_test[:3], sp.csr_array((1, 60))]), k=1)
    assert np.isfinite(scores.data).all()
    assert 3 not in scores.indices
    assert model.label_counts_[3] == 0


@every
def test_no_rows_give_no_rows(name, fitted):
    assert fitted(name).predict_topk(sp.csr_array((0, 60))).shape == (0, 24)


@every
def test_other_columns_and_other_rows_are_refused(name, fitted, problem):
    X, Y, X_test, _ = problem
    with pytest.raises(ValueError, match="X has 59 columns but 60 were expected"):
        fitted(name).predict_topk(X_test[:, :59])
    with pytest.raises(ValueError, match="X has 240 rows but Y has 239: pass the labels of the same rows"):
        CLASSIFIERS[name]().fit(X, Y[1:])
    with pytest.raises(ValueError, match="Y holds negative values in row 0"):
        CLASSIFIERS[name]().fit(X[:1], [[-1.0]])
    with pytest.raises(ValueError, match="k must be at least 1"):
        fitted(name).predict_topk(X_test, k=0)


@every
def test_it_follows_the_conventions_of_scikit_learn(name, fitted, problem):
    X, Y, _, _ = problem
    model = fitted(name)
    again = clone(model)
    assert repr(again.get_params(deep=False)) == repr(model.get_params(deep=False))
    assert not any(attribute.endswith("_") and not attribute.startswith("_") for attribute in vars(again))
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        again.predict_topk(X)
    assert again.fit(X, Y) is again
    assert again.n_features_in_ == 60


def test_settings_are_searched_by_scikit_learn(problem):
    X, Y, _, _ = problem
    grid = {"embedder__n_components": [1, 8], "n_neighbors": [5]}
    search = GridSearchCV(EmbeddingClassifier(sl.PCAEncoder(n_components=3)), grid, cv=2).fit(X, Y)
    assert search.best_params_ == {"embedder__n_components": 8, "n_neighbors": 5}


def test_an_unfitted_model_says_so(problem):
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        RidgeOneVsAll().predict_topk(problem[2])


# ---- ensembles, resume, parameters ---------------------------------------------------------------------------


def test_models_of_an_ensemble_have_seeds_of_their_own(fitted):
    first, second = (part["embedder"].components_ for part in fitted("l1ae-3").parts_)
    assert np.abs(first - second).max() > 1e-3


def test_the_first_model_of_an_ensemble_is_the_single_model(problem):
    X, Y, _, _ = problem
    one, two = (EmbeddingClassifier(l1ae(), n_models=n, random_state=4).fit(X, Y) for n in (1, 2))
    np.testing.assert_array_equal(one.parts_[0]["embedder"].components_, two.parts_[0]["embedder"].components_)
    np.testing.assert_allclose(one.parts_[0]["W"], two.parts_[0]["W"], atol=1e-10)


def test_refit_keeps_the_encoders_and_follows_the_parameters(fitted, problem):
    X, Y, X_test, _ = problem
    whole = EmbeddingClassifier(l1ae(), n_neighbors=5, n_models=2, random_state=0).fit(X, Y)
    encoders = [part["embedder"] for part in whole.parts_]
    whole.set_params(**EmbeddingClassifier.as_in_paper(None).get_params(deep=False) | {"embedder": whole.embedder})
    whole.set_params(n_models=2, n_neighbors=5, random_state=0).refit(X, Y)
    assert [part["embedder"] for part in whole.parts_] == encoders
    np.testing.assert_allclose(
        whole.predict_topk(X_test).toarray(), fitted("l1ae-3").predict_topk(X_test).toarray(), atol=1e-9
    )
    assert len(whole.set_params(n_models=1).refit(X, Y).parts_) == 1
    with pytest.raises(ValueError, match="2 models need as many encoders, but 1 are fitted: call fit"):
        whole.set_params(n_models=2).refit(X, Y)


def test_with_one_cluster_the_learners_of_sleec_are_one(fitted, problem):
    X, Y, X_test, _ = problem
    told = []
    three = SLEECClassifier(6, n_models=3, svp_neighbors=20, n_neighbors=5, random_state=0)
    three.fit(X, Y, callback=lambda done, total, what: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
    one = fitted("sleec").predict_topk(X_test)
    np.testing.assert_allclose(three.predict_topk(X_test).toarray(), 3 * one.toarray())


class KilledError(Exception):
    """Stands for a process that was killed."""


@pytest.mark.parametrize("name", ["sleec-clusters", "l1ae-3", "blend", "one-vs-all"])
def test_a_killed_fit_goes_on_where_it_was(name, fitted, problem, tmp_path):
    X, Y, X_test, _ = problem
    told = []

    def kill(done, total, what):
        told.append(done)
        if len(told) == 2:
            raise KilledError

    model = CLASSIFIERS[name]().set_params(checkpoint=tmp_path / "parts")
    with pytest.raises(KilledError):
        model.fit(X, Y, callback=kill)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "parts").glob("*.npz")}
    assert before
    model.fit(X, Y)
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "parts").glob("*.npz")}
    assert before.items() <= after.items()
    np.testing.assert_allclose(
        model.predict_topk(X_test).toarray(), fitted(name).predict_topk(X_test).toarray(), atol=1e-9
    )


def test_parts_of_another_fit_and_damaged_parts_are_refused(problem, tmp_path):
    X, Y, _, _ = problem
    RidgeOneVsAll(checkpoint=tmp_path).fit(X, Y)
    with pytest.raises(CheckpointError, match="holds the parts of another fit"):
        RidgeOneVsAll(alpha=2.0, checkpoint=tmp_path).fit(X, Y)
    part, mark = tmp_path / "labels0.npz", tmp_path / "parts.json"
    whole = part.read_bytes()
    flipped = bytes([*whole[:500], whole[500] ^ 255, *whole[501:]])
    for damaged in (b"PK no zip", b"", whole[:-10], whole[: len(whole) // 2], flipped):
        part.write_bytes(damaged)
        with pytest.raises(CorruptFileError, match=r"labels0.npz is damaged"):
            RidgeOneVsAll(checkpoint=tmp_path).fit(X, Y)
    for damaged in (b"", b"{", b"[1]", b"\xff\xfe", b"{}"):
        mark.write_bytes(damaged)
        with pytest.raises(CorruptFileError, match=r"parts.json is damaged"):
            RidgeOneVsAll(checkpoint=tmp_path).fit(X, Y)


def test_a_checkpoint_without_a_seed_is_refused(problem, tmp_path):
    with pytest.raises(ValueError, match="a checkpoint needs random_state="):
        SLEECClassifier(checkpoint=tmp_path).fit(*problem[:2])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SLEECClassifier(w_thresh=1.0), "w_thresh must be a fraction below 1, got 1.0"),
        (SLEECClassifier(n_models=0), "n_models must be at least 1, got 0"),
        (EmbeddingClassifier(predictor="knn"), "predictor must be one of 'neighbors', 'decoder', 'average'; got 'knn'"),
        (EmbeddingClassifier(decoder_weight=2.0), r"decoder_weight must be at most 1 \(the decoder alone\), got 2.0"),
        (RidgeOneVsAll(alpha=0.0), "alpha must be a finite number above 0, got 0.0"),
        (BlendClassifier([]), r"classifiers must be a list of \(name, classifier\)"),
        (BlendClassifier(RidgeOneVsAll()), r"classifiers must be a list of \(name, classifier\) .* got RidgeOneVsAll"),
        (BlendClassifier([("a", 3)]), r"classifiers must be a list of \(name, classifier\)"),
        (BlendClassifier([("a", RidgeOneVsAll())] * 2), "with different names"),
        (BlendClassifier(validation_fraction=1.0), "validation_fraction must be below 1, got 1.0"),
    ],
)
def test_a_bad_parameter_is_named(model, message, problem):
    with pytest.raises(ValueError, match=message):
        model.fit(*problem[:2])


@pytest.mark.parametrize("embedder", ["L1AE", sl.PCAEncoder, RidgeOneVsAll(), 50])
def test_an_embedder_that_is_no_encoder_is_named(embedder, problem):
    with pytest.raises(TypeError, match=r"embedder must be an encoder such as PCAEncoder\(n_components=100\), got"):
        EmbeddingClassifier(embedder).fit(*problem[:2])


def test_weights_that_do_not_fit_into_memory_are_refused_with_the_remedy():
    X, Y = sp.csr_array((2, 100_000)), sp.csr_array((2, 100_000))
    with pytest.raises(
        ValueError, match=r"features times labels \(100,000 x 100,000\) make a dense .* 80 GB: set prune"
    ):
        RidgeOneVsAll().fit(X, Y)


def test_an_embedder_with_a_checkpoint_of_its_own_is_refused(problem, tmp_path):
    model = EmbeddingClassifier(sl.L1AE(n_components=4, checkpoint=str(tmp_path)))
    with pytest.raises(ValueError, match="give checkpoint= to the EmbeddingClassifier"):
        model.fit(*problem[:2])


def test_presets_are_the_published_ones():
    wiki = SLEECClassifier.preset("wiki10-31k", n_models=2)
    assert (wiki.n_models, wiki.n_clusters, wiki.n_components, wiki.C, wiki.n_neighbors) == (2, 5, 75, 0.1, 11)
    with pytest.raises(ValueError, match="there is no preset 'rcv1': the names are eurlex-4k"):
        SLEECClassifier.preset("rcv1")


def test_a_blend_never_ranks_what_its_first_classifier_left_out(problem):
    X, Y, X_test, _ = problem
    model = CLASSIFIERS["rerank"]().fit(X, Y)
    allowed = model.parts_[0].predict_topk(X_test, k=8)
    ranked = model.predict_topk(X_test, k=8)
    np.testing.assert_array_equal(ranked.indices, allowed.indices)


def test_the_weights_of_a_blend_are_learned_on_rows_that_were_held_out(problem):
    X, Y, _, _ = problem

    class Noise(RidgeOneVsAll):
        def _score_block(self, X):
            return np.random.default_rng(X.shape[0]).random((X.shape[0], self.n_labels_))

    model = BlendClassifier([("noise", Noise()), ("linear", RidgeOneVsAll())], random_state=0).fit(X, Y)
    assert model.weights_["linear"] > 2 * model.weights_["noise"]


def test_a_damaged_model_is_refused(fitted, tmp_path):
    folder = fitted("sleec").save(tmp_path / "model")
    arrays = next(folder.glob("arrays-*"))
    arrays.write_bytes(arrays.read_bytes()[:-10])
    with pytest.raises(CorruptFileError, match="is truncated or was edited"):
        sl.load(folder)


def test_many_labels_without_an_embedder_are_compared_in_their_leading_directions(problem, monkeypatch):
    X, Y, X_test, Y_test = problem
    whole = EmbeddingClassifier(predictor="neighbors").fit(X, Y)
    monkeypatch.setattr("sparselens.xml.embedding._WHOLE_LABEL_SPACE", 23)
    again = EmbeddingClassifier(predictor="neighbors").fit(X, Y)  # 300 directions are more than all
    np.testing.assert_allclose(again.predict_topk(X_test).toarray(), whole.predict_topk(X_test).toarray(), atol=1e-6)
    monkeypatch.setattr("sparselens.xml.embedding._DIRECTIONS", 8)
    few = EmbeddingClassifier(predictor="neighbors").fit(X, Y)
    assert few.parts_[0]["Z"].shape == (240, 8)
    assert few.score(X_test, Y_test, k=3) > whole.score(X_test, Y_test, k=3) - 0.05


@pytest.mark.parametrize(
    "model",
    [
        EmbeddingClassifier(None, predictor="neighbors"),
        EmbeddingClassifier(None, method="cg"),
        EmbeddingClassifier(sl.PCAEncoder(n_components=10)),
        RidgeOneVsAll(method="cg"),
        SLEECClassifier(10, svp_neighbors=10, random_state=0),
        BlendClassifier(n_candidates=10, random_state=0),
    ],
    ids=["neighbors", "average-cg", "pca", "one-vs-all-cg", "sleec", "blend"],
)
def test_rows_times_labels_are_never_dense(model, monkeypatch):
    """1,000 x 2,000 are 16 MB: neither fit nor predict_topk may hold that, with blocks made small in proportion."""
    rng = np.random.default_rng(0)
    X = sp.csr_array(sp.random(1000, 30, density=0.2, random_state=rng))
    Y = sp.csr_array(sp.random(1000, 2000, density=0.001, random_state=rng))
    for where, size in (("_topk._CELLS", 2**16), ("linear_map._CELLS", 2**16), ("embedding._DIRECTIONS", 10)):
        monkeypatch.setattr(f"sparselens.xml.{where}", size)
    monkeypatch.setattr("sparselens.xml.embedding._WHOLE_LABEL_SPACE", 100)
    clone(model).fit(X[:100], Y[:100])  # imports and compiles, which is not what is measured
    tracemalloc.start()
    try:
        clone(model).fit(X, Y).predict_topk(X[:100])
        assert tracemalloc.get_traced_memory()[1] < 12e6
    finally:
        tracemalloc.stop()


def test_a_label_space_that_is_not_whitened_must_fit_into_memory(problem, monkeypatch):
    monkeypatch.setattr("sparselens.xml.one_vs_all._DENSE", 60 * 24)
    with pytest.raises(ValueError, match=r"rows times labels \(240 x 24\) make a dense matrix .* leave whiten=True"):
        EmbeddingClassifier(None, whiten=False).fit(*problem[:2])


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name not in ("pca", "rerank")])
def test_labels_that_never_occur_leave_a_classifier_that_answers(name, problem):
    X, _, X_test, _ = problem
    nothing = sp.csr_array((X.shape[0], 24))
    assert np.isfinite(CLASSIFIERS[name]().fit(X, nothing).predict_topk(X_test).data).all()


def test_pca_of_labels_that_never_occur_says_that_there_is_nothing_to_span(problem):
    with pytest.raises(ValueError, match="span at most 0 dimensions"):
        CLASSIFIERS["pca"]().fit(problem[0], sp.csr_array((240, 24)))
