"""reading: text, gzip and npz files in pieces of bounded size."""
