"""bahdanau serve --run DIR"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from bahdanau_jax import run_folder, serving
from bahdanau_jax.cli import leaving, options, progress
from bahdanau_jax.cli.runs import check_runs, load
from bahdanau_jax.reporting import say
from bahdanau_jax.serving import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from bahdanau_jax.trained import Run


@dataclass(frozen=True)
class Serve:
    """Serve trained models over HTTP: POST /translate, /score and /align take and give JSON.

    GET /openapi.json describes every endpoint, with examples. GET /health/ready answers 200 once
    the models' programs are compiled, and GET /metrics has numbers for Prometheus. After SIGTERM or
    Ctrl-C the requests in flight are answered, and the exit code is 0.

    A request chooses one of several runs by the name of its folder, with @STEP if it is given; the
    first is the default.
    """

    # the folder of a trained model, or one of its checkpoints, DIR@STEP; repeat the option for
    # several
    run: Annotated[tuple[Path, ...], tyro.conf.UseAppendAction]
    host: str = "127.0.0.1"  # the address to listen on; 0.0.0.0: every one of this machine
    port: int = 8000  # the port to listen on; 0: any free one, which a line on stderr names
    proxy: str = ""  # IP address of a reverse proxy, whose X-Forwarded-For names the client
    # a further name of this server in the header Host, such as that of a reverse proxy in front
    allow_host: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    grace_seconds: float = 30.0  # the most time to answer requests in flight after SIGTERM
    checkpoint: str = "best"  # the checkpoints of a run
    average: int = 1  # number of checkpoints of each run, whose weights are averaged
    weights: str = ""  # the weights of a checkpoint
    trust_code: bool = False  # import the module that a run names (module:attribute), if it does
    settings: Annotated[Settings, tyro.conf.arg(name="")] = field(default_factory=Settings)

    EXAMPLES: ClassVar[Sequence[str]] = (
        "bahdanau serve --run runs/quickstart",
        "bahdanau serve --run runs/en-fr --run runs/fr-en --port 9000 --batch-wait-ms 10",
    )


def main(arguments: Sequence[str]) -> None:
    chosen = options.parse(Serve, arguments, "bahdanau serve")
    names = _checked(chosen)
    with serving.bind(chosen.host, chosen.port) as opened:
        address = serving.url(opened)
        hosts = serving.answered_hosts(chosen.host, chosen.allow_host, opened.getsockname()[0])
        served = dict(zip(names, _load(chosen), strict=True))
        app = serving.application(served, chosen.settings, hosts=hosts)
        app.state.service.on_ready = lambda: say(f"bahdanau: ready; see {address}/openapi.json")
        say(f"bahdanau: serving {', '.join(names)} on {address}; compiling programs")
        serving.serve(app, opened, chosen.grace_seconds, chosen.proxy)
    end(app)


def end(app: "FastAPI") -> None:
    """Say how the server ended, and leave without the threads that still compute."""
    service = app.state.service
    if service.is_busy:  # Python would wait for its threads
        say("bahdanau: stopped while a search or a compilation was running")
        leaving.leave(0)
    if service.has_cancelled:
        say("bahdanau: stopped; requests in flight were cancelled")
    else:
        say("bahdanau: stopped; all requests in flight were answered")


def _checked(chosen: Serve) -> list[str]:
    """Check the options before the models are loaded, which takes seconds; return names of runs."""
    serving.check(chosen.settings)
    check_port(chosen.port)
    _check_proxy(chosen.proxy)
    if not 0 <= chosen.grace_seconds < float("inf"):
        raise ValueError(f"--grace-seconds is {chosen.grace_seconds}, but should be 0 or more")
    check_runs(chosen.run, chosen.checkpoint)
    return run_folder.names(chosen.run)


def check_port(port: int) -> None:
    """Raise ValueError for a number that is no port."""
    if not 0 <= port < 1 << 16:
        raise ValueError(f"--port is {port}, but should be between 0 and 65535")


def _check_proxy(proxy: str) -> None:
    """Refuse a name, with which uvicorn would never compare an address."""
    try:
        for part in [] if proxy in ("", "*") else proxy.split(","):
            ipaddress.ip_network(part.strip())
    except ValueError:
        raise ValueError(
            f"--proxy is {proxy}, but should be IP addresses or networks with commas, or *"
        ) from None


def _load(chosen: Serve) -> "list[Run]":
    with progress.reporter(progress.on_terminal(), keep=False) as reporter:
        reporter.stage("loading the model")
        return load(
            chosen.run, chosen.trust_code, chosen.checkpoint, chosen.average, chosen.weights
        )
