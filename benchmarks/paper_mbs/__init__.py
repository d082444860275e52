"""Bulk sampling's figures, scaled to a small machine."""

from .epochs import epoch, epoch_ladies, scaling, within_sampling
from .sweeps import accuracy, bulk_size, features, ladies_reference, quiver, replication

FIGURES = [
    epoch,
    epoch_ladies,
    within_sampling,
    scaling,
    bulk_size,
    replication,
    features,
    ladies_reference,
    accuracy,
    quiver,
]
