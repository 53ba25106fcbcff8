import re
from pathlib import Path

DECISIONS = Path(__file__).parents[2] / "docs" / "decisions"


def test_the_index_lists_each_decision_once_by_its_number_and_title() -> None:
    written = {}
    for file in DECISIONS.glob("[0-9]*.md"):
        title = file.read_text().partition("\n")[0].removeprefix("# ")
        written[f"{int(file.name[:4])}. {title}"] = file.name

    index = (DECISIONS / "README.md").read_text()
    listed = re.findall(r"^- \[(.+)\]\((\S+)\)$", index, re.MULTILINE)
    numbers = [file[:4] for file in written.values()]
    assert sorted(listed) == sorted(written.items())
    assert len(numbers) == len(set(numbers))
