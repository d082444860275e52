"""line: the line between ranks as forecasts and simulations see it: latency, rate and work."""

import re
from dataclasses import dataclass

from foregather.errors import InputError
from foregather.units import parse_size

__all__ = ["Line"]

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, slots=True)
class Line:
    """What a line between two ranks does; a rank sends and receives at the same time.

    Attributes:
        latency: seconds before the first byte of a message arrives.
        rate: bytes per second.
        work: seconds per byte that sending takes from the rank's computing, and receiving as much.
        call: seconds that sending takes from the rank's computing whatever the bytes, and receiving
            as much; messages that are sent or received one after the other share them.
        one_way: bytes per second while a rank only sends or only receives; None: the same.
        cores: ranks that can compute at the same time, where all share one machine with fewer cores
            than they would use; None: all of them.
        burst: bytes that pass faster after a pause, as shaped links let them; they are saved up at
            the rate. Simulations count it, forecasts do not.
        peak: bytes per second while some of them are left; None: the rate.
    """

    latency: float = 50e-6
    rate: float = 1.25e9
    work: float = 0.0
    one_way: float | None = None
    cores: int | None = None
    burst: float = 0.0
    peak: float | None = None
    call: float = 0.0

    def __post_init__(self) -> None:
        if not (self.latency >= 0 and self.rate > 0 and min(self.work, self.call) >= 0):
            raise InputError(
                f"a line of {self.rate} bytes per second, {self.latency} s, {self.work} s per byte "
                f"and {self.call} s per call, expected a rate above 0, and the others of 0 or more"
            )
        if not (self.burst >= 0 and (self.peak is None or self.peak > 0)):
            raise InputError(
                f"a line with a burst of {self.burst} bytes at {self.peak} bytes per second, "
                "expected a burst of 0 or more, and a peak rate above 0, or None"
            )
        if self.cores is not None and self.cores < 1:
            raise InputError(f"cores is {self.cores}, expected at least 1, or None")

    @staticmethod
    def parse(text: str) -> "Line":
        """From "25GB/s,2us" or "1Gbit/s,50us".

        Raises:
            InputError: the text is not a rate above 0 and a latency.
        """
        rate, _, wait = (part.strip() for part in text.partition(","))
        found = re.fullmatch(r"([0-9.]+)\s*(s|ms|us|ns)", wait)
        if found is None or not rate.endswith("/s"):
            raise InputError(
                f"link is {text!r}, expected a bandwidth and a latency, for example 25GB/s,2us"
            )
        amount, bits = rate.removesuffix("/s"), 1
        if amount.lower().endswith("bit"):
            amount, bits = amount[:-3] + "B", 8
        return Line(float(found[1]) * _SECONDS[found[2]], parse_size(amount) / bits)

    def seconds(self, nbytes: float, messages: float) -> float:
        """Of a rank that has these to send or to get."""
        return nbytes / self.rate + messages * self.latency

    def spent(self, nbytes: float, saved: float) -> float:
        """Seconds for which a message keeps an end of the line busy.

        Args:
            nbytes: of the message.
            saved: bytes that may pass at the peak rate, of at most `burst`.
        """
        peak = max(self.rate, self.peak or self.rate)
        if saved <= 0 or peak == self.rate:
            return nbytes / self.rate
        if nbytes * (1 - self.rate / peak) <= saved:  # more is saved up meanwhile
            return nbytes / peak
        return (nbytes - saved) / self.rate

    def turn_seconds(self, nbytes: float, messages: float) -> float:
        """Of a rank that sends these, or gets them, while nothing goes the other way."""
        return nbytes / (self.one_way or self.rate) + messages * self.latency
