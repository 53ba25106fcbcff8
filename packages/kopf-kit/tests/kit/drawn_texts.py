"""Draws texts in YAML as people write it, and as nobody should: most can be read, some cannot."""

import random
import re

_NUMBERS = (
    *("08", "0777", "0o17", "1_000", "1:30", "22:30:15", "1e999", "0b11", "-0x1F", "1e6", "1.0"),
    *("+.5", "._5", ".1_0", "0x", "-0o17", "1.e5", "1_0.5", "_1", "1_", "00"),
    *("0.000001", "1e20", "1e21", "12e", "0b2", "1" * 25, "9" * 5000, "0x" + "f" * 17, "1,000"),
    *(str(sign * 2**bits + more) for sign in (1, -1) for bits in (53, 63, 64) for more in (-1, 0)),
    *("1.7976931348623157e308", "1.5", "0" * 300 + "7", "2026-11-29", "2026-1-1 1:2:3"),
)
_WORDS = (
    *("yes", "No", "on", "OFF", "y", "N", "true", "tRue", "null", "NULL", "~", "=", "<<", "a b"),
    *("http://x/?y", "a#b", "가", "Infinity", "NaN", "null null", "-a", "a:b", "x" * 3000, "", "a"),
)
_ODD = (".inf", "-.INF", ".nan", "-", "?a", "@a", "`a", "%a", "&", "*", "|", ">", "- a", "a: b")
_TAGS = ("str", "map", "seq", "set", "merge")
_ESCAPES = (
    *(r"\0", r"\t", r"\e", r"\x41", r"\xe9", r"\u00e9", r"\U0001F600", r"\N", r"\_", r"\L", r"\P"),
    *("\\ ", "\\\n    ", r"\"", r"\\", r"\v", "\n    ", "\n\n    ", "a", ": ", "#", "\t", "가"),
)
#: One of a few in place of a letter, or beside it.
_STRAY = "\t \n:#-?[]{},&*!|>'\"%@`~=\\\x85\u2028\xa0가😀0ae.<"
#: Where a tag or a key without a space ends, libyaml has changed, and Go's port of it has not.
_CHANGED = re.compile(r"![^\s]*[\[\]{},]|:[\[\]{},]")
_BETWEEN = ("%YAML 1.1\n---\n", "--- # c\n", "---\t\n", "---\n---\n", "...\n---\n", "--- {}\n")
_AFTER = ("...\n", "---\n", "...\nrest: [\n", "\n\n", "   ", "# c", "...\na: 1\n")


