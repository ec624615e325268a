"""``kit matrix``: scenarios and arms of the whole store in one table."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from kit.cli.completion import complete_scenarios, complete_stored_arms
from kit.cli.options import output_options, store_option, the_store, write_rendered
from kit.core.quantity import percentage
from kit.extra.matrix.renderers import MATRIX
from kit.model.metric import COMPARED
from kit.report.renderer import find

_EPILOG = """\b
Examples:
  kit matrix
  kit matrix --weight kernel=3 --weight git=2
  kit matrix --reference bare --arm layer:overlay2 --arm layer:btrfs
  kit matrix --format html -o matrix.html

Each scenario's newest session that has an arm counts; with three machines of a class or more, the newest of
each machine, pooled. Two classes of machines are never mixed: --class picks one."""


@click.command(epilog=_EPILOG)
@click.option("--scenario", "scenarios", multiple=True, metavar="NAME", shell_complete=complete_scenarios,
              help="Only this scenario (repeatable).  [all]")  # fmt: skip
@click.option("--arm", "arms", multiple=True, metavar="ARM", shell_complete=complete_stored_arms,
              help="Only this arm (repeatable).  [all]")  # fmt: skip
@click.option("--reference", default="", metavar="ARM", shell_complete=complete_stored_arms,
              help="Compare with this arm.  [layer on the default driver]")  # fmt: skip
@click.option("--class", "machine_class", default="", metavar="NAME",
              help="Machines of this class, or of this beginning.  [that of the newest session]")  # fmt: skip
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="Only sessions from this day on, UTC.")
@click.option("--metric", type=click.Choice(COMPARED), help="Compare by this metric.  [durable: real + flush]")
@click.option("--margin", default="3%", metavar="P%", help="Treat differences below this as equivalent.  [3%]")
@click.option("--weight", "weights", multiple=True, metavar="NAME=N",
              help="Weight of a scenario in the mean (repeatable).  [1]")  # fmt: skip
@output_options(MATRIX)
@store_option
def matrix(
    scenarios: tuple[str, ...], arms: tuple[str, ...], reference: str, machine_class: str, since: datetime | None,
    metric: str | None, margin: str, weights: tuple[str, ...], format_: str, output: str,
    json_file: str, store_url: str,
) -> None:  # fmt: skip
    """Show which driver to take: scenarios and arms in one table.

    The last rows are means over the scenarios, and what each arm costs beside time."""
    from kit.extra.matrix.analysis.mean import parse_weights
    from kit.extra.matrix.stored import MatrixQuestion, find_matrix

    question = MatrixQuestion(
        scenarios, arms, reference, machine_class, since.replace(tzinfo=UTC).timestamp() if since else None,
        metric or "", percentage(margin, "--margin"), parse_weights(weights, "--weight"),
    )  # fmt: skip
    matrix = find_matrix(the_store(store_url), question)
    write_rendered(format_, output, json_file, lambda name: find(MATRIX, name).render(matrix))
