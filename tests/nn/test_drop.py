"""Dropout by 16 bits a value: the right share, the right mean, the gradient of its own mask."""

import pytest
import torch

from foregather.nn.drop import dropout

COUNT = 200_000


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_share_and_mean(share):
    torch.manual_seed(0)
    out = dropout(torch.ones(COUNT // 100, 100), share)
    deviation = (share * (1 - share) / COUNT) ** 0.5
    assert abs(float((out == 0).float().mean()) - share) < 5 * deviation
    assert out.unique().tolist() == pytest.approx([0, 1 / (1 - share)], rel=1e-4)


def test_every_lane_of_a_draw_is_fair():
    torch.manual_seed(1)
    kept = dropout(torch.ones(COUNT), 0.5).view(-1, 4) != 0
    assert (kept.float().mean(0) - 0.5).abs().max() < 0.01
    pairs = kept[:, :2].float().prod(1).mean()  # two lanes of a draw know nothing of each other
    assert abs(float(pairs) - 0.25) < 0.01


def test_gradient_has_the_mask_of_the_values():
    x = torch.ones(7, 3, requires_grad=True)
    out = dropout(x, 0.4)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())


def test_the_seed_decides():
    draws = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        draws.append(dropout(torch.ones(1001), 0.5))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize(
    ("share", "training", "expected"), [(0.5, False, 1), (0.0, True, 1), (1.0, True, 0)]
)
def test_ends(share, training, expected):
    assert torch.equal(dropout(torch.ones(5), share, training), torch.full((5,), float(expected)))
