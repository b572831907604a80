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
STOPPED = 3

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[FILES]", help="Recorded runs as estimate takes them; without any, the scripted tasks."),
]
TasksOption = Annotated[
    str, typer.Option("--tasks", metavar="WHICH", help="all, a source, a family, or a name with * for anything.")
]
PoliciesOption = Annotated[
    str, typer.Option("--policies", metavar="NAMES", help="Separated by commas; module:attribute for your own.")
]
BudgetsOption = Annotated[
    str, typer.Option("--budgets", metavar="SIZES", help="full, half, quarter or tokens such as 8000 or 32K.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Other names and numbers; 0 leaves recorded ones.")]
JobsOption = Annotated[int, typer.Option("--jobs", min=0, help="Processes at once; 0 for one a core.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FOLDER", help="Keep results there; the same run goes on from them.")
]
JsonOption = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write everything as JSON.")]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts and every miss.")
]
ReadmeOption = Annotated[
    Path | None, typer.Option("--readme", metavar="FILE", help="Put the table between its marks in this file.")
]
FailedOption = Annotated[
    int, typer.Option("--failed", min=0, help="How many failed runs to print with what they missed.")
]
LiveOption = Annotated[
    str,
    typer.Option("--live", metavar="URL", help="Let a real model do what is checked: its base URL."),
]
ModelOption = Annotated[str, typer.Option("--model", metavar="NAME", help="The model to play live.")]
KeyOption = Annotated[str, typer.Option("--key-env", metavar="VARIABLE", help="Environment variable with its key.")]
RepeatsOption = Annotated[int, typer.Option("--repeats", min=1, help="How often each task is played live.")]
LimitOption = Annotated[
    float, typer.Option("--cost-limit", min=0.0, help="Dollars: no live call is begun that could exceed it.")
]
PricesOption = Annotated[
    str,
    typer.Option("--prices", metavar="IN,CACHED,OUT", help="Its dollars per million tokens, where unknown."),
]


def eval_(
    files: FilesArgument = None,
    tasks: TasksOption = "all",
    policies: PoliciesOption = POLICIES,
    budgets: BudgetsOption = BUDGETS,
    seed: SeedOption = 1,
    jobs: JobsOption = 0,
    out: OutOption = None,
    json: JsonOption = None,
    html: HtmlOption = None,
    readme: ReadmeOption = None,
    failed: FailedOption = 12,
    live: LiveOption = "",
    model: ModelOption = "",
    key_env: KeyOption = "",
    repeats: RepeatsOption = 1,
    cost_limit: LimitOption = 1.0,
    prices: PricesOption = "",
) -> None:
    """Run tasks under policies and budgets: what is passed, what it costs, and what was missing where it failed."""
    sources, matrix, kept_at, task = (
        importlib.import_module(f"proxy.evaluation.{name}") for name in ("sources", "matrix", "kept", "task")
    )
    names = words(policies, "--policies")
    sizes = [task.budget(word) for word in words(budgets, "--budgets")]
    _check_files(json, html, readme)
    found = sources.chosen(sources.from_files(files, seed) if files else sources.scripted(seed), tasks)
    sources.check_policies(names, sources.rows_of(found))
    series = _live(live, model, key_env, repeats, cost_limit, prices, out)
    wanted = (series or matrix).cells(found, names, sizes)
    with ExitStack() as stack:
        kept = stack.enter_context(kept_at.Kept(out)) if out is not None else None
        tell = stack.enter_context(_progress(len(wanted)))
        try:
            results = (series or matrix).run(wanted, jobs=jobs, kept=kept, on_result=tell)
        except KeyboardInterrupt:
            where = f"the same command goes on from {out}" if out else "with --out FOLDER it could go on from there"
            typer.echo(f"undercliff: stopped; {where}", err=True)
            raise typer.Exit(130) from None
    if results:
        _report(results, failed, json, html, readme)
    if series is not None:
        _sum_up(series, results)


def _live(*words: Any) -> Any:
    """The series that plays tasks live; None without an address."""
    url, model, key_env, repeats, cost_limit, prices, folder = words
    if not url:
        if model or key_env or prices or repeats > 1:
            raise typer.BadParameter("--model, --key-env, --prices and --repeats are for --live URL")
        return None
    opened = importlib.import_module("proxy.evaluation.live.opening").opened
    return opened(
        url, model, key_env=key_env, repeats=repeats, cost_limit=cost_limit, prices=prices, folder=folder
    )  # fmt: skip


def _sum_up(series: Any, results: Sequence[Any]) -> None:
    """Rates and money of a live series. Exit code 3 where it was stopped before its end."""
    summary = importlib.import_module("proxy.evaluation.live.summary")
    rows = summary.summed_up(results, series.purse.facts)
    typer.echo("\n".join((f"── {series.endpoint.model}, live", "", *summary.text(rows), "")))
    typer.echo(f"spent ${series.purse.spent:.4f} on the model", err=True)
    if series.stopped is not None:
        typer.echo(f"undercliff: stopped: {series.stopped}\n  {series.stopped.hint}", err=True)
        raise typer.Exit(STOPPED)


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
