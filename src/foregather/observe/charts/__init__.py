"""charts: lines, bars, timelines and tables of colours as SVG text; no package, no script."""
