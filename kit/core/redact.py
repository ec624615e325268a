"""Removes passwords and tokens from output, logs and pages. Pure."""

from __future__ import annotations

import logging
import re
from functools import cache

HIDDEN = "***"

#: Names with any prefix: PGPASSWORD, GITHUB_TOKEN, X-Amz-Signature. PWD and OLDPWD are directories.
_SECRET = (
    r"(?:password|passwd|passphrase|(?<![a-z])pwd|token|secret|(?:api|access|private)[_-]?key|signature|credentials?)"
)
#: Prefixes of known services' tokens.
_TOKENS = r"gh[pousr]_|github_pat_|glpat-|npm_|xox[a-z]-|dckr_pat_|pypi-AgE"
#: No secret has more characters. Without a bound a text of 20,000 dashes takes half a minute.
_REST = r"\S{0,4000}"
_RULES = (
    # https://TOKEN@host: the user name may be the secret. Up to the last "@": a password may contain "@" and "/".
    (rf"(?i)\b((?:[a-z]{{1,9}}\+)?(?:https?|ftps?)://)[^\s:@/]{{0,4000}}(?::{_REST})?@", rf"\1{HIDDEN}@"),
    # scheme://user:password@host, whatever the password holds, also where the rest is no URL.
    (rf"(?i)\b([a-z][a-z0-9+.-]{{0,40}}://[^\s:/@]{{0,200}}):{_REST}@", rf"\1:{HIDDEN}@"),
    # ?password=…, &access_token=…, --token=…, GITHUB_TOKEN='…'
    (rf"(?i)({_SECRET}=)(?:'[^']*'|\"[^\"]*\"|[^\s'\"&;,)]+)", rf"\1{HIDDEN}"),
    # git+ssh://TOKEN@host: no user's name is that long
    (r"(?i)\b((?:[a-z]{1,9}\+)?ssh://)[^\s:@/]{20,4000}@", rf"\1{HIDDEN}@"),
    # A signed address: ?sig=…
    (r"(?i)([?&]sig=)[^\s'\"&;,)]+", rf"\1{HIDDEN}"),
    # password: …, MY_API_KEY: … in text. Not of words that parsers use, "unexpected token: }", nor of /etc/passwd: …
    (
        r"(?i)\b(?<!/)((?:[a-z0-9]{1,40}[_-]){0,6}(?:password|passwd|passphrase|secret|(?:api|access|private|secret)[_-]?key"
        r"|(?<=[_-])token)\s?:\s{1,2})[^\s'\"]+",
        rf"\1{HIDDEN}",
    ),
    # curl -u USER:PASSWORD. Of other programs, docker among them, -u and --user are numbers.
    (
        r"(?i)\b(curl\b[^\n]{0,1000}?(?:-u|--user|--proxy-user)['\",\s=]{0,6}[^\s:'\"]{1,200}:)[^\s'\"]+",
        rf"\1{HIDDEN}",
    ),
    # mysql -pPASSWORD
    (r"\b((?:mysql|mariadb)[\w-]{0,20}\b[^\n]{0,1000}?[\s'\"]-p)(?!thread|ipe\b)[^\s'\"]+", rf"\1{HIDDEN}"),
    # --password …, --registry-token …: an option and its value as words of their own
    (rf"(?i)(--[\w-]{{0,40}}{_SECRET}\s{{1,4}})(?!-)\S{{1,4000}}", rf"\1{HIDDEN}"),
    # "password": "…" of JSON and Python
    (rf"(?i)({_SECRET}(['\"])\s?:\s?(['\"]))(?:(?!\3).)+", rf"\1{HIDDEN}"),
    # Headers of requests
    (r"(?i)\b((?:(?:private|job|deploy|access|auth)-token|x-api-key)\s?:\s?)[^\s'\"]+", rf"\1{HIDDEN}"),
    (r"(?i)\b((?:set-)?cookie2?\s?:\s?)(?:=\"[^\"\r\n]*\"|[^\r\n'\"])+", rf"\1{HIDDEN}"),
    (r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}", rf"\1 {HIDDEN}"),
    # Tokens of GitHub, GitLab, npm, Slack, Docker Hub and PyPI, wherever they are.
    (rf"\b(?:{_TOKENS})[\w-]{{16,}}", HIDDEN),
)
#: If none of these occurs, no rule matches: one search decides most texts.
_MAYBE = rf"(?i)@|=|:|--|bearer|basic|mysql|mariadb|{_TOKENS}"


@cache
def _compiled() -> tuple[re.Pattern[str], tuple[tuple[re.Pattern[str], str], ...]]:
    """Return the search and the rules, compiled on use: each start of the kit and of pytest imports this module."""
    return re.compile(_MAYBE), tuple((re.compile(pattern), replacement) for pattern, replacement in _RULES)


def redact(text: str) -> str:
    """Return the text with ``***`` for each password and token."""
    maybe, rules = _compiled()
    if not maybe.search(text):
        return text
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


class RedactedFormatter(logging.Formatter):
    """A log file's formatter: lines, arguments and tracebacks without what ``redact`` removes."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))
