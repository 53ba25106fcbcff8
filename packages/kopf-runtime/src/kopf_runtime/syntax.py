"""Patterns of the names, images and label selectors that Kubernetes accepts, for `parsers`."""

import re

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
SUBDOMAIN = re.compile(f"(?=.{{1,253}}$){SUBDOMAIN_PATTERN}")

_WORD = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = f"({SUBDOMAIN_PATTERN}/)?{_WORD}"
_VALUES = rf"\( *({_WORD})?( *, *({_WORD})?)* *\)"
_REQUIREMENT = f"(! *{_KEY}|{_KEY}( *(=|==|!=) *({_WORD})?| +(in|notin) *{_VALUES})?)"
#: A selector as in `kubectl get -l`, without < and >, which compare numbers. The chart's schema has
#: the same pattern; Go supports no lookahead, so a separate pattern checks the length.
SELECTOR = re.compile(f" *{_REQUIREMENT}( *, *{_REQUIREMENT})* *")
#: A label's prefix in a selector that is longer than a subdomain's 253 characters.
LONG_PREFIX = re.compile("[-a-z0-9.]{254}/")

_PATH = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(:[0-9]+)?"
_DIGEST = "sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}"
#: An image name as in a Pod (github.com/distribution/reference, regexp.go).
IMAGE = re.compile(
    f"({_HOST}/)?{_PATH}(/{_PATH})*(:[A-Za-z0-9_][-A-Za-z0-9_.]{{0,127}})?(@({_DIGEST}))?"
)
