"""Old checkpoints go only where newer ones were read back; nothing that is no checkpoint goes."""

import os
import shutil

import pytest

from foregather.errors import StorageError
from foregather.train.checkpoints import checkpoint
from foregather.train.checkpoints.checkpoint import list_checkpoints, read_checkpoint
from foregather.train.runs.run import Run
from tests.train.runs import settings_of, small_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_folder(tmp_path_factory)


@pytest.fixture
def run(folder, tmp_path):
    with Run.create(settings_of(folder, tmp_path / "r"), say=lambda text: None) as made:
        yield made


def save_at(run, epoch, keep):
    """Saves as if this many epochs were done."""
    object.__setattr__(run.settings.checkpoint, "keep", keep)
    run.trainer.history[:] = [{"epoch": number + 1} for number in range(epoch)]
    run.trainer.training.loader.set_epoch(epoch)
    return run.save()


def cut(path, whole):
    path.write_bytes(whole.read_bytes()[:-7])


def flip(path, whole):
    data = bytearray(whole.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


DAMAGED = {
    "truncated": cut,
    "flipped": flip,
    "empty": lambda path, whole: path.touch(),
    "foreign": lambda path, whole: path.write_text("notes of a colleague"),
    "huge": lambda path, whole: (path.touch(), os.truncate(path, 1 << 40)),
    "a link": lambda path, whole: path.symlink_to(whole),
    "a dangling link": lambda path, whole: path.symlink_to("nowhere"),
    "a pipe": lambda path, whole: os.mkfifo(path),
    "a folder": lambda path, whole: (path.mkdir(), (path / "notes").write_text("x")),
}


@pytest.mark.slow
@pytest.mark.parametrize("keep", [1, 2, 3])
@pytest.mark.parametrize("kind", DAMAGED)
def test_what_cannot_be_read_does_not_count_and_does_not_go(run, keep, kind):
    places = run.folder / "checkpoints"
    whole = save_at(run, 1, 9)
    strange = [places / f"checkpoint-{number:08d}-00000000.safetensors" for number in (2, 7, 8, 9)]
    for path in strange:
        DAMAGED[kind](path, whole)
    written = [save_at(run, epoch, keep) for epoch in (3, 4, 5)]
    assert [path for path in written if path.exists()] == written[-keep:]
    for path in written[-keep:]:
        read_checkpoint(path)
    for path in strange:
        assert os.path.lexists(path), "what was not read back is nobody's to remove"
    assert not whole.exists() and os.path.lexists(strange[0])


@pytest.mark.parametrize("keep", [1, 2])
def test_a_whole_checkpoint_of_others_does_not_push_out_the_new_one(run, keep):
    whole = save_at(run, 1, 9)
    later = whole.with_name("checkpoint-00000099-00000000.safetensors")
    shutil.copyfile(whole, later)
    written = save_at(run, 2, keep)
    assert written.exists() and later.exists() == (keep == 2)


def test_what_was_damaged_after_it_was_written_does_not_count(run):
    first, second = save_at(run, 1, 2), save_at(run, 2, 2)
    data = second.read_bytes()
    second.write_bytes(data[:-9])
    third = save_at(run, 3, 2)
    assert [path.exists() for path in (first, second, third)] == [True, True, True]
    second.write_bytes(data)  # restored: it counts again
    save_at(run, 4, 2)
    assert not first.exists() and not second.exists() and third.exists()


def test_a_disk_that_gives_back_other_bytes(run, monkeypatch):
    before = save_at(run, 1, 1)
    real = checkpoint.write_safely

    def lying(path, data):
        real(path, data[:-1] + bytes([data[-1] ^ 1]))

    monkeypatch.setattr(checkpoint, "write_safely", lying)
    with pytest.raises(StorageError, match="holds other bytes than were written, from byte"):
        save_at(run, 2, 1)
    monkeypatch.undo()
    assert before.exists() and read_checkpoint(before)


def test_what_a_killed_process_left_goes(run):
    places = run.folder / "checkpoints"
    left = places / "checkpoint-00000003-00000000.partial"
    left.mkdir()
    (left / "shared.safetensors").touch()
    theirs = [places / "notes.partial", places / "x.safetensors"]
    for path in theirs:
        path.touch()
    outside = run.folder.parent / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    linked = places / "checkpoint-00000004-00000000.partial"
    linked.symlink_to(outside)
    save_at(run, 1, 1)
    assert not left.exists() and all(path.exists() for path in theirs)
    assert (outside / "kept").exists()
    assert len(list_checkpoints(places)) == 1
