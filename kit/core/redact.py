"""Passwords and tokens, left out of whatever is said, written to a log or shown. Pure."""

from __future__ import annotations

import logging
import re

HIDDEN = "***"

#: However it goes on before it: PGPASSWORD, GITHUB_TOKEN, X-Amz-Signature. PWD and OLDPWD are directories.
_SECRET = (
    r"(?:password|passwd|passphrase|(?<![a-z])pwd|token|secret|(?:api|access|private)[_-]?key|signature|credentials?)"
)
#: No secret has more characters. Without a bound a text of 20,000 dashes takes half a minute.
_REST = r"\S{0,4000}"
_RULES = (
    # https://TOKEN@host: who one is may be the secret itself. Up to the last "@": a password may hold one, and a slash.
    (re.compile(rf"(?i)\b((?:[a-z]{{1,9}}\+)?(?:https?|ftps?)://)[^\s:@/]{{0,4000}}(?::{_REST})?@"), rf"\1{HIDDEN}@"),
    # scheme://user:password@host, whatever the password holds, also where the rest is no URL.
    (re.compile(rf"(?i)\b([a-z][a-z0-9+.-]{{0,40}}://[^\s:/@]{{0,200}}):{_REST}@"), rf"\1:{HIDDEN}@"),
    # ?password=…, &access_token=…, --token=…, GITHUB_TOKEN='…'
    (re.compile(rf"(?i)({_SECRET}=)(?:'[^']*'|\"[^\"]*\"|[^\s'\"&;,)]+)"), rf"\1{HIDDEN}"),
    # git+ssh://TOKEN@host: no user's name is that long
    (re.compile(r"(?i)\b((?:[a-z]{1,9}\+)?ssh://)[^\s:@/]{20,4000}@"), rf"\1{HIDDEN}@"),
    # A signed address: ?sig=…
    (re.compile(r"(?i)([?&]sig=)[^\s'\"&;,)]+"), rf"\1{HIDDEN}"),
    # password: … in text. Not of words that parsers use: "unexpected token: }"
    (re.compile(r"(?i)\b((?:password|passwd|passphrase|secret)\s?:\s{1,2})[^\s'\"]+"), rf"\1{HIDDEN}"),
    # --password …, --registry-token …: an option and its value as words of their own
    (re.compile(rf"(?i)(--[\w-]{{0,40}}{_SECRET}\s{{1,4}})(?!-)\S{{1,4000}}"), rf"\1{HIDDEN}"),
    # "password": "…" of JSON and Python
    (re.compile(rf"(?i)({_SECRET}(['\"])\s?:\s?(['\"]))(?:(?!\3).)+"), rf"\1{HIDDEN}"),
    # Headers of requests
    (re.compile(r"(?i)\b((?:(?:private|job|deploy|access|auth)-token|x-api-key)\s?:\s?)[^\s'\"]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    # Tokens of GitHub and GitLab, wherever they stand.
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-)[\w-]{16,}"), HIDDEN),
)
#: Where none of these is, no rule fits: most texts are told by one search.
_MAYBE = re.compile(r"(?i)@|=|:|--|bearer|basic|gh[pousr]_|github_pat_|glpat-")


def redact(text: str) -> str:
    """With ``***`` in the place of each password and token."""
    if not _MAYBE.search(text):
        return text
    for pattern, put in _RULES:
        text = pattern.sub(put, text)
    return text


class RedactedFormatter(logging.Formatter):
    """For a log's file: lines, arguments and tracebacks without what ``redact`` takes out."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))
