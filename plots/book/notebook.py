# notebook.py: what the cells of a chapter's notebook (notebook.lua) use besides make. Their first cell runs it.
import hashlib
import pathlib

from IPython.core.magic import register_cell_magic
from IPython.display import Image, display


def show(picture):
    """Shows a picture that the run above wrote."""
    if pathlib.Path(picture).exists():
        display(Image(picture))
    else:
        print(f"{picture} is not there. Did the run above end with an error?")


def keep_a_copy(path):
    folder = pathlib.Path("build/replaced") / path.parent
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{path.stem}.{len(list(folder.iterdir())) + 1}{path.suffix}"
    kept.write_text(path.read_text())
    print(f"What was there is kept in {kept}")


def digest(text):
    return hashlib.sha1(text.strip().encode()).hexdigest()


written = {}  # by the cells, since the kernel was started


# %%writefile would do but for "run all" in a new notebook: it would put the starter in place of a solution that the
# reader has written already, here or in an editor. So a cell that nobody has changed replaces only the book's own
# text. A cell that the reader has changed is written, and what it replaces is kept if it is from elsewhere.
@register_cell_magic
def your_part(line, cell):
    """%%your_part FILE DIGEST: writes the cell into FILE. DIGEST is that of the book's starter."""
    name, starter = line.split()
    path = pathlib.Path(name)
    before = path.read_text() if path.exists() else ""
    is_the_books = not before or digest(before) == starter
    if digest(before) == digest(cell):
        print(f"{name}: as in this cell")
    elif digest(cell) == starter and not is_the_books:
        print(f"{name}: a solution of yours is there, and this cell is still the starter, so nothing is written.")
        print("To begin anew, delete the file and run this cell again.")
        return
    else:
        if not is_the_books and digest(before) != written.get(name):
            keep_a_copy(path)
        path.write_text(cell.rstrip() + "\n")
        print(f"{name}: written")
    written[name] = digest(cell)
