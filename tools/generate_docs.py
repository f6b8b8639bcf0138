"""Write docs/options.md from the source's table of options."""

from __future__ import annotations

from pathlib import Path

from spark_source.option_table import markdown

PAGE = Path(__file__).resolve().parent.parent / "docs" / "options.md"


def page() -> str:
    """The page's text."""
    return (
        '# Options of `format("tubeclient")`\n\n'
        "Generated from `spark_source/option_table.py` by `make docs`. Names may be written in any case. An unknown "
        "option is an error that names the nearest known one.\n\n" + markdown()
    )


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
