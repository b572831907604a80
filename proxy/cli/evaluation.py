"""`undercliff eval`: does a policy help, on our tasks or on recorded runs?"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from proxy.cli.stores import on_file, progress_bar

POLICIES = "sticky,last_n,greedy,passthrough"
BUDGETS = "full,half,quarter"


def eval_(
    tasks: Annotated[
        str, typer.Option("--tasks", metavar="WHICH", help="all, a source, a family, or a name with * for anything.")
    ] = "all",
    policies: Annotated[
        str, typer.Option("--policies", metavar="NAMES", help="Separated by commas; module:attribute for your own.")
    ] = POLICIES,
    budgets: Annotated[
        str, typer.Option("--budgets", metavar="SIZES", help="full, half, quarter or tokens such as 8000 or 32K.")
    ] = BUDGETS,
    seed: Annotated[int, typer.Option("--seed", min=1, help="Other names and numbers for the scripted tasks.")] = 1,
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Processes at once; 0 for one a core.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Keep results there; the same run goes on from them.")
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write everything as JSON.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts and every miss.")
    ] = None,
    readme: Annotated[
        Path | None, typer.Option("--readme", metavar="FILE", help="Put the table between its marks in this file.")
    ] = None,
    failed: Annotated[
        int, typer.Option("--failed", min=0, help="How many failed runs to print with what they missed.")
    ] = 12,
) -> None:
    """Run tasks under policies and budgets: what is passed, what it costs, and what was missing where it failed."""
    sources, matrix, kept_at, task = (
        importlib.import_module(f"proxy.evaluation.{name}") for name in ("sources", "matrix", "kept", "task")
    )
    names = words(policies, "--policies")
    sizes = [task.budget(word) for word in words(budgets, "--budgets")]
    sources.check_policies(names)
    wanted = matrix.cells(sources.chosen(sources.scripted(seed), tasks), names, sizes)
    _check_files(json, html, readme)
    with ExitStack() as stack:
        kept = stack.enter_context(kept_at.Kept(out)) if out is not None else None
        tell = stack.enter_context(_progress(len(wanted)))
        try:
            results = matrix.run(wanted, jobs=jobs, kept=kept, on_result=tell)
        except KeyboardInterrupt:
            where = f"the same command goes on from {out}" if out else "with --out FOLDER it could go on from there"
            typer.echo(f"undercliff: stopped; {where}", err=True)
            raise typer.Exit(130) from None
    _report(results, failed, json, html, readme)


def _check_files(json: Path | None, html: Path | None, readme: Path | None) -> None:
    """Before the work, not after it."""
    if readme is not None:
        with on_file(readme, "read"):
            importlib.import_module("proxy.evaluation.report").check_place(readme)
    for path in (json, html, readme):
        if path is not None:
            with on_file(path, "write"):
                path.open("ab").close()


def _report(results: Sequence[Any], failed: int, json: Path | None, html: Path | None, readme: Path | None) -> None:
    statistics, report = (importlib.import_module(f"proxy.evaluation.{name}") for name in ("statistics", "report"))
    summary = statistics.summarize(results)
    typer.echo(report.text(summary, results, failed), nl=False)
    if json is not None:
        with on_file(json, "write"):
            json.write_bytes(report.as_json(summary, results))
    if html is not None:
        page = importlib.import_module("proxy.evaluation.page")
        with on_file(html, "write"):
            html.write_text(page.page(summary, results), encoding="utf-8")
    if readme is not None:
        with on_file(readme, "write"):
            report.write_readme(summary, readme)


def words(text: str, option: str) -> list[str]:
    """Each once. BadParameter for none."""
    found = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not found:
        raise typer.BadParameter(f"{option} names nothing")
    return found


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    """A bar on a terminal; else a line on stderr at every tenth part."""
    done = 0
    with progress_bar() as bar:
        task = bar.add_task("running", total=total)

        def tell(result: Any, was_kept: bool) -> None:
            nonlocal done
            done += 1
            bar.advance(task)
            bar.update(task, description=f"{done} of {total} · {result.task[:32]}")
            if bar.disable and (done == total or done * 10 // total > (done - 1) * 10 // total):
                typer.echo(f"{done} of {total} runs", err=True)

        yield tell
