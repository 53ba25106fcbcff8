from pathlib import Path

from runtime import public

LIST = Path(__file__).parents[2] / "public.txt"


def test_what_is_public_changes_only_in_sight_of_a_review() -> None:
    """docs/decisions says what is public; `public.py` says how to write the list again."""
    assert "\n".join(public.lines()) + "\n" == LIST.read_text()
