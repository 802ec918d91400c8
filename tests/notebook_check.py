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


def text_of(cell):
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def has_picture(cell):
    return any("image/png" in output.get("data", {}) for output in cell.outputs)


def cells_with(notebook, beginning):
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.startswith(beginning)]


# ---- as they are written -----------------------------------------------------------------------


def check_exercise(cell, build):
    line, text = cell.source.split("\n", 1)
    _, path, digest = line.split()
    _, chapter, _, title, _ = path.split("/")
    check(hashlib.sha1(text.strip().encode()).hexdigest() == digest, f"{path}: {cell.id}: not the digest of it")
    starter = build / "exercises" / chapter / title / "your_part.c"
    check(text.strip() == starter.read_text().strip(), f"{path}: {cell.id}: not the starter")


def check_file(path, build):
    name = path.name
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    ids = [cell["id"] for cell in json.loads(path.read_text())["cells"]]  # nbformat mends those that are there twice
    runs = cells_with(notebook, f"!make run-{path.stem}")
    stdouts = [file for file in build.glob(f"runs/{path.stem}_*/stdout") if not file.parent.name.endswith(".new")]
    for is_right, what in (
            (notebook.nbformat == 4 and notebook.nbformat_minor == 5, "not nbformat 4.5"),
            (len(set(ids)) == len(ids), "two cells have one id"),
            (path.stat().st_size < MOST_BYTES, f"{path.stat().st_size} bytes, more than {MOST_BYTES}"),
            (cells_with(notebook, "# Run this cell first"), "nothing sets the machine up"),
            (len(runs) == 1, f"{len(runs)} cells run the chapter"),
            (not stdouts or runs and text_of(runs[0]) == stdouts[0].read_text(), "the output is not that of the recorded run")):
        check(is_right, f"{name}: {what}")
    pictures, exercises = cells_with(notebook, "show("), cells_with(notebook, "%%your_part ")
    for cell in pictures:
        check(has_picture(cell), f"{name}: {cell.id} has no picture")
    for cell in exercises:
        check_exercise(cell, build)
    markdown = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    check(markdown.count("<details>") == markdown.count("</details>"), f"{name}: a fold that does not end")
    prose = re.sub(r"^(```+).*?^\1$", "", markdown, flags=re.S | re.M)
    check(not re.search(r"^:::|^#+ .*\{[#.]", prose, re.M), f"{name}: Markdown that only pandoc knows")
    print(f"{name}: valid; {len(notebook.cells)} cells, {len(pictures)} pictures, {len(exercises)} exercises, "
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

    def check_cells(**cells):
        for name, (text, wanted) in cells.items():
            with contextlib.redirect_stdout(io.StringIO()):
                shell.run_cell_magic("your_part", f"your_part.c {digest}", text)
            check(path.read_text() == wanted, f"{name}: the file is now\n{path.read_text()}")

    def kept():
        return [file.read_text() for file in folder.glob("build/replaced/*")]

    solved, again = starter.replace("// YOUR", "return 1; // YOUR"), starter.replace("// YOUR CODE HERE", "return 2;")
    path.write_text(starter)
    check_cells(starter_over_starter=(starter, starter), solution=(solved, solved), starter_over_solution=(starter, solved),
                another_solution=(again, again))
    check(not kept(), "a copy was kept of what cells wrote")
    path.write_text(solved)
    check_cells(starter_over_an_editors=(starter, solved), solution_over_an_editors=(again, again))
    check(kept() == [solved], "the solution from an editor, which a cell replaced, was not kept")
    path.unlink()
    check_cells(starter_where_no_file_is=(starter, starter))
    print("your_part: starters leave solutions alone")


# ---- run ---------------------------------------------------------------------------------------


def last_line(text):
    """Of what a program printed, without the numbers, which may differ."""
    return re.sub(r"[0-9. ]+", " ", text.strip().splitlines()[-1])


def check_run(path):
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    ends = {cell.id: last_line(text_of(cell)) for cell in cells if text_of(cell)}
    recorded = {cell.id for cell in cells if cell.outputs}
    client = nbclient.NotebookClient(notebook, timeout=3600, resources={"metadata": {"path": str(path.parent)}})
    client.execute()  # raises where a cell does
    nbformat.validate(notebook)
    nbformat.write(notebook, path.with_suffix(".run.ipynb"))
    for cell in cells:
        text, source = text_of(cell), cell.source
        end = ends.get(cell.id) and last_line(text)
        for is_right, what in (
                (cell.execution_count, "was not run"),
                (cell.outputs or cell.id not in recorded, "put nothing out"),
                (has_picture(cell) or not source.startswith("show("), "no picture"),
                ("\nmake: ***" not in text or not source.startswith("!make run-"), f"make failed:\n{text[-2000:]}"),
                (end == ends.get(cell.id), f"ends with {end}"),
                ("check failed" in text or not source.startswith("!make exercise-"), "a starter passes")):
            check(is_right, f"{cell.id}: {what}")
    print(f"{path.name}: ran from its first cell to its last")


if __name__ == "__main__":
    what, where = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    if what == "files":
        for file in sorted(where.glob("book/[0-9]*.ipynb")):
            check_file(file, where)
    else:
        {"your_part": check_your_part, "run": check_run}[what](where)
