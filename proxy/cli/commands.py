"""Every command. Loaded for all of them but `serve`, which starts without the others."""

from __future__ import annotations

from proxy.cli.auditing import backup, forget, verify
from proxy.cli.estimating import estimate
from proxy.cli.evaluation import eval_
from proxy.cli.exporting import export, import_
from proxy.cli.getting import get
from proxy.cli.moving import migrate_store
from proxy.cli.root import application
from proxy.cli.running import check_config, demo, serve, version
from proxy.cli.teams import keys, usage
from proxy.cli.viewing import conversations, expand, missing, show, window

app = application(
    (
        *(serve, demo, conversations, show, get, window, expand, missing, export, import_),
        *(verify, forget, backup, migrate_store, usage, estimate, eval_, check_config, version),
    )
)
app.add_typer(keys, name="keys")
