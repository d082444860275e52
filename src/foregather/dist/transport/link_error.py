"""link_error: tells errors of the links between ranks from all others."""

__all__ = ["is_link_error"]

#: In what torch says of lost ranks.
_LINKS = ("gloo", "connection closed by peer", "connection reset by peer", "nccl")


def is_link_error(error: BaseException) -> bool:
    """Whether torch says that links between ranks, or to their store, failed."""
    named = any(kind.__name__ == "DistError" for kind in type(error).__mro__)
    text = str(error).lower()
    return named or (isinstance(error, RuntimeError) and any(word in text for word in _LINKS))
