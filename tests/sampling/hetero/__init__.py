"""Rules of typed sampling besides neighbours, and all of them across threads and times."""
