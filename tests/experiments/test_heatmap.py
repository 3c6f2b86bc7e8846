"""The heat maps on a grid of one width and two times."""

from ntkmmd_jax import plotting
from ntkmmd_jax.experiments import Context, heatmap


def test_a_small_heat_map(tmp_path):
    context = Context("heatmap", 6, tmp_path, progress=False)
    numbers = heatmap.powers(context, (4,), (0.1, 3.0))
    assert [n.label for n in numbers[:2]] == ["trained, m = 4, t = 0.1", "exact, m = 4, t = 0.1"]
    numbers += heatmap.errors(0, 1, (16, 256), (0.1, 1.0), steps=20)
    said, table = heatmap.remark(numbers), heatmap._table(numbers)
    assert said.startswith("At m = 4 the powers are at most") and "m^−" in said
    assert [row[0] for row in table[1:]] == [
        "trained, m = 4", "exact, m = 4", "error, m = 16", "error, m = 256"
    ]  # fmt: skip
    assert table[0][1:] == ["t = 0.1", "t = 1", "t = 3"] and table[1][2] == ""
    plotting.save(heatmap.draw(numbers), tmp_path / "heatmap.png")
    assert (tmp_path / "heatmap.png").stat().st_size > 10_000
