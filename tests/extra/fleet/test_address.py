"""Who may be spoken to without certificates, and what certificates are worth."""

import stat
from pathlib import Path

import pytest

from kit.core.errors import UsageError
from kit.extra.fleet.address import parse_address
from kit.extra.fleet.certificates import make_certificates


@pytest.mark.parametrize("text", ["127.0.0.1", "localhost:9000", "tcp://127.0.0.1:8786", "[::1]:8786", "127.8.8.8"])
def test_without_certificates_this_machine_alone(text: str) -> None:
    assert parse_address(text, "").url.startswith("tcp://")


@pytest.mark.promise("a fleet", "Without certificates, a fleet stays on this machine.")
@pytest.mark.parametrize(
    "text", ["0.0.0.0", ":8786", "fleet.example.org", "10.0.0.1:8786", "[::]:8786", "tcp://10.1.1.1"]
)
def test_without_certificates_no_other(text: str) -> None:
    with pytest.raises(UsageError, match=r"no fleet without TLS on .*root there"):
        parse_address(text, "")


@pytest.mark.parametrize("text", ["tls://127.0.0.1:99999", "http://127.0.0.1", "127.0.0.1:port"])
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="is not an address of a scheduler"):
        parse_address(text, "/some/dir")


def test_with_certificates_any() -> None:
    assert parse_address("fleet.example.org", "/some/dir").url == "tls://fleet.example.org:8786"
    assert parse_address(":9000", "/some/dir").url == "tls://:9000"
    with pytest.raises(UsageError, match="needs certificates"):
        parse_address("tls://127.0.0.1", "")


def test_keys_are_their_users_alone_and_an_authority_stays(tmp_path: Path) -> None:
    directory = tmp_path / "tls"
    made = make_certificates(directory, 30)
    assert {path.name for path in made} == {path.name for path in directory.iterdir()}
    for path in made:
        assert stat.S_IMODE(path.stat().st_mode) == (0o600 if path.name.endswith("-key.pem") else 0o644)
    before = {path.name: path.read_bytes() for path in made}
    make_certificates(directory, 30)
    after = {path.name: path.read_bytes() for path in made}
    assert {name for name in before if before[name] == after[name]} == {"ca.pem", "ca-key.pem"}


def test_a_key_that_is_none_is_said(tmp_path: Path) -> None:
    directory = tmp_path / "tls"
    make_certificates(directory, 30)
    (directory / "ca-key.pem").write_text("nothing")
    with pytest.raises(UsageError, match=r"ca-key\.pem is not a key"):
        make_certificates(directory, 30)


@pytest.mark.parametrize("port", ["9" * 5_000, "\u0661", "65536", "-1", ""])
def test_a_port_that_is_none_is_said_in_one_line(port: str) -> None:
    with pytest.raises(UsageError, match="is not an address of a scheduler"):
        parse_address(f"127.0.0.1:{port}", "")
