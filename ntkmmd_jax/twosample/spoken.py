"""The members of a fused statistic, as a result tells of them."""

from typing import Any

import jax
import numpy as np

from ntkmmd_jax._lib.records import record, static


@record
class Members:
    """Which members of a fused statistic spoke: k of them, each with a verdict of its own."""

    statistic: jax.Array | np.ndarray  # (k,) T_m
    zscore: jax.Array | np.ndarray  # (k,) how far out T_m^⅓ lies among the labellings
    pvalue: jax.Array | np.ndarray  # (k,) of the member alone; the least of many is no p-value
    names: tuple[str, ...] = static()

    def rows(self) -> list[dict[str, Any]]:
        """Plain numbers, the loudest first."""
        table = zip(self.names, self.statistic, self.zscore, self.pvalue, strict=True)
        rows = [
            {"member": name, "statistic": float(t), "zscore": float(z), "pvalue": float(p)}
            for name, t, z, p in table
        ]
        return sorted(rows, key=lambda row: -row["zscore"])

    def __str__(self) -> str:
        width = max(map(len, self.names))
        head = f"{'member':<{width}}  statistic  z-score  p-value"
        lines = [
            f"{r['member']:<{width}}  {r['statistic']:9.3g}  {r['zscore']:7.2f}  {r['pvalue']:7.4f}"
            for r in self.rows()
        ]
        return "\n".join([head, *lines])


def load_members(rows: list[dict[str, Any]] | None) -> Members | None:
    """The same from `Members.rows`, as a file has them."""
    if rows is None:
        return None
    columns = ([float(row[name]) for row in rows] for name in ("statistic", "zscore", "pvalue"))
    return Members(*map(np.asarray, columns), names=tuple(str(row["member"]) for row in rows))
