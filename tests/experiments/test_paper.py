"""The experiments: every table and figure is there, and every number of the paper has a place in one of them."""

import pytest

from sparselens.experiments import labels
from sparselens.experiments.algorithms import DECODERS, ENCODERS, THE_TEN, make_encoder
from sparselens.experiments.paper import EXPERIMENTS, cells_of, find
from sparselens.experiments.run import plan

IDS = {
    "table1",
    "fig2",
    "fig2-labels",
    "fig3-left",
    "fig3-right",
    "table2-left",
    "table2-right",
    "table3",
    "table-xml",
    "table-params",
    "fig-cosamp-pos",
    "fig-toy",
    "fig-fourier",
    "fig-pos-l1",
    "table-spectrum",
    "table-no-structure",
    "table-ista",
    "fig-lbcs",
    "depth-search",
    "orthogonality",
}


def test_every_table_and_figure_of_the_paper_is_an_experiment():
    assert set(EXPERIMENTS) == IDS
    assert [experiment.id for experiment in find("all")] == list(EXPERIMENTS)


def test_an_unknown_name_is_an_error_with_the_nearest_one():
    with pytest.raises(ValueError, match="the paper has no 'fig_2': did you mean fig2"):
        find("fig_2")


def test_figure_two_has_the_papers_ten_algorithms_and_ours_on_six_sets():
    assert len({algorithm.label for algorithm in THE_TEN}) == 10
    grids = [grid for grid in EXPERIMENTS["fig2"].grids if grid.data != "wiki10-31k"]
    assert len(grids) == 6
    more = {"rcv1-mulan": 2}  # ℓ1-AE with fixed steps: its network and its matrix
    assert all(len(grid.algorithms) == 11 + more.get(grid.data, 0) for grid in grids)


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("quick", [False, True])
def test_every_cell_can_be_made(name, quick):
    cells = cells_of([EXPERIMENTS[name]], quick=quick)
    assert cells
    assert len({cell.key for cell in cells}) == len(cells)
    for cell in cells:
        if cell.encoder in ("none", *labels.ENCODERS):
            continue
        assert cell.decoder in {*DECODERS, "own", "matrix"}
        encoder = make_encoder(cell.encoder, cell.data, cell.m, seed=0, device="cpu", params=dict(cell.params))
        assert encoder.n_components == cell.m
        assert set(cell.params) <= set(encoder.get_params().items()) | set(cell.params)
    assert set(ENCODERS) >= {cell.encoder for cell in cells} - {"none", *labels.ENCODERS}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_number_of_the_paper_belongs_to_a_cell(name):
    experiment = EXPERIMENTS[name]
    places = {
        (grid.data, algorithm.label, m) for grid in experiment.grids for algorithm in grid.algorithms for m in grid.m
    }
    if experiment.view == "spectrum":  # one number for all m
        places = {(data, label, 0) for data, label, _ in places} | {("wiki10-31k", "ℓ1-AE + ℓ1-min pos", 0)}
    for one in experiment.published:
        assert (one.data, one.algorithm, one.m) in places


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_claim_names_algorithms_of_its_experiment(name):
    experiment = EXPERIMENTS[name]
    labels = {algorithm.label for grid in experiment.grids for algorithm in grid.algorithms}
    for claim in experiment.claims:
        assert {claim.better, *claim.than} <= labels


def test_experiments_share_fits():
    together = plan(cells_of(find("all"), seeds=1), set())
    apart = [plan(cells_of([experiment], seeds=1), set()) for experiment in find("all")]
    assert len(together) < 0.6 * sum(map(len, apart))


def test_a_selection_takes_any_m_and_keeps_the_data_sets_that_are_named():
    cells = cells_of(find("fig2"), m=[12], data=["synthetic2"], seeds=2, n_test=50)
    assert {(cell.data, cell.m, cell.n_test) for cell in cells} == {("synthetic2", 12, 50)}
    assert {cell.seed for cell in cells} == {0, 1}
    assert len(cells) == 22


def test_seeds_come_one_after_the_other_so_that_a_cut_run_has_whole_figures():
    seeds = [cell.seed for cell in cells_of(find("fig2"), seeds=3)]
    assert seeds == sorted(seeds)
