"""The picture: memory of each role, descriptors and threads, the offsets table, and what is behind."""

from __future__ import annotations

from pathlib import Path

from tests.soak.run import Report

__all__ = ["draw"]

_PANELS = (": memory MB", ": descriptors", ": threads", "offsets table", "records behind")


def draw(report: Report, path: Path) -> None:
    """Write it as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    minutes = [seconds / 60 for seconds in report.seconds]
    figure, axes = pyplot.subplots(len(_PANELS), 1, figsize=(10, 16), sharex=True)
    for axis, part in zip(axes, _PANELS, strict=True):
        for name, values in report.figures.items():
            if part in name:
                axis.plot(minutes, values, label=name.removesuffix(part) or name, linewidth=1)
        axis.set_title(part.removeprefix(": "), loc="left")
        axis.set_ylim(bottom=0)
        axis.legend(loc="upper left", fontsize="small", ncols=3)
    axes[-1].set_xlabel("minutes")
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
