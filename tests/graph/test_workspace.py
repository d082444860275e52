"""workspace: clears what carries our mark and nothing else, and two processes never mix."""

import os

import numpy as np
import pytest

from foregather.errors import StorageError
from foregather.graph.graph import Graph
from foregather.graph.on_disk import files
from foregather.graph.on_disk.files import move_new
from foregather.graph.on_disk.workspace import MARK, Workspace
from foregather.graph.on_disk.writer import FolderWriter


def make(path, overwrite=False, value=1):
    with FolderWriter(path, overwrite) as writer:
        writer.put("indptr", np.array([0, value], np.int64))
        writer.put("indices", np.zeros(value, np.uint32))
        writer.finish(1, value)


def tree(folder):
    """Every name below a folder, with the bytes of files and the targets of links."""
    return {
        str(path.relative_to(folder)): os.readlink(path)
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in sorted(folder.rglob("*"))
    }


def plain_renames(monkeypatch):
    """As on a file system that has no renameat2."""
    monkeypatch.setattr(files, "_renameat2", lambda *_: False)


def thesis(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "thesis.txt").write_text("years of work")
    return folder


# ---- what is not ours --------------------------------------------------------------------------


def as_link(tmp_path, partial):
    thesis(tmp_path / "home")
    partial.symlink_to(tmp_path / "home")


def as_folder(tmp_path, partial):
    thesis(partial / "deep")


def as_old_leftover(tmp_path, partial):
    partial.mkdir()
    (partial / ".lock").write_text("")
    (partial / "indices.npy").write_bytes(b"x")


def as_file(tmp_path, partial):
    partial.write_text("a letter")


def with_other_mark(tmp_path, partial):
    thesis(partial)
    (partial / MARK).write_text("something else")


def with_begun_mark(tmp_path, partial):
    thesis(partial)
    (partial / MARK).write_text("")


def with_mark_of_another(tmp_path, partial):
    other = Workspace(tmp_path / "other")
    other.acquire()
    thesis(other.path)
    os.rename(other.path, partial)
    other._release()


def with_linked_mark(tmp_path, partial):
    thesis(partial)
    (tmp_path / "mark").write_bytes(Workspace(tmp_path / "g")._text)
    (partial / MARK).symlink_to(tmp_path / "mark")


def with_folder_as_mark(tmp_path, partial):
    thesis(partial / MARK)


def with_pipe_as_mark(tmp_path, partial):
    partial.mkdir()
    os.mkfifo(partial / MARK)


@pytest.mark.parametrize(
    "prepare",
    [
        as_link,
        as_folder,
        as_old_leftover,
        as_file,
        with_other_mark,
        with_begun_mark,
        with_mark_of_another,
        with_linked_mark,
        with_folder_as_mark,
        with_pipe_as_mark,
    ],
)
def test_what_we_did_not_make_is_refused(tmp_path, prepare):
    prepare(tmp_path, tmp_path / "g.partial")
    before = tree(tmp_path)
    with pytest.raises(StorageError, match=r"^g\.partial exists and was not made by"):
        make(tmp_path / "g")
    assert tree(tmp_path) == before


def test_links_in_our_own_folder_are_removed_but_not_followed(tmp_path):
    thesis(tmp_path / "home")
    work = Workspace(tmp_path / "g")
    work.acquire()
    (work.path / "graph").mkdir()
    (work.path / "graph/away").symlink_to(tmp_path / "home")
    (work.path / "file").symlink_to(tmp_path / "home/thesis.txt")
    (work.path / "dangling").symlink_to(tmp_path / "nowhere")
    work._release()  # as a kill would
    make(tmp_path / "g")
    assert sorted(os.listdir(tmp_path)) == ["g", "home"]
    assert (tmp_path / "home/thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("length", [None, 0, 5])
def test_what_a_kill_left_at_the_start_is_taken_over(tmp_path, length):
    (tmp_path / "g.partial").mkdir()
    if length is not None:
        text = Workspace(tmp_path / "g")._text[:length]
        (tmp_path / "g.partial" / MARK).write_bytes(text)
    make(tmp_path / "g")
    assert os.listdir(tmp_path) == ["g"]


@pytest.mark.parametrize("name", [".", "..", "/"])
def test_targets_without_a_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match="has no file name"):
        make(name)


def test_unusual_names(tmp_path):
    name = os.fsdecode("höhe \n".encode() + b"\xff")
    make(tmp_path / name)
    make(tmp_path / name, overwrite=True)
    assert os.listdir(tmp_path) == [name]


def test_what_a_kill_left_beside_a_complete_target_is_cleared(tmp_path):
    work = Workspace(tmp_path / "g")
    work.acquire()
    work._release()  # as a kill would
    thesis(tmp_path / "h.partial")
    for name in "ghi":
        Workspace(tmp_path / name).clear_left()
    assert os.listdir(tmp_path) == ["h.partial"]
    with Workspace(tmp_path / "g") as held:
        Workspace(tmp_path / "g").clear_left()
        assert held.path.exists()


