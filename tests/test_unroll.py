"""The steps against their equations, and the closed-form gradient against autograd and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from helpers import sparse_rows
from sparselens import _closed_form
from sparselens import _training_kernels as kernels
from sparselens._batches import DenseBatch, SparseRows, cuts
from sparselens._closed_form import Buffers, loss_and_gradients
from sparselens.unroll import (
    ISTANetwork,
    UnrolledNetwork,
    ista_step,
    subgradient_step,
    traced_loss,
    truncated_normal,
)

N, D, M = 7, 23, 5


def draw(*shape: int, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def rows(n: int = N, d: int = D, *, dtype: torch.dtype = torch.float64):
    """One sparse batch; its last row is empty."""
    X = sp.vstack([sparse_rows(n - 1, d, 4, seed=3), sp.csr_array((1, d))], format="csr")
    return next(iter(SparseRows(X, dtype=dtype).in_order(n)))


def network(seed: int = 0, *, dtype: torch.dtype = torch.float64, tied: bool = True, **options) -> UnrolledNetwork:
    """A network away from its start, so that every γ, b and α matters."""
    A = draw(M, D, seed=seed) / math.sqrt(D)
    B = None if tied else draw(M, D, seed=seed + 1) / math.sqrt(D)
    net = UnrolledNetwork(A, B=B, **options).to(dtype)
    rng = np.random.default_rng(seed + 2)
    with torch.no_grad():
        for name, p in net.named_parameters():
            if name not in ("A", "B"):
                p.add_(torch.from_numpy(0.3 * rng.standard_normal(p.shape)))
    return net


def gradients(net: torch.nn.Module, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    names, parameters = zip(*net.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return {n: torch.zeros_like(p) if g is None else g for n, p, g in zip(names, parameters, found, strict=True)}


def test_measuring_sparse_rows_has_the_value_and_the_gradient_of_the_dense_product():
    batch, A, upstream = rows(), draw(M, D, seed=1).requires_grad_(), draw(N, M, seed=2)
    for made in (batch.measure(A), batch.dense() @ A.t()):
        (gradient,) = torch.autograd.grad(made, A, upstream)
        torch.testing.assert_close(made.detach(), batch.dense() @ A.detach().t())
        torch.testing.assert_close(gradient, upstream.t() @ batch.dense())


# ---- one step -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
def test_one_step_is_the_equation_of_the_paper(tied):
    x, A, B = draw(N, D, seed=0), draw(M, D, seed=1), draw(M, D, seed=2)
    full = torch.eye(D, dtype=torch.float64) - (A if tied else B).t() @ A
    expected = x - 0.7 * torch.sign(x) @ full.t()
    torch.testing.assert_close(
        subgradient_step(x, A, 0.7, B=None if tied else B), expected, rtol=1e-12, atol=1e-12
    )  # the same numbers in another order


def test_a_step_from_zero_stays_at_zero():
    assert not subgradient_step(torch.zeros(2, D), draw(M, D, seed=0).float(), 1.0).any()


def test_with_orthonormal_rows_a_step_keeps_the_measurements():
    A = torch.linalg.qr(draw(D, M, seed=0))[0].t()
    x = draw(N, D, seed=1)
    torch.testing.assert_close(subgradient_step(x, A, 0.3) @ A.t(), x @ A.t(), rtol=1e-12, atol=1e-12)


def test_a_threshold_that_has_passed_zero_goes_on_learning():
    network = ISTANetwork(draw(M, D, seed=0), n_steps=3, threshold=0.01)
    with torch.no_grad():
        network.threshold.neg_()
    network(draw(4, M, seed=1)).square().sum().backward()
    assert (network.threshold.grad != 0).all()


def test_an_ista_step_is_a_gradient_step_and_soft_thresholding():
    x, A, y = draw(N, D, seed=0), draw(M, D, seed=1), draw(N, M, seed=2)
    z = x - 0.1 * (x @ A.t() - y) @ A
    expected = torch.sign(z) * torch.relu(z.abs() - 0.2)
    torch.testing.assert_close(ista_step(x, y, A, step=0.1, threshold=0.2), expected, rtol=1e-12, atol=1e-12)


def test_many_ista_steps_reach_the_lasso():
    A, y = draw(M, D, seed=1), draw(1, M, seed=2)
    step = 1.0 / float(torch.linalg.matrix_norm(A, 2) ** 2)
    x = torch.zeros(1, D, dtype=torch.float64)
    for _ in range(20_000):
        x = ista_step(x, y, A, step=step, threshold=step * 0.1)
    slack = (y - x @ A.t()) @ A  # optimal: |aᵀr| ≤ λ, with equality and the sign of x on the support
    on = x != 0
    torch.testing.assert_close(slack[on], 0.1 * torch.sign(x[on]), rtol=0, atol=1e-8)
    assert float(slack.abs().max()) <= 0.1 + 1e-8


def test_the_start_is_a_normal_draw_cut_at_two_deviations():
    A = truncated_normal((50, 400), seed=0)
    assert float(A.abs().max()) <= 2 / math.sqrt(400)
    # a normal cut at ±2 has the standard deviation 0.8796
    assert float(A.std()) * math.sqrt(400) == pytest.approx(0.8796, abs=0.02)
    assert torch.equal(A, truncated_normal((50, 400), seed=0))
    assert not torch.equal(A, truncated_normal((50, 400), seed=1))


# ---- the gradient -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("final_relu", [True, False])
@pytest.mark.parametrize("norm", ["affine", "none"])
@pytest.mark.parametrize("step_rule", ["beta/t", "free", "fixed"])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("n_steps", [0, 1, 4])
def test_the_closed_form_gradient_equals_autograd(n_steps, tied, step_rule, norm, final_relu):
    net = network(tied=tied, n_steps=n_steps, step_rule=step_rule, norm=norm, final_relu=final_relu)
    batch = rows()
    by_hand, traced = net.loss(batch), traced_loss(net, batch)
    assert by_hand.item() == pytest.approx(traced.item(), rel=1e-13)
    expected = gradients(net, traced)
    for name, found in gradients(net, by_hand).items():
        torch.testing.assert_close(found, expected[name], rtol=1e-10, atol=1e-10, msg=name)


def test_the_closed_form_gradient_equals_finite_differences():
    # sign is constant near almost every point, so the loss is smooth there and its derivative is the gradient
    net, batch = network(n_steps=3), rows()
    found = gradients(net, net.loss(batch))
    for name, p in net.named_parameters():
        direction = draw(*p.shape, seed=9)
        sides = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                p.add_(direction, alpha=step)
                sides.append(net.loss(batch).item())
                p.add_(direction, alpha=-step)
        slope = (sides[0] - sides[1]) / 2e-6
        assert slope == pytest.approx(float((found[name] * direction).sum()), rel=1e-6, abs=1e-8), name


@pytest.mark.parametrize("norm", ["affine", "batch", "none"])
def test_the_gradient_of_the_smooth_network_equals_finite_differences(norm):
    # a ReLU has a kink; everything else here is smooth
    whole = _Autoencoder(network(n_steps=2, nonlinearity="tanh", norm=norm, final_relu=False))
    X = rows().dense()
    names, values = zip(*whole.named_parameters(), strict=True)

    def loss(*values: torch.Tensor) -> torch.Tensor:
        x_hat = torch.func.functional_call(whole, dict(zip(names, values, strict=True)), (X,))
        return (x_hat - X).square().sum(1).mean()

    assert torch.autograd.gradcheck(loss, values, eps=1e-6, atol=1e-6)


class _Autoencoder(torch.nn.Module):
    """Encoder and decoder as one function of x."""

    def __init__(self, net: UnrolledNetwork) -> None:
        super().__init__()
        self.net = net

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.net(X @ self.net.A.t())


@pytest.mark.parametrize("norm", ["affine", "none"])
@pytest.mark.parametrize("n_steps", [0, 3])
def test_the_forward_pass_without_a_gradient_is_the_traced_one(n_steps, norm):
    net, y = network(n_steps=n_steps, norm=norm, tied=False), draw(N, M, seed=5)
    with torch.no_grad():
        plain = net(y)
    torch.testing.assert_close(plain, net(y).detach(), rtol=1e-12, atol=1e-12)


def test_the_passes_for_a_gpu_train_as_those_for_a_cpu_do(monkeypatch):
    # what a GPU runs, on a CPU: dense batches, torch's own passes
    net, batch = network(n_steps=3), rows()
    expected = gradients(net, net.loss(batch))
    monkeypatch.setattr(_closed_form, "shrink", _closed_form._shrink)
    monkeypatch.setattr(
        _closed_form,
        "column_dots",
        lambda G, S, out: out.copy_(torch.stack([_closed_form._column_dot(G, s) for s in S])),
    )
    for name, found in gradients(net, net.loss(DenseBatch(batch.dense()))).items():
        torch.testing.assert_close(found, expected[name], rtol=1e-11, atol=1e-12)


def test_dense_and_sparse_batches_give_the_same_loss_and_gradient():
    net, batch = network(n_steps=3), rows()
    dense = DenseBatch(batch.dense())
    a, b = net.loss(batch), net.loss(dense)
    assert a.item() == pytest.approx(b.item(), rel=1e-12)
    expected = gradients(net, b)
    for name, found in gradients(net, a).items():
        torch.testing.assert_close(found, expected[name], rtol=1e-11, atol=1e-12)


def test_the_blocks_may_be_taken_a_few_at_a_time(monkeypatch):
    net, batch = network(n_steps=5), rows()
    expected = gradients(net, net.loss(batch))
    monkeypatch.setattr(_closed_form, "_CHUNK", 2 * M * D)
    for name, found in gradients(net, net.loss(batch)).items():
        torch.testing.assert_close(found, expected[name], rtol=1e-12, atol=1e-13)


def test_the_compiled_passes_do_what_torch_does():
    G, S = draw(N, D, seed=0), torch.sign(draw(3, N, D, seed=1))
    x, g, b, alpha = draw(N, D, seed=2), draw(D, seed=3), draw(D, seed=4), torch.tensor(0.3, dtype=torch.float64)
    x[0, 0], g[0], b[0] = 0.0, 1.0, 0.0  # the sign of zero is zero
    by_torch, by_kernel = x.clone(), x.clone()
    s_torch, s_kernel = torch.empty_like(x), torch.empty_like(x)
    _closed_form._shrink(by_torch, g, b, alpha, s_torch)
    _closed_form.shrink(by_kernel, g, b, alpha, s_kernel)
    assert torch.equal(s_torch, s_kernel)
    assert s_kernel[0, 0] == 0
    torch.testing.assert_close(by_torch, by_kernel, rtol=1e-14, atol=1e-15)
    dots_torch, dots_kernel = torch.empty(3, D, dtype=torch.float64), torch.empty(3, D, dtype=torch.float64)
    for t in range(3):
        dots_torch[t] = _closed_form._column_dot(G, S[t])
    _closed_form.column_dots(G, S, dots_kernel)
    torch.testing.assert_close(dots_torch, dots_kernel, rtol=1e-12, atol=1e-13)


def test_single_precision_stays_near_double_precision():
    loss64 = network(n_steps=4).loss(rows()).item()
    loss32 = network(n_steps=4, dtype=torch.float32).loss(rows(dtype=torch.float32))
    assert loss32.dtype == torch.float32
    assert loss32.item() == pytest.approx(loss64, rel=1e-5)


def test_memory_is_used_again_and_leaves_no_trace():
    net, buffers = network(n_steps=3), Buffers()
    arguments = (net.A, net.A, net.alpha, net.scale, net.shift)
    large, small = rows(), rows(4)
    fresh, _ = loss_and_gradients(small, *arguments)
    loss_and_gradients(large, *arguments, buffers=buffers)
    again, _ = loss_and_gradients(small, *arguments, buffers=buffers)
    assert fresh.item() == again.item()


def test_a_loss_that_is_not_a_number_is_reported_and_not_hidden_by_the_relu():
    net = network(n_steps=2)
    with torch.no_grad():
        net.A[0, 0] = math.nan
    assert math.isnan(net.loss(rows()).item())
    v = torch.tensor([[math.nan, 1.0]])
    kernels.residual(v.numpy(), True, np.float32(0), np.array([0, 0]), np.array([], dtype=np.int64), np.zeros(0, "f"))
    assert math.isnan(float(v[0, 0]))


# ---- the networks -------------------------------------------------------------------------------------------


def test_without_steps_the_network_is_one_layer():
    net, y = network(n_steps=0, tied=False), draw(N, M, seed=5)
    torch.testing.assert_close(net(y), torch.relu(y @ net.B))
    assert {name for name, _ in net.named_parameters()} == {"A", "B"}


def test_free_steps_start_where_beta_over_t_does():
    A = truncated_normal((M, D), seed=0)
    ruled, free = (UnrolledNetwork(A, n_steps=4, step_rule=rule, beta=0.5) for rule in ("beta/t", "free"))
    torch.testing.assert_close(ruled.alpha, free.alpha)
    assert ruled.step.numel() == 1
    assert free.step.numel() == 4


def test_fixed_steps_are_those_that_beta_over_t_starts_with_and_are_kept_with_the_weights_untrained():
    A = truncated_normal((M, D), seed=0)
    ruled, fixed = (UnrolledNetwork(A, n_steps=4, step_rule=rule, beta=0.5) for rule in ("beta/t", "fixed"))
    torch.testing.assert_close(ruled.alpha, fixed.alpha)
    assert "step" not in dict(fixed.named_parameters())
    again = UnrolledNetwork.from_weights(A.numpy(), fixed.weights(), n_steps=4, step_rule="fixed", beta=0.25)
    torch.testing.assert_close(again.alpha, fixed.alpha)


@pytest.mark.parametrize("step_rule", ["beta/t", "free"])
def test_a_step_size_counts_by_its_magnitude(step_rule):
    # Below zero the signs of one block would feed those of the next: with many columns SGD then throws the step far.
    net, mirrored, batch = (*(network(n_steps=3, step_rule=step_rule, beta=0.5) for _ in range(2)), rows())
    with torch.no_grad():
        mirrored.step.neg_()
    losses = net.loss(batch), mirrored.loss(batch)
    assert losses[0] == losses[1]
    assert traced_loss(mirrored, batch).item() == pytest.approx(losses[0].item(), rel=1e-13)
    up, down = gradients(net, losses[0]), gradients(mirrored, losses[1])
    assert float(up["step"].abs().max()) > 0
    for name in up:
        torch.testing.assert_close(down[name], -up[name] if name == "step" else up[name], rtol=0, atol=0)


def test_a_step_size_that_starts_at_zero_can_leave_it():
    net = UnrolledNetwork(truncated_normal((M, D), seed=0).double(), n_steps=3, beta=0.0)
    assert float(gradients(net, net.loss(rows()))["step"].abs()) > 0


def test_the_affine_map_divides_by_the_root_of_1_001():
    net = UnrolledNetwork(truncated_normal((M, D), seed=0), n_steps=1)
    none = UnrolledNetwork(truncated_normal((M, D), seed=0), n_steps=1, norm="none")
    y = draw(N, M, seed=0).float()
    torch.testing.assert_close(net(y) * math.sqrt(1.001), none(y))


@pytest.mark.parametrize("norm", ["affine", "batch", "none"])
def test_a_network_comes_back_from_its_weights(norm):
    net = network(n_steps=3, norm=norm, tied=False)
    net.loss(rows())  # batch statistics move
    again = UnrolledNetwork.from_weights(net.A.detach().numpy(), net.weights(), n_steps=3, norm=norm)
    y = draw(N, M, seed=5)
    assert torch.equal(again(y), net.eval()(y))


def test_batch_statistics_move_in_training_only_and_one_row_does_not_break_them():
    net, batch = network(n_steps=2, norm="batch"), rows()
    before = net.running_mean.clone()
    net.eval().loss(batch)
    assert torch.equal(before, net.running_mean)
    net.train().loss(batch)
    assert not torch.equal(before, net.running_mean)
    assert math.isfinite(net.loss(rows(1)).item())


def test_the_gradient_of_ista_equals_finite_differences():
    net = ISTANetwork(draw(M, D, seed=0) / 3, n_steps=3, step=0.2, threshold=0.05, final_relu=False)
    batch = rows()
    found = gradients(net, net.loss(batch))
    for name, p in net.named_parameters():
        direction = draw(*p.shape, seed=9)
        sides = []
        for step in (1e-7, -1e-7):
            with torch.no_grad():
                p.add_(direction, alpha=step)
                sides.append(net.loss(batch).item())
                p.add_(direction, alpha=-step)
        assert (sides[0] - sides[1]) / 2e-7 == pytest.approx(float((found[name] * direction).sum()), rel=1e-5), name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "layer"}, "norm must be one of 'affine', 'batch', 'none'; got 'layer'"),
        ({"nonlinearity": "relu"}, "nonlinearity must be one of 'sign', 'tanh'; got 'relu'"),
        ({"step_rule": "1/t"}, "step_rule must be one of"),
        ({"n_steps": -1}, "n_steps must be at least 0, got -1"),
        ({"beta": -1.0}, "beta must be a finite number of at least 0"),
    ],
)
def test_options_that_do_not_exist_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        UnrolledNetwork(truncated_normal((M, D), seed=0), **options)


# ---- batches ------------------------------------------------------------------------------------------------


def test_batches_hold_the_rows_of_the_order_and_the_last_partial_one_is_kept():
    X = sparse_rows(11, 9, 3, seed=0)
    order = torch.from_numpy(np.random.default_rng(0).permutation(11))
    batches = list(SparseRows(X, dtype=torch.float64).batches(order, cuts(11, 4)))
    assert [len(batch) for batch in batches] == [4, 4, 3]
    np.testing.assert_array_equal(torch.cat([b.dense() for b in batches]).numpy(), X.toarray()[order.numpy()])


def test_products_with_a_sparse_batch_are_those_of_the_dense_one():
    batch, A, Q = rows(), draw(M, D, seed=0), draw(N, M, seed=1)
    torch.testing.assert_close(batch.measure(A), batch.dense() @ A.t(), rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(batch.outer(Q), Q.t() @ batch.dense(), rtol=1e-13, atol=1e-14)
