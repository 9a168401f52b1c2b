#!/usr/bin/env python3
"""Keeps the documentation true.

  docs.py run [--write] [PAGE...]   runs the commands of README.md, CONTRIBUTING.md, docs/ and
                                    examples/
  docs.py reference [--write]       compares docs/reference with what the tools say
  docs.py apply PAGE...             makes the changes to the source that pages show

With --write, differences are written into the pages instead of being reported; lines that match
stay as they are, with their wildcards and times.

In a page, a ```sh block is a script that must succeed. In a ```console block, `$ ` starts a command,
which goes on after a backslash and on lines with `> `; what follows is its output: a line `...` stands for any lines, `...` within a line for any text,
and times such as `0.123 s` are not compared. A comment <!-- not run: REASON --> on the line before
a block excepts it. The blocks of a page run in order, in a folder of their own that shows the
repository, with the built tools in PATH.

A ```diff block is a change to files of the repository, `+++ PATH` before the hunks of each, every
hunk behind a line `@@`. `run` looks whether what a hunk takes or keeps stands in the file, in one
place; a hunk that only adds makes a file.
"""

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LLVM = os.environ.get("MLIR_SYS_220_PREFIX", "/usr/lib/llvm-22")
TOOLS = sorted(path.parent.name for path in ROOT.glob("tools/*/Cargo.toml"))
SECONDS = 600
FENCE = re.compile(r"^```(sh|console|diff)\s*$")
EXCEPTED = re.compile(r"^<!-- not run: (.+) -->$")
TIME = re.compile(r"\s+\d+(\.\d+)? s\b")


def tools() -> Path:
    """The folder of the built tools."""
    command = ["cargo", "metadata", "--format-version=1", "--no-deps", "--offline"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folder = Path(json.loads(found)["target_directory"]) / "debug"
    for tool in TOOLS:
        if not (folder / tool).exists():
            sys.exit(f"{folder / tool} is missing; cargo build --workspace --bins makes it")
    return folder


# Blocks of commands


def split(lines: list[str]) -> list[tuple[int, str, list[str]]]:
    """The commands of a console block: index of the line after the command, command, output."""
    found, i = [], 0
    while i < len(lines):
        if not lines[i].startswith("$ "):
            raise ValueError(f"output before the first command: {lines[i]}")
        command = lines[i][2:]
        i += 1
        while i < len(lines) and (command.endswith("\\") or lines[i].startswith("> ")):
            command += "\n" + lines[i].removeprefix("> ")
            i += 1
        start = i
        while i < len(lines) and not lines[i].startswith("$ "):
            i += 1
        found.append((start, command, lines[start:i]))
    return found


def normal(line: str) -> str:
    return TIME.sub(" T s", line.rstrip())


def matches(want: list[str], got: list[str]) -> bool:
    pattern = ""
    for line in want:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in normal(line).split("...")) + r"\n"
    return re.fullmatch(pattern, "".join(normal(line) + "\n" for line in got)) is not None


def merge(want: list[str], got: list[str]) -> list[str]:
    """The output as a page shows it: what matches stays, the rest is what was found.

    >>> merge(["build ...", "...", "cycles: 7", "run  0.1 s", "end"],
    ...       ["build 3 s", "select  0.2 s", "cycles: 8", "run  0.3 s", "extra", "end"])
    ['build ...', '...', 'cycles: 8', 'run  0.1 s', 'extra', 'end']

    A wildcard does not swallow lines that only changed:

    >>> merge(["a: 1", "...", "b: 1"], ["a: 2", "x", "y", "b: 2"])
    ['a: 2', '...', 'b: 2']
    """
    # Cheapest edit from the end on: a line replaced or new costs 1, a line gone 2. Each entry is the
    # cost, and the line to show with the entry that follows it.
    best: dict[tuple[int, int], tuple[int, str | None, tuple[int, int]]] = {}
    for i in range(len(want), -1, -1):
        for j in range(len(got), -1, -1):
            after = lambda cost, line, i, j: (best[i, j][0] + cost, line, (i, j))
            ways = []
            if i < len(want) and want[i].strip() == "...":
                ways.append(after(0, want[i], i + 1, j))
                if j < len(got):
                    ways.append(after(0, None, i, j + 1))
            elif i < len(want) and j < len(got):
                same = matches([want[i]], [got[j]])
                ways.append(after(0 if same else 1, want[i] if same else got[j], i + 1, j + 1))
            if i < len(want):
                ways.append(after(2, None, i + 1, j))
            if j < len(got):
                ways.append(after(1, got[j], i, j + 1))
            best[i, j] = min(ways, key=lambda way: way[0]) if ways else (0, None, (i, j))
    shown, at = [], (0, 0)
    while at != (len(want), len(got)):
        _, line, at = best[at]
        shown += [] if line is None else [line]
    return shown


