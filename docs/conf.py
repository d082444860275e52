"""Sphinx configuration: MyST pages, the furo theme, API pages from docstrings.

Build with `sphinx-build -W -b html docs docs/_build/html`; a warning is an error.
"""

import re
from importlib.metadata import version as installed_version

from sphinx.application import Sphinx

project = "foregather"
author = "The foregather developers"
project_copyright = "The foregather developers"
release = version = installed_version("foregather")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = False
suppress_warnings = ["ref.python"]  # names such as bytes and width are also attributes of ours

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "show-inheritance": True}
autoclass_content = "both"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = "foregather"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]


def _reports_as_files(app: object, name: str, source: list[str]) -> None:
    """Links to reports, which are no pages of the site: it holds copies of these files."""
    source[0] = re.sub(r"\]\(((?:\.\./)+benchmarks/)", r"](path:\1", source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _reports_as_files)
