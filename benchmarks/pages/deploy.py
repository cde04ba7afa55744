"""Figures of docs/deploy.md, from what benchmarks/api.py and benchmarks/serve.py wrote."""

from collections.abc import Iterator

import lines


def page() -> Iterator[str]:
    yield "| server | what | figure | against | ratio | commit |"
    yield "|---|---|---|---|---|---|"
    for benchmark, name in (("api", "`hardner serve --api`"), ("serve", "the workbench")):
        for (case, device, peer), line in lines.latest(benchmark).items():
            what = f"{case}, {device}"
            figure = f"{line['ours']:,.0f} {line['unit']}"
            against = f"{line['peer']:,.0f} of `{peer}`" if peer else ""
            ratio = f"{line['ratio']:.2f}" if peer else ""
            cells = (name, what, figure, against, ratio, line["commit"][:12])
            yield "| " + " | ".join(cells) + " |"
