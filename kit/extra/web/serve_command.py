"""``kit serve``: the store in a browser."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from kit.cli.options import fleet_tls_option, store_option, the_store
from kit.cli.streams import complain

if TYPE_CHECKING:
    from kit.extra.fleet.client.status_cache import StatusCache
    from kit.store import Store

_EPILOG = """\b
Examples:
  kit serve
  kit serve --port 9000 --store postgresql+psycopg://reader@db/kit
  kit serve --fleet fleet.example.org --fleet-tls ~/kit-fleet      with a page of its machines
  ssh -L 8910:127.0.0.1:8910 builder kit serve            from another machine

The server never writes, and listens on 127.0.0.1 only. The printed URL ends in a token, new with each start, that
keeps out other users of the machine. Needs:
pip install 'storage-driver-test-kit[serve]'."""


@click.command(epilog=_EPILOG)
@click.option("--port", type=click.IntRange(0, 65535), default=8910, show_default=True, help="Port; 0 for a free one.")
@click.option("--fleet", metavar="SCHEDULER", default="", help="Also show the machines of this fleet.")
@fleet_tls_option
@store_option
def serve(port: int, fleet: str, fleet_tls: str, store_url: str) -> None:
    """Show the store in a browser on this machine.

    It runs until interrupted."""
    with ExitStack() as stack:
        status_cache = stack.enter_context(_status_cache(fleet, fleet_tls)) if fleet else None
        _serve(the_store(store_url, read_only=True), port, status_cache)


def _status_cache(fleet: str, tls: str) -> StatusCache:
    from kit.extra.fleet.address import parse_address
    from kit.extra.fleet.client.status_cache import StatusCache

    return StatusCache(parse_address(fleet, tls))


def _serve(store: Store, port: int, status_cache: StatusCache | None) -> None:
    from kit.extra.web.app import make_app
    from kit.extra.web.server import make_server

    token = secrets.token_urlsafe()
    app = make_app(store, token, status_cache)
    server = make_server(app, port)
    click.echo(f"http://127.0.0.1:{server.effective_port}/?token={token}  (stop: Ctrl-C)")
    server.run()  # until it is interrupted
    server.close()
    complain("stopped")