# Blocks of changes


def hunks(block: list[str]) -> list[tuple[str, list[str], list[str]]]:
    """The hunks of a diff block: file, lines before, lines after."""
    found: list[tuple[str, list[str], list[str]]] = []
    path = ""
    for line in block:
        if line.startswith("+++ "):
            path = line[4:]
        elif line.startswith("@@"):
            found.append((path, [], []))
        elif not found or line[:1] not in ("", " ", "-", "+"):
            raise ValueError(f"not a line of a hunk: {line}")
        else:
            _, before, after = found[-1]
            if not line.startswith("+"):
                before.append(line[1:])
            if not line.startswith("-"):
                after.append(line[1:])
    return found


def change(block: list[str], write: bool) -> list[str]:
    """Looks for the places of the hunks, and changes them on demand; what is wrong."""
    wrong = []
    for path, before, after in hunks(block):
        file = ROOT / path
        if not before:
            if file.exists():
                wrong.append(f"{path} exists")
            elif write:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("\n".join(after) + "\n")
            continue
        lines = file.read_text().splitlines() if file.exists() else []
        n = len(before)
        places = [i for i in range(len(lines) - n + 1) if lines[i : i + n] == before]
        if len(places) != 1:
            wrong.append(f"{path}: {len(places)} places, not one, with the lines")
            wrong += ["    " + line for line in before]
        elif write:
            lines[places[0] : places[0] + n] = after
            file.write_text("\n".join(lines) + "\n")
    return wrong


def apply_pages(pages: list[str]) -> bool:
    wrong = []
    for page in pages:
        lines = iter(Path(page).read_text().splitlines())
        for line in lines:
            if line == "```diff":
                wrong += change(list(iter(lambda: next(lines), "```")), True)
    print("\n".join(wrong or [f"{len(pages)} pages applied"]))
    return not wrong


def run(script: str, folder: Path, path: str) -> tuple[int, list[str]]:
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    environment.update(PATH=path, TERM="dumb", CARGO_TERM_COLOR="never", LC_ALL="C.UTF-8")
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return 124, [f"no end after {SECONDS} s"]
    return done.returncode, done.stdout.decode("utf-8", "replace").rstrip().splitlines()


def run_page(page: Path, path: str, write: bool) -> tuple[int, int, int]:
    """Runs the blocks of a page; commands run, blocks excepted, failures."""
    lines, out = page.read_text().splitlines(), []
    commands = excepted = failures = 0
    name = page.relative_to(ROOT)
    with tempfile.TemporaryDirectory(prefix="ipu-docs-") as folder:
        for entry in ROOT.iterdir():
            if entry.name not in (".git", "target", "out"):
                (Path(folder) / entry.name).symlink_to(entry)
        i = 0
        while i < len(lines):
            out.append(lines[i])
            kind = FENCE.match(lines[i])
            i += 1
            if not kind:
                continue
            first = i
            while lines[i] != "```":
                i += 1
            block = lines[first:i]
            if first >= 2 and EXCEPTED.match(lines[first - 2]):
                excepted += 1
                out += block
                continue
            if kind[1] == "diff":
                wrong = change(block, False)
                if wrong:
                    failures += 1
                    print(f"{name}:{first + 1}: the change does not fit:")
                    print("\n".join("    " + line for line in wrong))
                out += block
                continue
            if kind[1] == "sh":
                commands += 1
                status, got = run("\n".join(block), Path(folder), path)
                if status:
                    failures += 1
                    print(f"{name}:{first + 1}: the block ends with status {status}:")
                    print("\n".join("    " + line for line in got[-30:]))
                out += block
                continue
            done = 0
            for start, command, want in split(block):
                commands += 1
                status, got = run(command, Path(folder), path)
                got = [line.rstrip() for line in got]
                out += block[done:start]
                done = start + len(want)
                same = matches(want, got)
                new = merge(want, got) if write and not same and status == 0 else want
                for line in want:
                    if "..." in line and line not in new:
                        print(f"{name}:{first + start}: a wildcard is gone: {line}")
                out += new
                if status or not (same or write):
                    failures += 1
                    print(f"{name}:{first + start}: `{command}` ends with status {status}; expected and found:")
                    for line in difflib.unified_diff(want, got, lineterm="", n=1):
                        print("    " + line)
    if write and out != lines:
        page.write_text("\n".join(out) + "\n")
        print(f"{name}: rewritten")
    return commands, excepted, failures


