"""``kit image``: build, save, list, rm."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kit.cli.completion import complete_cached_images, complete_images
from kit.cli.options import cache_from_option, check_writable, json_option, wait_option, write_json

if TYPE_CHECKING:
    from kit.arms.image import Image


@click.group(epilog="\b\nExamples:\n  kit image build kernel\n  kit image list\n  kit image rm kernel")
def image() -> None:
    """Build, save, list and remove images.

    A scenario builds its image when it first needs it."""


@image.command(
    epilog="\b\nExamples:\n  kit image build kernel\n  kit image build ./rootfs.tar.xz\n"
    "  kit image build ./layout:latest\n  kit image build debian:12"
)
@click.argument("name", shell_complete=complete_images)
@click.option("--force", is_flag=True, help="Rebuild, even if a cache has the image.")
@wait_option
@cache_from_option
def build(name: str, force: bool, wait: bool, cache_from: tuple[str, ...]) -> None:
    """Build or fetch an image.

    NAME is a recipe, a file or OCI layout on disk (PATH, or PATH:NAME for one of several images), or a registry
    reference."""
    built = _made(name, force, wait, cache_from)
    click.echo(f"{built.name} {built.digest} {built.size / 2**20:.0f} MiB")


@image.command(
    epilog="\b\nExamples:\n  kit image save smoke smoke.tar\n  docker load --input smoke.tar\n"
    "  kit image save smoke smoke.tar --tag registry.example.org/smoke:1"
)
@click.argument("name", shell_complete=complete_images)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--tag", metavar="REFERENCE", default="", help="Name of the image in the archive.  [NAME:latest]")
@wait_option
@cache_from_option
def save(name: str, file: Path, tag: str, wait: bool, cache_from: tuple[str, ...]) -> None:
    """Write an image into FILE, for docker load.

    NAME is as for kit image build, which makes an image that is missing."""
    from kit.arms.image.save import reference, save_image

    check_writable(str(file))  # this and the next line before anything is built
    tagged = reference(tag or name)
    save_image(_made(name, False, wait, cache_from), file, tagged)
    click.echo(f"{file}: {tagged}, {file.stat().st_size / 2**20:.0f} MiB")


def _made(name: str, force: bool, wait: bool, cache_from: tuple[str, ...]) -> Image:
    """Return the image that ``name`` means, after making it if it is missing or ``force``."""
    from kit.arms.image import ImageCache
    from kit.core.paths import find_paths
    from kit.host.interrupt import interruptible
    from kit.host.remote_cache import use_peers
    from kit.report.text.progress import make_observer
    from kit.session.execute.materials import named_image
    from kit.session.execute.session_loop import held_machine

    use_peers(cache_from)
    paths = find_paths()
    cache = ImageCache(paths.cache)
    observer = make_observer(False)
    try:
        # Control groups are the machine's: in a container, which has a lock of its own, another kit may build too.
        with held_machine(f"image-build-{os.getpid()}", paths, wait, observer), interruptible():
            return named_image(name, cache, observer, force)
    finally:
        observer.close()


@image.command("list", epilog="\b\nExamples:\n  kit image list --json")
@json_option
def list_(json_file: str) -> None:
    """List cached images, newest first, and recipes."""
    from tabulate import tabulate

    from kit.arms.image import ImageCache, recipes
    from kit.core.paths import find_paths
    from kit.report.format.units import moment

    images = ImageCache(find_paths().cache).list()
    if json_file:
        write_json(json_file, {"schema": 1, "images": [asdict(image) for image in images]})
    if json_file == "-":
        return
    rows = [
        [image.name, image.digest[:12], f"{image.size / 2**20:.0f} MiB",
         moment(image.created), image.origin]
        for image in images
    ]  # fmt: skip
    built = {image.name for image in images}
    rows += [[name, "not built", "", "", f"recipe {name}"] for name in recipes() if name not in built]
    click.echo(tabulate(rows, ["image", "digest", "size", "created (UTC)", "origin"]))


@image.command(epilog="\b\nExamples:\n  kit image rm kernel\n  kit image rm 7067e11debe3")
@click.argument("names", nargs=-1, required=True, shell_complete=complete_cached_images)
def rm(names: tuple[str, ...]) -> None:
    """Remove images by name or digest."""
    from kit.arms.image import ImageCache
    from kit.core.paths import find_paths

    cache = ImageCache(find_paths().cache)
    for name in names:
        for gone in cache.remove(name):
            click.echo(f"removed {gone.name} {gone.digest[:12]}")
