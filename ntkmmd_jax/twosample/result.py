"""What a two-sample test found."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from ntkmmd_jax._lib.files import load_leaves, save_leaves, whole_file
from ntkmmd_jax._lib.records import record, static
from ntkmmd_jax._lib.tails import Tail
from ntkmmd_jax._lib.telling import warn
from ntkmmd_jax.networks import as_network
from ntkmmd_jax.sequential.recorded import Wealth
from ntkmmd_jax.twosample.explained import Explanation
from ntkmmd_jax.twosample.explanation import explain_witness
from ntkmmd_jax.twosample.loaded import load_wealth, load_witness
from ntkmmd_jax.twosample.reported import write_report
from ntkmmd_jax.twosample.spoken import Members, load_members


@record
class TwoSampleResult:
    """Statistic, p-value and threshold of a two-sample test, with the null sample behind them.

    `reject` says `pvalue <= level`, and `statistic > threshold` says the same.
    A test gives arrays; `concrete()`, and so `two_sample_test`, Python numbers.
    `witness(z)` scores any new points: where p exceeds q it is large, where q exceeds p, small.
    """

    statistic: jax.Array | float  # () T
    pvalue: jax.Array | float  # (), in (0, 1]
    threshold: jax.Array | float  # () which T exceeds if it is rejected
    null: jax.Array | np.ndarray  # (B,) under permuted labels; empty where a formula gives p
    level: jax.Array | float  # () α
    witness: Any = None  # callable on points (n, ...), or None where a method has none
    method: str = static(default="")  # its name in the table of methods
    n_x: int = static(default=0)  # samples of p
    n_y: int = static(default=0)  # samples of q
    standardized: bool = static(default=False)  # the test saw pooled mean 0, spread 1
    least: Any = None  # () the smallest p-value of all labellings tried; None where none was
    members: Members | None = None  # of a fused statistic: which of them spoke
    wealth: Wealth | None = None  # of a bet: after every block
    law: Tail | None = None  # under H0, where a formula gives p
    names: tuple[str, ...] | None = static(default=None)  # of the columns of data frames
    drawn: Any = None  # () of `null`, how many p comes from, where that was not fixed beforehand
    within: str | None = static(default=None)  # labels were permuted in "strata", "pairs", "groups"

    @property
    def reject(self) -> jax.Array | bool:
        """Whether the two samples differ, at the level of the test; False without a verdict."""
        return self.pvalue <= self.level

    @property
    def verdict(self) -> str:
        """The answer in words. A p-value that is not a number is none."""
        if np.isnan(self.pvalue):
            return "no verdict: the statistic is not a number"
        return "reject H0: p = q" if self.reject else "no evidence against H0: p = q"

    def warn_if_powerless(self) -> None:
        """Warn where these points would not be rejected whatever their labels; traced, do not."""
        if self.least is None or isinstance(self.threshold, Tracer):
            return
        least, level = float(self.least), float(self.level)  # on the host: no program is run
        if least > level:
            warn(
                f"{self.method} rejects no labelling of these points at level {level:g}: of all "
                f"that were tried, the smallest p-value is {least:.3g}. The witness is "
                "constant on them, they are tied, or they are too few for this calibration",
            )

    def __repr__(self) -> str:
        head = f"TwoSampleResult(method={self.method!r}, n_x={self.n_x}, n_y={self.n_y}"
        head += ", standardized=True" * self.standardized
        if isinstance(self.pvalue, Tracer) or np.ndim(self.pvalue) != 0:
            return f"{head}, pvalue={self.pvalue})"
        b = np.shape(self.null)[-1] if self.drawn is None else int(self.drawn)
        source = f"{b} permutations" if b else "no permutations"
        if self.law is not None:
            source = self.law.label
        if self.wealth is not None:
            stop = int(self.wealth.stop)
            source = f"at any time; reached after {stop} blocks" if stop else "at any time"
        return (
            f"{head})\n"
            f"  statistic  {float(self.statistic):.5g}\n"
            f"  threshold  {float(self.threshold):.5g} at level {float(self.level):g}\n"
            f"  p-value    {float(self.pvalue):.4g} ({source})\n"
            f"  {self.verdict}"
        )

    def concrete(self) -> "TwoSampleResult":
        """The same result in Python numbers, the p-value as an exact fraction of B + 1."""
        b = len(self.null) if self.drawn is None else 0
        p = float(self.pvalue)
        return dataclasses.replace(
            self,
            statistic=float(self.statistic),
            pvalue=round(p * (b + 1)) / (b + 1) if b and np.isfinite(p) else p,
            threshold=float(self.threshold),
            null=np.asarray(self.null)[: None if self.drawn is None else int(self.drawn)],
            drawn=None if self.drawn is None else int(self.drawn),
            least=None if self.least is None else float(self.least),
            members=jax.tree.map(np.asarray, self.members),
            wealth=jax.tree.map(np.asarray, self.wealth),
            law=jax.tree.map(np.asarray, self.law),
            level=float(str(np.float32(self.level))),
        )

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain numbers, ready for JSON."""
        members = {} if self.members is None else {"members": self.members.rows()}
        stop = {} if self.wealth is None else {"stop": int(self.wealth.stop) or None}
        return {
            "method": self.method,
            "n_x": self.n_x,
            "n_y": self.n_y,
            "statistic": float(self.statistic),
            "threshold": float(self.threshold),
            "pvalue": float(self.pvalue),
            "level": float(self.level),
            "reject": None if np.isnan(self.pvalue) else bool(self.reject),
            "n_permutations": len(self.null) if self.drawn is None else int(self.drawn),
            **members,
            **stop,
            "standardized": self.standardized,
            **({} if self.names is None else {"names": list(self.names)}),
            **({} if self.within is None else {"within": self.within}),
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the null, sample or law, with statistic and threshold; returns matplotlib axes.

        A fused result has its members in a panel beside it, unless axes are given.

        Args:
            ax: Axes to draw in; by default, those of a new figure.
        """
        from ntkmmd_jax import plotting

        return plotting.result(self if self.drawn is None else self.concrete(), ax=ax)

    def explain(
        self,
        x: Any,
        y: Any,
        *,
        key: Any = 0,
        level: float | None = None,
        n_permutations: int = 999,
        strata: tuple[Any, Any] | None = None,
        image: tuple[int, ...] | None = None,
        rows: int = 5,
    ) -> Explanation:
        """Explain the result: which coordinates differ, which samples are most x- and y-like.

        Args:
            x: The sample of p that was tested; data frames keep the names of their columns.
            y: The sample of q.
            key: An int seed or a JAX key.
            level: The probability that any coordinate is named if x and y have one law; by default
                that of the test.
            n_permutations: Relabellings behind the p-values of coordinates.
            strata: As for `two_sample_test`: labels are permuted within strata only. Of n pairs,
                (range(n), range(n)).
            image: (h, w) or (h, w, c), to draw samples (n, d) as images; those of such a shape are.
            rows: How many samples to show of each.

        Every test with a witness can be explained; of the known ones, all but "gmmd-lin". It is
        no second test of the whole: a coordinate may be named where the test does not reject, and
        none where it does, as for what three coordinates have together.

        Example:
            >>> import ntkmmd_jax as ntk
            >>> rng = np.random.default_rng(0)
            >>> x, y = rng.normal(size=(80, 3)), rng.normal(size=(60, 3)) * np.array([1, 4, 1])
            >>> found = ntk.two_sample_test(x, y, method="hotelling").explain(x, y)
            >>> found.driving, found.coordinates[0]["difference"]
            (['1'], 'wider in y')
        """
        if np.ndim(self.pvalue) != 0:
            raise ValueError("explain one result at a time: this one holds a batch of replicas")
        if self.within == "groups":
            raise ValueError(
                "coordinates have no null of whole groups yet: explain cannot name any"
            )
        if self.within is not None and strata is None:
            raise ValueError(f"the test permuted labels in {self.within}: give explain its strata")
        return explain_witness(
            key,
            self.witness,
            x,
            y,
            method=self.method,
            level=float(self.level) if level is None else level,
            n_permutations=n_permutations,
            names=self.names,
            strata=strata,
            image=image,
            rows=rows,
        )

    def report(
        self,
        path: str | os.PathLike,
        explanation: Explanation | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write one HTML file to send to a colleague: verdict, numbers, pictures, explanation.

        Nothing in it is fetched from elsewhere: pictures are part of the file.

        Args:
            path: Where to.
            explanation: As `explain` gives it, to be part of the report.
            settings: What else to say of how it was made, name to value: files, seed, command.
        """
        return write_report(self, path, explanation, settings or {})

    def save(self, path: str | os.PathLike) -> Path:
        """Save to one `.npz` file, the witness included; `load` reads it back."""
        path = Path(path)
        if path.suffix != ".npz":
            path = path.with_name(path.name + ".npz")
        numbers = (self.statistic, self.pvalue, self.threshold, self.null, self.level)
        header: dict[str, Any] = {**self.to_dict(), "kind": "TwoSampleResult", "witness": None}
        if self.witness is not None:
            header["witness"] = {"kind": type(self.witness).__name__, **self.witness.describe()}
        if self.wealth is not None:
            header["wealth"] = self.wealth.names
        if self.law is not None:
            header["law"] = self.law.to_dict()
        return save_leaves(path, (numbers, self.wealth, self.witness), **header)

    @classmethod
    def load(cls, path: str | os.PathLike, *, network: Any = None) -> "TwoSampleResult":
        """Read a saved result.

        Args:
            path: What `save` wrote.
            network: The network of the witness. Needed only if it is a function of your own, which
                no file can hold; without it everything but the witness is there.
        """
        network = None if network is None else as_network(network)
        leaves, header = load_leaves(path, "TwoSampleResult")
        with whole_file(path):
            statistic, pvalue, threshold, null, level = leaves[:5]
            if null.ndim != 1:
                raise ValueError(f"a null sample of shape {null.shape}")
            wealth, rest = load_wealth(leaves[5:], header.get("wealth"))
            return cls(
                float(statistic),
                float(pvalue),
                float(threshold),
                null,
                float(level),
                witness=load_witness(rest, header["witness"], network, str(path)),
                method=str(header["method"]),
                n_x=int(header["n_x"]),
                n_y=int(header["n_y"]),
                members=load_members(header.get("members")),
                standardized=bool(header.get("standardized", False)),
                wealth=wealth,
                law=None if header.get("law") is None else Tail.from_dict(header["law"]),
                names=None if header.get("names") is None else tuple(header["names"]),
                within=header.get("within"),
            )
