"""The site of the documentation (`make docs`) builds, its links resolve, and it loads nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import shell
from bench import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.long]

DOCS = ROOT / "docs"

#: Attributes by which a page loads something at once. A link (`a`) loads nothing.
LOADS = {
    *(("link", "href"), ("script", "src"), ("img", "src"), ("source", "src"), ("iframe", "src")),
    *(("object", "data"), ("image", "href"), ("image", "xlink:href"), ("video", "src")),
}


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Builds pages as `make docs` does."""
    options = re.search(r"-m sphinx (.*?) docs build/docs", (ROOT / "Makefile").read_text(), re.S)
    assert options
    words = options[1].replace("\\\n", " ").replace("build/doctrees", f"{target}.doctrees").split()
    return shell.run(sys.executable, "-m", "sphinx", *words, "-c", DOCS, source, target, cwd=ROOT)


class Page(HTMLParser):
    """Anchors of a page, where its links lead, and what it loads."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            if name in ("href", "src", "xlink:href", "data", "srcset") and value:
                self.links.add(value)
                if (tag, name) in LOADS or name == "srcset":
                    self.loaded.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site") / "html"
    done = build(DOCS, target)
    assert done.returncode == 0, done.stdout
    return target


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in sorted(site.rglob("*.html"))}


def broken(pages: dict[Path, Page]) -> list[str]:
    """Links into the site that lead to no file, or to no anchor of a page."""
    found = []
    for file, page in pages.items():
        for link in sorted(page.links):
            to = urlsplit(link)
            if to.scheme or to.netloc:
                continue
            target = (file.parent / unquote(to.path)).resolve() if to.path else file
            if not target.is_file():
                found.append(f"{file.name}: {link}")
            elif target in pages and unquote(to.fragment) not in pages[target].anchors:
                found.append(f"{file.name}: {link}: no such anchor")
    return found


def test_every_link_into_the_site_resolves(pages: dict[Path, Page]) -> None:
    assert len(pages) > len(list(DOCS.glob("*.md")))
    assert not broken(pages)


def test_every_page_is_in_the_navigation(pages: dict[Path, Page], site: Path) -> None:
    listed = {(site / link).name for link in pages[site / "index.html"].links}
    assert {f"{page.stem}.html" for page in DOCS.glob("*.md")} - {"index.html"} <= listed


def test_nothing_is_loaded_from_another_host(pages: dict[Path, Page], site: Path) -> None:
    for file, page in pages.items():
        for link in page.loaded:
            to = urlsplit(link)
            assert to.scheme in ("", "data") and not to.netloc, f"{file.name}: {link}"
    for file in site.rglob("*.css"):
        for link in re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')\s]+)", file.read_text()):
            assert urlsplit(link).scheme in ("", "data"), f"{file.name}: {link}"


def test_generated_parts_are_there(site: Path) -> None:
    assert not [file.name for file in site.glob("*.html") if "generated:" in file.read_text()]
    commands = (site / "command-line.html").read_text()
    assert "usage: assay history" in commands
    assert "make acceptance" in commands
    assert 'id="assay.run.StrictCheck.measure"' in (site / "api.html").read_text()
    for name, word in (("vocabulary", "cores_per_node"), ("tests", "Tournament"),
                       ("sites", "ibisco"), ("references", "peak_floor")):  # fmt: skip
        assert word in (site / f"{name}.html").read_text(), name


def test_each_fault_of_a_page_is_red_and_named(tmp_path: Path) -> None:
    faults = {
        "[gone](gone.md)": "gone.md",
        "[no such part](#no-such-part)": "'no-such-part'",
        "[no such part of another page](other.md#no-part-there)": "no-part-there",
        "![gone](gone.png)": "gone.png",
        "<!-- generated: nothing -->": "no generated part 'nothing'",
    }
    source = tmp_path / "pages"
    source.mkdir()
    shutil.copytree(DOCS / "style", source / "style")
    text = "\n\n".join(faults)
    (source / "index.md").write_text(f"# Title\n\n{text}\n\n```{{toctree}}\nother\n```\n")
    (source / "other.md").write_text("# Other\n")
    (source / "lost.md").write_text("# In no toctree\n")
    done = build(source, tmp_path / "html")
    assert done.returncode != 0
    for said in (*faults.values(), "lost.md"):
        assert said in done.stdout, done.stdout


def test_the_links_of_a_built_page_are_really_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text('<p id="here"><a href="#here"><a href="#there"><a href="gone.html"></p>')
    assert broken({file: Page(file)}) == [
        "page.html: #there: no such anchor",
        "page.html: gone.html",
    ]
