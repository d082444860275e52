"""foregather: gather, decided beforehand. Graph neural networks beyond RAM and one machine."""
