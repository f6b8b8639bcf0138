"""What mkdocs does besides its own work to build the site from docs/.

- Pages of the repository that lie outside docs/ become pages of the site.
- Links to other files of the repository become text that names the file: the site has no such page.
- One page for each public package, from its docstrings. It is no file, because only mkdocs knows
  what its lines mean.
"""

from __future__ import annotations

import importlib
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.api_page import API, names_of

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = {
    "README.md": "overview.md",
    "README.zh-CN.md": "overview.zh-CN.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "SECURITY.md": "SECURITY.md",
    "bench/README.md": "bench.md",
}
"""Files of the repository to pages of the site."""

_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?P<text>!?\[(?:[^\[\]]|\[[^\[\]]*\])*\])\((?P<target>[^)\s:#]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the pages that are not in docs/."""
    for path, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text(encoding="utf-8")))
    for package in API:
        files.append(File.generated(config, f"api/{package}.md", content=_api_page(package)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Turn links within the repository into links within the site."""
    here = page.file.src_uri
    if here == "api.md":
        return re.sub(r"^\| `([\w.]+)\.(\w+)`", r"| [`\1.\2`](api/\1.md#\1.\2)", markdown, flags=re.MULTILINE)
    source = next((path for path, name in OUTSIDE.items() if name == here), f"docs/{here}")
    pieces = _FENCE.split(markdown)
    pieces[::2] = [_LINK.sub(lambda match: _link(match, source, here), piece) for piece in pieces[::2]]
    return "".join(pieces)


def _link(match: re.Match[str], source: str, here: str) -> str:
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match["target"]))
    if path in OUTSIDE:
        target = OUTSIDE[path]
    elif path.startswith("docs/"):
        target = path.removeprefix("docs/")
    elif (ROOT / path).exists():
        return f"{match['text'][1:-1]} (`{path}`)"
    else:
        return match[0]  # mkdocs says that it leads nowhere
    return f"{match['text']}({posixpath.relpath(target, posixpath.dirname(here) or '.')}{match['anchor'] or ''})"


def _api_page(package: str) -> str:
    doc = (importlib.import_module(package).__doc__ or "").strip()
    entries = [f"::: {package}.{name}\n" for name in names_of(package)]
    return f"# `{package}`\n\n{doc}\n\n" + "\n".join(entries)
