"""Trained networks as decoders."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from helpers import gaussian, sparse_rows
from sparselens.decoders.l1 import L1Decoder
from sparselens.decoders.unrolled import FeedForwardDecoder, UnrolledDecoder
from sparselens.recovery import Status
from sparselens.unroll import UnrolledNetwork, subgradient_step

A = gaussian(8, 20, seed=0)
X = sparse_rows(6, 20, 2, seed=1)
Y = X @ A.T


def test_without_weights_the_steps_are_those_of_the_plain_algorithm():
    x = torch.from_numpy(Y @ A)
    for t in range(1, 4):
        x = subgradient_step(x, torch.from_numpy(A), 1.0 / t)
    found = UnrolledDecoder(n_steps=3).bind(A).decode(Y)
    np.testing.assert_allclose(found.x.toarray(), torch.relu(x).numpy(), atol=1e-12)
    assert (found.status == Status.ESTIMATE).all()
    assert (found.n_steps == 3).all()


def test_many_plain_steps_come_near_the_l1_solution():
    # x⁽ᵗ⁾ keeps Ax = y where A has orthonormal rows (Lemma 1); the steps β/t sum to infinity, so the iterates converge
    orthonormal = np.linalg.qr(A.T)[0].T
    measured = X @ orthonormal.T
    exact = L1Decoder(positive=False).bind(orthonormal).decode(measured).x.toarray()
    errors = []
    for n_steps in (10, 3000):
        decoder = UnrolledDecoder(n_steps=n_steps, final_relu=False).bind(orthonormal)
        errors.append(np.abs(decoder.decode(measured).x.toarray() - exact).max())
    assert errors[1] < 0.01 < errors[0]


def test_trained_weights_are_used():
    net = UnrolledNetwork(torch.from_numpy(A), n_steps=3, norm="affine")
    with torch.no_grad():
        net.scale.mul_(0.5)
        net.shift.add_(0.01)
    decoder = UnrolledDecoder(net.weights(), n_steps=3, norm="affine").bind(A)
    expected = net(torch.from_numpy(Y)).detach().numpy()
    np.testing.assert_allclose(decoder.decode(Y).x.toarray(), expected, atol=1e-14)


def test_weights_for_another_matrix_are_refused():
    net = UnrolledNetwork(torch.from_numpy(A), n_steps=3)
    with pytest.raises(ValueError, match=r"the weights do not fit a matrix of shape \(8, 19\)"):
        UnrolledDecoder(net.weights(), n_steps=3, norm="affine").bind(A[:, :19])
    with pytest.raises(ValueError, match="the weights do not fit"):
        UnrolledDecoder(net.weights(), n_steps=4, norm="affine").bind(A)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "fista"}, "algorithm must be one of 'subgradient', 'ista'; got 'fista'"),
        ({"nonlinearity": "relu"}, "nonlinearity must be one of"),
        ({"n_steps": -1}, "n_steps must be at least 0"),
    ],
)
def test_options_that_do_not_exist_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        UnrolledDecoder(**options).bind(A)


def test_a_feed_forward_decoder_needs_no_matrix_and_marks_bad_rows():
    decoder = FeedForwardDecoder([(np.eye(2), np.zeros(2)), (np.array([[1.0, 0], [0, 1], [1, 1]]), np.zeros(3))])
    rec = decoder.decode([[1.0, -2.0], [np.nan, 0.0]], on_invalid="status")
    np.testing.assert_array_equal(rec.x.toarray(), [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    assert rec.status.tolist() == [Status.ESTIMATE, Status.INVALID]
    with pytest.raises(TypeError, match="has no measurement matrix"):
        decoder.bind(np.eye(2))
    with pytest.raises(ValueError, match="Y has 3 columns but A has 2 rows"):
        decoder.decode([[1.0, 2.0, 3.0]])
