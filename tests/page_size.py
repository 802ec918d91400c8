#!/usr/bin/env python3
"""page_size.py [BUILD]: how much a reader of each chapter meets, beside what was planned.

Minutes to read what is not folded, 150 words of prose a minute and 8 seconds a line of code; these words and lines, and
lines of output; words that are folded, files that teach (in the chapter's folder itself; a .c and its .h are one), lines
in behind/, and lines that the recorded run printed. Pages are in
BUILD/book, runs in BUILD/runs. A ! marks what is more than 1.15 times its target; that is no error, so the status is 0 all the same.
"""
import sys
from html.parser import HTMLParser
from math import ceil
from pathlib import Path

# chapter: minutes, files, lines of a default run
TARGETS = {"00": (25, 8, 40), "01": (35, 8, 40), "02": (20, 8, 40), "03": (20, 8, 40), "04": (35, 8, 40),
           "05": (35, 8, 40), "06": (35, 8, 60), "07": (35, 8, 60), "08": (35, 10, 60), "09": (35, 8, 60)}
BEHIND, ROOM = 600, 1.15

VOID = set("area br col hr img input link meta source wbr".split())
SKIPPED = set("annotation nav script style svg template".split())
ENDS_WORD = VOID | set("p li tr td th dt dd h1 h2 h3 h4 h5 h6 div pre figcaption summary button".split())


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.open = [("", None, False)]  # of each element: its tag, what kind of text is in it, whether it is folded
        self.texts, self.block = ["", ""], ""  # prose, then what of it is folded
        self.lines = {"code": 0, "output": 0}
        self.feed(path.read_text(encoding="utf-8"))
        self.words, self.folded_words = (len(text.split()) for text in self.texts)

    def handle_starttag(self, tag, attributes):
        if tag in ENDS_WORD:
            self.texts = [f"{text} " for text in self.texts]
        if tag in VOID:
            return
        attributes = dict(attributes)
        classes = (attributes.get("class") or "").split()
        _, kind, folded = self.open[-1]
        if tag in SKIPPED or tag == "main":
            kind = "prose" if tag == "main" else None
        elif kind == "prose" and (tag == "pre" or "code" in classes or "output" in classes):
            kind = "output" if "output" in classes else "code"
        folded |= tag == "details" and "open" not in attributes or "hidden" in attributes or "pytorch" in classes
        self.open.append((tag, kind, folded))
        if tag in ("p", "pre"):
            self.block = ""

    def handle_data(self, data):
        self.block += data
        _, kind, folded = self.open[-1]
        if kind == "prose":
            self.texts[folded] += data

    def handle_endtag(self, tag):
        if tag not in (element[0] for element in self.open):
            return
        while self.open[-1][0] != tag:  # its end may be left out: <p>, <li>
            self.open.pop()
        kind, folded = self.open.pop()[1:]
        if kind in self.lines and not folded:
            self.lines[kind] += {"pre": len(self.block.strip("\n").split("\n")), "tr": 1, "p": ceil(len(self.block) / 100)}.get(tag, 0)


def lines_of(*paths):
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths if path.exists())


build = Path(sys.argv[1] if len(sys.argv) > 1 else "build")
heads = ("minutes", "words", "code", "output", "folded words", "files", "behind/", "printed")
print(f"{'chapter':<28}" + "".join(f"{head + ' ':>14}" for head in heads))
for folder in sorted(path.parent for path in Path("chapters").glob("[0-9]*/main.c")):
    number = folder.name[:2]
    try:
        page = Page(build / "book" / f"{number}.html")
    except FileNotFoundError as missing:
        sys.exit(f"page_size: error: {missing}\nhint: make book, or name the build: python3 tests/page_size.py BUILD")
    minutes, files, printed = TARGETS.get(number, (0, 0, 0))
    beside, behind = ([path for path in where.glob("*") if path.suffix in (".c", ".h", ".cu")]
                     for where in (folder, folder / "behind"))
    reading = round(page.words / 150 + page.lines["code"] * 8 / 60)
    columns = ((reading, minutes), (page.words, 0), *((lines, 0) for lines in page.lines.values()), (page.folded_words, 0), (len({path.stem for path in beside}), files),
               (lines_of(*behind), BEHIND), (lines_of(build / "runs" / folder.name / "stdout"), printed))
    print(f"{folder.name:<28}" + "".join(
        (f"{value:,}" + (f" / {target:,}{'!' if value > ROOM * target else ' '}" if target else " ")).rjust(14)
        for value, target in columns))
