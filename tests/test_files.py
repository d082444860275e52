"""Files: read only what is a regular file in its folder; written whole, never through a link."""

import errno
import os
import socket

import pytest

from foregather import files
from foregather.errors import FormatError, StorageError
from foregather.files import check_inside, clear_partial, make_inside, read_regular, write_safely


def link(place, tmp_path):
    (tmp_path / "secret").write_text("secret")
    place.symlink_to(tmp_path / "secret")


def listening(place, tmp_path):
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(place.parent)  # names of sockets are short
        made.bind(place.name)
        os.chdir(here)


HOSTILE = {
    "a link out": link,
    "a dangling link": lambda place, _: place.symlink_to("nowhere"),
    "a loop": lambda place, _: place.symlink_to(place.name),
    "a link inside": lambda place, _: place.symlink_to("other"),
    "a pipe": lambda place, _: os.mkfifo(place),
    "a folder": lambda place, _: place.mkdir(),
    "a socket": listening,
    "a link to a device": lambda place, _: place.symlink_to("/dev/zero"),
    "huge": lambda place, _: (place.touch(), os.truncate(place, 1 << 40)),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_not_a_file_of_the_folder_is_refused(tmp_path, what):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "other").write_text("other")
    HOSTILE[what](folder / "name", tmp_path)
    with pytest.raises((FormatError, StorageError), match="^name |cannot open name"):
        read_regular(folder / "name", 1000)


def test_a_device_is_refused(tmp_path):
    try:
        os.mknod(tmp_path / "zero", 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("devices can be made by root only")
    with pytest.raises(FormatError, match="zero is not a regular file"):
        read_regular(tmp_path / "zero", 1000)


def test_no_link_on_the_way_is_followed(tmp_path):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "real" / "deep" / "file").write_text("text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner").symlink_to(tmp_path / "real")
    with pytest.raises(FormatError, match="inner/deep/file is a link, or lies behind one"):
        read_regular(tmp_path / "folder/inner/deep/file", 9, tmp_path / "folder")
    (tmp_path / "name").symlink_to(tmp_path / "real")  # of the folder itself: the caller's word
    assert read_regular(tmp_path / "name/deep/file", 9, tmp_path / "name") == b"text"
    with pytest.raises(StorageError, match="cannot open deep/none: No such file"):
        read_regular(tmp_path / "name/deep/none", 9, tmp_path / "name")
    with pytest.raises(FormatError, match="has 4 bytes, more than the 3"):
        read_regular(tmp_path / "name/deep/file", 3)


def test_a_link_is_replaced_and_not_written_through(tmp_path):
    (tmp_path / "outside").write_text("theirs")
    for target in (tmp_path / "outside", tmp_path / "nowhere"):
        (tmp_path / "name").unlink(missing_ok=True)
        (tmp_path / "name").symlink_to(target)
        write_safely(tmp_path / "name", b"ours")
        assert not (tmp_path / "name").is_symlink()
        assert (tmp_path / "name").read_bytes() == b"ours"
    assert (tmp_path / "outside").read_text() == "theirs"
    assert not (tmp_path / "nowhere").exists()


def test_a_device_or_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "null", "folder"):
        with pytest.raises(StorageError, match=f"{name} is not a regular file"):
            write_safely(tmp_path / name, b"x")
    assert sorted(os.listdir(tmp_path)) == ["folder", "null", "pipe"]
    assert (tmp_path / "null").is_symlink()


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "page.html"
    write_safely(path, b"old")
    (tmp_path / "page.html.partial").write_text("someone's")

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    if call == "write":
        if not os.path.exists("/dev/full"):
            pytest.skip("no /dev/full")
        real = os.open
        monkeypatch.setattr(  # what is written goes to a device that is always full
            files.os,
            "open",
            lambda name, flags, *a, **k: (
                real("/dev/full", os.O_WRONLY) if flags & os.O_EXCL else real(name, flags, *a, **k)
            ),
        )
    else:
        monkeypatch.setattr(files.os, call, full)
    with pytest.raises(StorageError, match="no space left on the disk while writing page.html"):
        write_safely(path, b"new" * 100)
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["page.html", "page.html.partial"]


def test_what_a_killed_process_left_is_cleared_and_nothing_else(tmp_path):
    ours = tmp_path / f".metrics.jsonl.{'0f' * 8}.partial"
    names = [".metrics.jsonl.partial", "metrics.partial", f".x.{'0G' * 8}.partial", "metrics.jsonl"]
    for name in (ours.name, *names):
        (tmp_path / name).write_text("x")
    (tmp_path / f".y.{'0f' * 8}.partial").symlink_to("metrics.jsonl")
    clear_partial(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([*names, f".y.{'0f' * 8}.partial"])


def test_folders_behind_links_are_not_written_to(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "plots").symlink_to("real")
    with pytest.raises(FormatError, match="plots is not a folder"):
        make_inside(tmp_path / "plots")
    make_inside(tmp_path / "new")
    make_inside(tmp_path / "new")
    check_inside(tmp_path / "new")
    (tmp_path / "file").touch()
    for name in ("file", "nothing", "plots"):
        with pytest.raises(FormatError, match="is not a folder"):
            check_inside(tmp_path / name)
