"""GNNPipe's figures, scaled to a small machine."""

from .convergence import ablation, convergence
from .schemes import chunks, depth, epoch_time, memory, overhead, volume

FIGURES = [volume, epoch_time, overhead, convergence, ablation, depth, chunks, memory]