class Texts:
    """Draws documents from a seed."""

    def __init__(self, seed: object) -> None:
        self.rng = random.Random(str(seed))  # noqa: S311
        self._names: list[str] = []

    def _likely(self, share: float) -> bool:
        return self.rng.random() < share

    def stream(self, *heads: str) -> str:
        """Return documents that begin with these lines, each with a `spec`."""
        rng, text = self.rng, "\ufeff" if self._likely(0.05) else ""
        for number, head in enumerate(heads):
            if number or self._likely(0.2):
                mark = "\ufeff" if number and self._likely(0.1) else ""
                text += rng.choice(_BETWEEN) if self._likely(0.2) else f"---\n{mark}"
            self._names = []
            text += head + self._spec()
        text += rng.choice(_AFTER) if self._likely(0.2) else ""
        return text.replace("\n", "\r\n") if self._likely(0.05) else text

    def _spec(self) -> str:
        rng = self.rng
        if self._likely(0.1):
            return f"spec: {self._node(2, 3, flow=True)}\n"
        text = self._block(2, 3)
        if self._likely(0.2):
            at, stray = rng.randrange(2, len(text) + 1), rng.choice((*_STRAY, ""))
            changed = text[:at] + stray + text[at + rng.choice((0, 1)) :]
            text = text if _CHANGED.search(changed) else changed
        return f"spec:\n{text}\n"

    def _block(self, indent: int, depth: int) -> str:
        lines, is_list = list[str](), self._likely(0.4)
        for number in range(self.rng.randint(1, 4)):
            if number and self._likely(0.1):
                lines.append(self.rng.choice(("# c", "", "  ", "    # c")))
            part = (
                f"- {self._node(indent + 2, depth)}"
                if is_list
                else self._pair(indent, depth, False)
            )
            after = self.rng.choice((" ", "\t", " # c")) if self._likely(0.05) else ""
            lines.append(" " * indent + part + after)
        return "\n".join(lines)

    def _pair(self, indent: int, depth: int, flow: bool) -> str:
        choice = self.rng.choice
        if self._likely(0.1):
            former = [f"*{name}" for name in self._names] or ["{z: 1}"]
            merged = choice(
                ("{z: 1, x: 2}", "[{z: 1}, {z: 2}]", choice(former), f"[{choice(former)}]")
            )
            key = choice(('"<<"', "!!merge <<", "! <<", "&a <<")) if self._likely(0.2) else "<<"
            return f"{key}: {merged}"
        if self._likely(0.1):
            end = " " if flow else "\n" + " " * indent
            return f"? {self._scalar(indent, True)}{end}: {self._node(indent, depth, flow)}"
        key = choice((*"xyz", choice(_NUMBERS + _WORDS), f'"{choice(_ESCAPES[:11])}"'))
        return f"{key or 'a'}: {self._node(indent, depth, flow)}"

    def _node(self, indent: int, depth: int, flow: bool = False) -> str:
        rng, before = self.rng, ""
        if self._names and self._likely(0.1):
            return f"*{rng.choice(self._names)}"
        if self._likely(0.12):
            tags = [f"!!{rng.choice(_TAGS)}"] if self._likely(0.3) else ["!", "!x", "!!str"]
            before = f"{rng.choice(tags)} "
        name = rng.choice("abc") if self._likely(0.2) else ""
        before += f"&{name} " if name else ""
        if depth and self._likely(0.5):
            flow = flow or self._likely(0.4)
            if not flow:
                text = "\n" + self._block(indent + rng.choice((2, 2, 1, 4)), depth - 1)
            elif self._likely(0.5):
                within = [self._node(indent, depth - 1, flow) for _ in range(rng.randint(0, 3))]
                text = f"[{', '.join(within)}]"
            else:
                within = [self._pair(indent, depth - 1, flow) for _ in range(rng.randint(0, 3))]
                text = f"{{{', '.join(within)}}}"
        else:
            text = self._scalar(indent, flow)
        self._names += [name] * bool(name)
        return before + text

    def _scalar(self, indent: int, flow: bool) -> str:
        rng, kind = self.rng, self.rng.random()
        if kind < 0.45:
            return rng.choice(_NUMBERS + _WORDS) if self._likely(0.97) else rng.choice(_ODD)
        if kind < 0.6:
            letters = rng.choices("+-.0123456789_eExXoObBaf:TZ", k=rng.randint(1, 7))
            return "".join(letters).strip(":-") or "1"
        if kind < 0.75:
            odd = rng.choice((r"\/", r"\q", r"\x4", r"\ud83d")) if self._likely(0.05) else ""
            return f'"{"".join(rng.choices(_ESCAPES, k=rng.randint(0, 4)))}{odd}"'
        if kind < 0.85 or flow:
            within = rng.choices(("a", "''", "\\", ": ", " #", "0x1F"), k=rng.randint(0, 3))
            return f"'{''.join(within)}'"
        header = rng.choice("|>") + rng.choice(("", "+", "-", "2", "2-", "+2", " # c", "1", "3"))
        lines = rng.choices(
            ("a", "  b", "", "\tc", "# d", "- e", "f: 1", "x  "), k=rng.randint(0, 4)
        )
        return header + "".join(f"\n{' ' * (indent + 2)}{line}".rstrip(" ") for line in lines)
