# Shared by the scripts that check the documentation: its pages, and a tally, which prints results as they come, and their sum at
# the end.
#
# DAYFLY_TALLY  file that gets one line `passed failed skipped`

import os
import re

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def pages():
    docs = sorted(f"docs/{name}" for name in os.listdir(f"{TOP}/docs") if name.endswith(".md"))
    return ["README.md", *docs]


def read(page):
    with open(f"{TOP}/{page}", encoding="utf-8") as file:
        return file.read()


def anchor(heading):
    """The form of a heading in links."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def prose(page):
    """A page with a word in place of each piece of code."""
    return re.sub(r"^```.*?^```|^    [^\n]*$|`[^`]*`", "code", read(page), flags=re.S | re.M)


def links(page):
    """What a page links to in the repository: paths, with anchors."""
    return [target for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", prose(page)) if not re.match(r"[a-z]+:", target)]


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        # Opened now: the examples cover directories.
        self.file = open(os.environ.get("DAYFLY_TALLY") or os.devnull, "a", encoding="ascii")

    def tells(self, name, failures):
        """A test that has passed if there are no failures."""
        if failures:
            self.fails(name, lines=failures)
        else:
            self.passes(name)

    def passes(self, name, note=""):
        self.passed += 1
        print(f"test {name} ... ok{note}", flush=True)

    def fails(self, name, why=None, lines=()):
        self.failed += 1
        print(f"test {name} ... FAILED" + (f": {why}" if why else ""), flush=True)
        for line in lines:
            print(f"    {line}", flush=True)

    def skips(self, name, reason):
        self.skipped += 1
        print(f"test {name} ... skipped: {reason}", flush=True)

    def end(self, title):
        """Prints the sum, adds it to the file; the exit status."""
        print(f"{title}: {self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        self.file.write(f"{self.passed} {self.failed} {self.skipped}\n")
        self.file.close()
        return 1 if self.failed else 0
