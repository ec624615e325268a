"""A printed command asks for the same session: the command line reads it back."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace

import pytest

from kit.cli.compare import _request, compare
from kit.core.quantity import size
from kit.model.command_line import asked_anew, until_decided_command
from kit.model.options import OPTIONS
from kit.model.session import Request

PLAIN = Request(command=("make", "-j2"), source="/srv/my project", arms=("bare", "layer:overlay2"), size=size("20G"))


def read(command: str) -> Request:
    words = shlex.split(command)
    assert words[:2] == ["kit", "compare"]
    context = compare.make_context("compare", words[2:])
    return _request(context.meta.get("kit.command", ()), context.params)


@pytest.mark.parametrize(
    "request_",
    [
        PLAIN,
        replace(PLAIN, rounds=2, seed=7, precision=0.02, image="./cmake.tar", rerun=False, title="our build"),
        replace(PLAIN, margin=0.005, timeout=5400.0, control=False, cache="cold", interleave="0.5s"),
        replace(PLAIN, control=True, fresh=True, size=size("3G"), mount=(("ext4", "noatime"),), labels=(("pr", "17"),)),
        Request(scenario="kernel:short", params=(("jobs", "1,2"), ("copies", "2")), arms=("bare",), size=size("20G")),
        Request(commands=(("a", "make -j2"), ("b", "CC=clang make")), arms=("bare",), size=size("1536M")),
        replace(PLAIN, revisions=(("old", "a" * 40), ("new", "b" * 40)), explain_calls=True),
        replace(PLAIN, guest="qemu", guest_memory=size("2G"), guest_cores=2),
    ],
)  # fmt: skip
def test_the_command_is_read_back_as_the_request(request_: Request) -> None:
    command = until_decided_command(request_, "35m")
    assert replace(read(command), budget=None) == asked_anew(request_)
    assert read(command).budget == 2100


def test_what_no_command_line_says_is_not_printed() -> None:
    assert until_decided_command(replace(PLAIN, profiles=(("mine", "x"),)), "5m") == ""
    assert until_decided_command(replace(PLAIN, suite="20261101-000000-aaaa/1"), "5m") == ""


def test_a_new_field_of_a_request_is_not_forgotten() -> None:
    others = {
        "scenario", "params", "command", "arms", "mkfs", "mount", "profiles", "export", "device", "thin_device",
        "guest_memory", "guest_cores", "load_params", "suite", "test",
    }  # fmt: skip
    assert {field.name for field in fields(Request)} == {*OPTIONS, *others}