def run_pages(pages: list[str], write: bool) -> bool:
    path = f"{tools()}:{os.environ['PATH']}"
    chosen = [Path(p).resolve() for p in pages] or [
        ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "examples").rglob("*.md")),
    ]
    commands = excepted = failures = 0
    for page in chosen:
        c, e, f = run_page(page, path, write)
        commands, excepted, failures = commands + c, excepted + e, failures + f
    print(f"{len(chosen)} pages: {commands} commands run, {failures} failed, {excepted} blocks excepted")
    return failures == 0


# Reference pages


def dialect(name: str) -> str:
    td = ROOT / "dialects" / "td"
    command = [
        f"{LLVM}/bin/mlir-tblgen", "-gen-dialect-doc", f"-dialect={name}",
        f"-I{td}", f"-I{LLVM}/include", str(td / name / f"{name.capitalize()}.td"),
    ]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = re.sub(r"^<!-- Autogenerated.*?-->\n\n?", "", text).replace("[TOC]\n\n", "")
    # Traits and interfaces by their C++ names say nothing to a reader of IR.
    text = re.sub(r"^(Traits|Interfaces|Effects): .*\n\n", "", text, flags=re.M)
    text = re.sub(r"^(### .*) \(::\S+\)$", r"\1", text, flags=re.M)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def passes() -> str:
    """Our passes by name, from the help of ipu-opt."""
    tool = str(tools() / "ipu-opt")
    ask = lambda flag: subprocess.run([tool, flag], capture_output=True, text=True, check=True).stdout
    order = [line.split()[0] for line in ask("--list-passes").splitlines() if line.startswith("ipu-")]
    found: dict[str, tuple[str, list[tuple[str, str]]]] = {}
    current = None
    for line in ask("--help").splitlines():
        entry = re.match(r"^      --(\S+)\s+-   (.*)$", line)
        option = re.match(r"^        --(\S+)\s+- (.*)$", line)
        if entry:
            current = entry[1] if entry[1] in order else None
            if current:
                found[current] = (entry[2], [])
        elif option and current:
            found[current][1].append((option[1], option[2]))
        else:
            current = None
    text = "# Passes\n\nBy name; [architecture.md](../architecture.md) has the pipeline. " \
        "The rest of `ipu-opt --list-passes` is MLIR's own.\n"
    for name in order:
        summary, options = found[name]
        text += f"\n## `{name}`\n\n{summary}.\n"
        if options:
            text += "\n| option | meaning |\n|---|---|\n"
            text += "".join(f"| `{o}` | {meaning} |\n" for o, meaning in options)
    return text


def flags(tool: str) -> str:
    text = subprocess.run([tools() / tool, "--help"], capture_output=True, text=True, check=True,
                          env={**os.environ, "COLUMNS": "100"}).stdout
    return f"# {tool}\n\n```text\n{text.rstrip()}\n```\n"


def reference(write: bool) -> bool:
    folder = ROOT / "docs" / "reference"
    pages = {f"{d}.md": dialect(d) for d in ("nn", "ipu", "tile")}
    pages |= {"passes.md": passes()} | {f"{tool}.md": flags(tool) for tool in TOOLS if tool != "ipu-opt"}
    note = "<!-- Generated by `make docs`; `make test` compares it. -->\n\n"
    different = 0
    for name, text in pages.items():
        page = folder / name
        old = page.read_text() if page.exists() else ""
        if old == note + text:
            continue
        different += 1
        if write:
            folder.mkdir(exist_ok=True)
            page.write_text(note + text)
        else:
            print(f"docs/reference/{name} is out of date; `make docs` rewrites it:")
            diff = difflib.unified_diff(old.splitlines(), (note + text).splitlines(), lineterm="", n=1)
            print("\n".join("    " + line for line in list(diff)[:30]))
    print(f"{len(pages)} reference pages, {different} {'rewritten' if write else 'out of date'}")
    return write or different == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "reference", "apply"])
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_intermixed_args()
    if options.action == "reference":
        return 0 if reference(options.write) else 1
    if options.action == "apply":
        return 0 if apply_pages(options.pages) else 1
    return 0 if run_pages(options.pages, options.write) else 1


if __name__ == "__main__":
    sys.exit(main())
