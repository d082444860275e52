"""plan: which bytes, when: pure functions from a bulk to a schedule of reads."""
