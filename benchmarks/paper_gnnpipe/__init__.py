"""GNNPipe's figures, scaled to a small machine."""

from .convergence import ablation, convergence
from .schemes import epoch_time, overhead, volume
from .sizes import chunks, depth, memory

FIGURES = [volume, epoch_time, overhead, convergence, ablation, depth, chunks, memory]
