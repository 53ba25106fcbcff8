"""What Kubernetes takes for a name or a label selector: `settings` checks what is set by it."""

import re

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)

_WORD = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = f"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{_WORD}"
_VALUES = rf"\( *({_WORD})?( *, *({_WORD})?)* *\)"
_REQUIREMENT = f"(! *{_KEY}|{_KEY}( *(=|==|!=) *({_WORD})?| +(in|notin) *{_VALUES})?)"
#: As `kubectl get -l` takes it; without < and >, for which labels are no numbers.
SELECTOR = re.compile(f" *{_REQUIREMENT}( *, *{_REQUIREMENT})* *")
