"""faulty: executors whose reads and writes meet faults, in place of those that a program makes."""

from typing import Any

from foregather import _core
from foregather.gather.disk import DiskFeatures
from foregather.gather.repack import RepackFeatures

__all__ = ["FaultyDisk", "FaultyRepack"]


class FaultyDisk(DiskFeatures):
    """`DiskFeatures` whose reads meet `faults`."""

    def __init__(self, *arguments: Any, faults: Any, **options: Any) -> None:
        self.faults = faults
        super().__init__(*arguments, **options)

    def _open(self, path: str, *arguments: Any, **options: Any) -> Any:
        return open_faulty(self, self.faults, path, *arguments, **options)


class FaultyRepack(RepackFeatures):
    """`RepackFeatures` whose reads of the feature file and writes of scratch files meet faults."""

    def __init__(
        self, *arguments: Any, faults: Any = None, write_faults: Any = None, **options: Any
    ) -> None:
        self.faults, self.write_faults = faults, write_faults
        super().__init__(*arguments, **options)

    def _open(self, path: str, *arguments: Any, **options: Any) -> Any:
        met = self.faults if path == str(self.file.path) else None
        return open_faulty(self, met, path, *arguments, **options)

    def _open_sweeper(self, staging: int, write_bytes: int) -> Any:
        return _core.testing.sweeper(
            self.faults,
            self.write_faults,
            str(self.file.path),
            self.file.name,
            self.file.geometry(),
            staging,
            write_bytes,
            self.backend,
            self._depth,
            self._sums,
        )


def open_faulty(
    disk: DiskFeatures | RepackFeatures,
    faults: Any,
    path: str,
    name: str,
    geometry: _core.Geometry,
    staging: int,
    backend: str,
    sums: Any,
    slots: _core.Slots | None = None,
) -> Any:
    """What `FeatureReader._open` opens, with faults."""
    return _core.testing.disk_gather(
        faults,
        path,
        name,
        geometry,
        disk.num_slots,
        staging,
        backend,
        disk._depth,
        (disk._form, disk._scale),
        disk._threads,
        slots,
        sums,
    )