# ---- the target --------------------------------------------------------------------------------


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("appears", ["folder", "file", "link", "dangling"])
def test_a_target_that_appears_meanwhile_is_kept(tmp_path, monkeypatch, atomic, appears):
    if not atomic:
        plain_renames(monkeypatch)
    thesis(tmp_path / "home")
    with (
        pytest.raises(StorageError, match="g appeared while it was being made, and is kept"),
        FolderWriter(tmp_path / "g") as writer,
    ):
        if appears == "folder":
            thesis(tmp_path / "g")
        elif appears == "file":
            (tmp_path / "g").write_text("a letter")
        else:
            (tmp_path / "g").symlink_to(tmp_path / ("home" if appears == "link" else "nowhere"))
        before = tree(tmp_path / "home"), (tmp_path / "g").lstat()
        writer.finish(0, 0)
    assert (tree(tmp_path / "home"), (tmp_path / "g").lstat()) == before
    assert sorted(os.listdir(tmp_path)) == ["g", "home"]
    if appears == "folder":
        assert (tmp_path / "g/thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_link_is_never_replaced(tmp_path, overwrite):
    make(tmp_path / "real")
    (tmp_path / "g").symlink_to(tmp_path / "real")
    (tmp_path / "h").symlink_to(tmp_path / "nowhere")
    before = tree(tmp_path)
    for name in "gh":
        with pytest.raises(StorageError, match="symbolic link" if overwrite else "exists already"):
            make(tmp_path / name, overwrite, value=3)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "foreign", ["notes.txt", "splits/mine.npy", "extra/deep.npy", ".git/config", "weights.npy"]
)
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_graph_folder_with_something_else_in_it_is_kept(tmp_path, foreign, when):
    make(tmp_path / "g")

    def put():
        (tmp_path / "g" / foreign).parent.mkdir(exist_ok=True)
        (tmp_path / "g" / foreign).write_text("mine")
        return tree(tmp_path / "g")

    before = put() if when == "before" else None
    first = foreign if foreign.startswith(("notes", "splits", "weights")) else foreign.split("/")[0]
    with (
        pytest.raises(StorageError, match=f"g holds {first}.*, which is not part of the graph"),
        FolderWriter(tmp_path / "g", overwrite=True) as writer,
    ):
        before = put()
        writer.finish(0, 0)
    assert tree(tmp_path / "g") == before and os.listdir(tmp_path) == ["g"]


@pytest.mark.parametrize("atomic", [True, False])
def test_what_is_put_into_the_old_graph_at_the_swap_is_kept(tmp_path, monkeypatch, atomic):
    """After the look at it, before the swap: only a second look finds it."""
    make(tmp_path / "g")
    if not atomic:
        plain_renames(monkeypatch)
    from foregather.graph.on_disk import workspace

    real, calls = workspace.exchange, []

    def late(*paths):
        if not calls:
            (tmp_path / "g/notes.txt").write_text("mine")
        calls.append(paths)
        real(*paths)

    monkeypatch.setattr(workspace, "exchange", late)
    with pytest.raises(StorageError, match=r"g holds notes\.txt"):
        make(tmp_path / "g", overwrite=True, value=7)
    assert len(calls) == 2 and os.listdir(tmp_path) == ["g"]
    assert (tmp_path / "g/notes.txt").read_text() == "mine"
    assert Graph.open(tmp_path / "g").num_edges == 1


def test_folders_that_only_look_like_graphs_are_kept(tmp_path):
    for text in ("", "{}", "[]", '{"format": "other"}', '{"format": "foregather-graph"}'):
        folder = thesis(tmp_path / "g")
        (folder / "meta.json").write_text(text)
        with pytest.raises(StorageError, match="is not a graph folder, so it is not replaced"):
            make(folder, overwrite=True)
    assert (tmp_path / "g/thesis.txt").exists()


def test_an_old_graph_stays_where_the_swap_cannot_be_made_durable(tmp_path, monkeypatch):
    from foregather.graph.on_disk import workspace

    make(tmp_path / "g")

    def fail(folder):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(workspace, "sync_folder", fail)
    with pytest.raises(StorageError, match="finishing g failed"):
        make(tmp_path / "g", overwrite=True, value=9)
    with pytest.raises(StorageError, match="finishing h failed"):
        make(tmp_path / "h")
    assert os.listdir(tmp_path) == ["g"] and Graph.open(tmp_path / "g").num_edges == 1


def test_a_swap_of_renames_that_was_cut_short_is_undone(tmp_path, monkeypatch):
    """Killed while the target had no name: the next attempt, of whatever kind, puts it back."""
    make(tmp_path / "g", value=4)
    work = Workspace(tmp_path / "g")
    work.acquire()
    os.rename(tmp_path / "g", work.path / "replaced")
    work._release()
    with pytest.raises(StorageError, match="g exists already"):
        make(tmp_path / "g")
    assert Graph.open(tmp_path / "g").num_edges == 4 and os.listdir(tmp_path) == ["g"]


@pytest.mark.parametrize("atomic", [True, False])
def test_files_move_to_new_names_only(tmp_path, monkeypatch, atomic):
    if not atomic:
        plain_renames(monkeypatch)
    for name in "ab":
        (tmp_path / name).write_text(name)
    with pytest.raises(FileExistsError):
        move_new(tmp_path / "a", tmp_path / "b")
    assert tree(tmp_path) == {"a": b"a", "b": b"b"}
    move_new(tmp_path / "a", tmp_path / "c")
    assert tree(tmp_path) == {"b": b"b", "c": b"a"}
