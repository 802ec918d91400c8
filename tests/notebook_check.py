"""What book_notebooks.sh checks of notebooks.

    notebook_check.py files BUILD       those in BUILD/book: valid, complete, not too large
    notebook_check.py your_part FOLDER  that the cells of exercises leave solutions alone
    notebook_check.py run NOTEBOOK      executes it where it is, and looks at what comes out
"""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import re
import sys

import nbclient
import nbformat

MOST_BYTES = 3_000_000  # so that editors and Colab open it at once


def check(is_right, what):
    if not is_right:
        sys.exit(f"notebook_check.py: error: {what}")


def sources(notebook, cell_type):
    return [cell.source for cell in notebook.cells if cell.cell_type == cell_type]


def text_of(cell):
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def has_picture(cell):
    return any("image/png" in output.get("data", {}) for output in cell.outputs)


def cells_with(notebook, beginning):
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.startswith(beginning)]


# ---- as they are written -----------------------------------------------------------------------


def check_exercises(name, notebook, build):
    for cell in cells_with(notebook, "%%your_part "):
        line, text = cell.source.split("\n", 1)
        _, path, digest = line.split()
        check(hashlib.sha1(text.strip().encode()).hexdigest() == digest, f"{name}: {cell.id}: not the digest of it")
        _, chapter, _, title, _ = path.split("/")
        starter = build / "exercises" / chapter / title / "your_part.c"
        check(text.strip() == starter.read_text().strip(), f"{name}: {cell.id}: not the starter")


def check_file(path, build):
    name = path.name
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    check(notebook.nbformat == 4 and notebook.nbformat_minor == 5, f"{name}: not nbformat 4.5")
    ids = [cell["id"] for cell in json.loads(path.read_text())["cells"]]  # nbformat mends those that are there twice
    check(len(set(ids)) == len(ids), f"{name}: two cells have one id")
    check(path.stat().st_size < MOST_BYTES, f"{name}: {path.stat().st_size} bytes, more than {MOST_BYTES}")
    check(cells_with(notebook, "# Run this cell first"), f"{name}: nothing sets the machine up")
    number = path.stem
    runs = cells_with(notebook, f"!make run-{number}")
    check(len(runs) == 1, f"{name}: {len(runs)} cells run the chapter")
    stdouts = [file for file in build.glob(f"runs/{number}_*/stdout") if not file.parent.name.endswith(".new")]
    if stdouts:
        check(text_of(runs[0]) == stdouts[0].read_text(), f"{name}: the output is not that of the recorded run")
    for cell in cells_with(notebook, "show("):
        check(has_picture(cell), f"{name}: {cell.id} has no picture")
    markdown = "\n".join(sources(notebook, "markdown"))
    check(markdown.count("<details>") == markdown.count("</details>"), f"{name}: a fold that does not end")
    prose = re.sub(r"^(```+).*?^\1$", "", markdown, flags=re.S | re.M)
    check(not re.search(r"^:::|^#+ .*\{[#.]", prose, re.M), f"{name}: Markdown that only pandoc knows")
    check_exercises(name, notebook, build)
    pictures = len(cells_with(notebook, "show("))
    exercises = len(cells_with(notebook, "%%your_part "))
    print(f"{name}: valid; {len(notebook.cells)} cells, {pictures} pictures, {exercises} exercises, "
          f"{path.stat().st_size / 1e6:.1f} MB{'' if stdouts else '; without a recorded run'}")


# ---- %%your_part -------------------------------------------------------------------------------


def check_your_part(folder):
    helper = pathlib.Path("plots/book/notebook.py").resolve()
    os.environ["IPYTHONDIR"] = str(folder)
    from IPython.core.interactiveshell import InteractiveShell

    os.chdir(folder)
    shell = InteractiveShell.instance()
    shell.run_cell(helper.read_text())
    path, starter = folder / "your_part.c", "int f(void) {\n    // YOUR CODE HERE\n}\n"
    digest = hashlib.sha1(starter.strip().encode()).hexdigest()

    def run_cell(text):
        with contextlib.redirect_stdout(io.StringIO()):
            shell.run_cell_magic("your_part", f"your_part.c {digest}", text)
        return path.read_text()

    solved, again = starter.replace("// YOUR", "return 1; // YOUR"), starter.replace("// YOUR CODE HERE", "return 2;")
    path.write_text(starter)
    check(run_cell(starter) == starter, "the starter is not written over the starter")
    check(run_cell(solved) == solved, "a changed cell is not written")
    check(run_cell(starter) == solved, "the starter took the place of a solution")
    check(run_cell(again) == again, "a cell that was changed again is not written")
    check(not list(folder.glob("build/replaced/*")), "a copy was kept of what cells wrote")
    path.write_text(solved)
    check(run_cell(starter) == solved, "the starter took the place of a solution from an editor")
    check(run_cell(again) == again, "a changed cell is not written over a solution from an editor")
    kept = [file.read_text() for file in folder.glob("build/replaced/*")]
    check(kept == [solved], "the solution from an editor, which a cell replaced, was not kept")
    path.unlink()
    check(run_cell(starter) == starter, "the starter does not come back when the file was deleted")
    print("your_part: starters leave solutions alone")


# ---- run ---------------------------------------------------------------------------------------


def last_line(text):
    """Of what a program printed, without the numbers, which may differ."""
    return re.sub(r"[0-9. ]+", " ", text.strip().splitlines()[-1])


def check_run(path):
    notebook = nbformat.read(path, as_version=4)
    ends = {cell.id: last_line(text_of(cell)) for cell in notebook.cells if cell.cell_type == "code" and text_of(cell)}
    recorded = {cell.id for cell in notebook.cells if cell.cell_type == "code" and cell.outputs}
    client = nbclient.NotebookClient(notebook, timeout=3600, resources={"metadata": {"path": str(path.parent)}})
    client.execute()  # raises where a cell does
    nbformat.validate(notebook)
    nbformat.write(notebook, path.with_suffix(".run.ipynb"))
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        check(cell.execution_count, f"{cell.id} was not run")
        check(not any(output.output_type == "error" for output in cell.outputs), f"{cell.id} ended with an error")
        check(cell.id not in recorded or cell.outputs, f"{cell.id} put nothing out")
        if cell.source.startswith("show("):
            check(has_picture(cell), f"{cell.id}: no picture")
        if cell.source.startswith("!make run-"):
            check("\nmake: ***" not in text_of(cell), f"{cell.id}: make failed:\n{text_of(cell)[-2000:]}")
        if cell.id in ends:
            check(last_line(text_of(cell)) == ends[cell.id], f"{cell.id} ends with {last_line(text_of(cell))}")
        if cell.source.startswith("!make exercise-"):
            check("check failed" in text_of(cell), f"{cell.id}: the check of a starter does not fail")
    print(f"{path.name}: ran from its first cell to its last")


if __name__ == "__main__":
    what, where = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    if what == "files":
        for file in sorted(where.glob("book/[0-9]*.ipynb")):
            check_file(file, where)
    elif what == "your_part":
        check_your_part(where)
    else:
        check_run(where)
