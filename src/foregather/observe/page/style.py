"""style: the head of every page: styles for screens of any width, light and dark, and for paper.

Pages have no script and forbid all requests.
"""

from foregather.observe.charts.palette import MEANINGS, STYLE

__all__ = ["START", "head"]

START = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    '<meta name="generator" content="foregather report">\n'
)
_BOXES = "".join(f".b-{name}{{--mark:var(--{name})}}" for name in MEANINGS)
_STYLE = """
:root{color-scheme:light dark;--back:#f6f7f9;--card:#fff;--ink:#16202e;--soft:#5b6676;--line:#dfe3e8;--accent:#0e7490}
@media (prefers-color-scheme:dark){:root{--back:#0f141b;--card:#171e27;--ink:#e6eaf0;--soft:#9aa6b5;--line:#2b3542;--accent:#4fd0ea}}
*{box-sizing:border-box}body{font:16px/1.5 system-ui,sans-serif;margin:0;background:var(--back);color:var(--ink)}
main{max-width:80rem;margin:0 auto;padding:1.6rem 1.2rem 3rem}
header p.kind{margin:0;color:var(--accent);font-weight:600;font-size:.85rem;letter-spacing:.04em;text-transform:uppercase}
h1{font-size:1.75rem;line-height:1.2;margin:.1rem 0 .8rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.2rem 0 .8rem}h3{font-size:1rem;margin:0}
dl.about{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,10rem),1fr));gap:.6rem 1.4rem;margin:0}
dl.about div{min-width:0}dt{color:var(--soft);font-size:.8rem}dd{margin:0;overflow-wrap:anywhere}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(46%,11rem),1fr));gap:.8rem;margin:1.4rem 0 0;padding:0;list-style:none}
.figures li{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:.8rem 1rem;min-width:0}
.figures .what{color:var(--soft);font-size:.82rem}.figures .value{font-size:1.6rem;font-weight:650;line-height:1.25;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.figures .beside{color:var(--soft);font-size:.82rem;overflow-wrap:anywhere}
.charts{columns:3 21rem;column-gap:1rem}
figure{margin:0 0 1rem;break-inside:avoid;background:var(--card);border:1px solid var(--line);border-radius:12px;padding:.9rem 1rem;min-width:0}
figure.whole{column-span:all;margin-top:1rem}.charts.bars{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,17rem),1fr));margin-bottom:1rem}.bars figure{margin:0}figcaption p{margin:.15rem 0 .5rem;color:var(--soft);font-size:.9rem}
figure svg{display:block;max-width:100%}figure>svg{width:100%;height:auto}
.legend{display:flex;flex-wrap:wrap;gap:.1rem 1rem;list-style:none;margin:.5rem 0 0;padding:0;font-size:.85rem}
.legend i{display:inline-block;width:.8rem;height:.8rem;margin-right:.4rem;vertical-align:-.08rem;border-radius:2px;background:var(--mark)}
.legend i.line{height:.2rem;vertical-align:.22rem}.legend i.dash{height:0;border-top:2px dashed var(--mark);background:none;vertical-align:.25rem;width:1.1rem;border-radius:0}
.legend i.ring{border:2px solid var(--mark);border-radius:50%;background:none}
.zoom input{position:absolute;opacity:0;pointer-events:none}.zoom label{display:inline-block;padding:.1rem .7rem;border:1px solid var(--line);border-radius:99px;font-size:.82rem;cursor:pointer;margin:0 .4rem .6rem 0}
.zoom input:checked+label{background:var(--ink);color:var(--card)}.zoom input:focus-visible+label{outline:2px solid var(--accent)}
.scroll{overflow-x:auto}.zoom svg{width:100%;max-width:none}
#z4:checked~.scroll svg{width:400%}#z16:checked~.scroll svg{width:1600%}
#z4:checked~.scroll .at1,#z16:checked~.scroll .at1{display:none!important}#z4:checked~.scroll .at4,#z16:checked~.scroll .at16{display:inline!important}
.wide{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:12px}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;min-width:100%}
td,th{padding:.4rem .8rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{font-weight:600;color:var(--soft);white-space:normal;vertical-align:bottom}tr:last-child td{border-bottom:0}td:first-child,th:first-child{text-align:left}
table.roomy td{white-space:normal;min-width:9rem;vertical-align:top}tr.best td{background:color-mix(in srgb,var(--valid) 12%,transparent)}
details{background:var(--card);border:1px solid var(--line);border-radius:12px;margin:.6rem 0;padding:.5rem 1rem}
summary{cursor:pointer;font-weight:600}details .wide{border:0}
pre{overflow-x:auto;font-size:.82rem;margin:.6rem 0}footer{color:var(--soft);font-size:.82rem;margin-top:2rem}
@media (max-width:30rem){main{padding:1rem .7rem 2rem}h1{font-size:1.4rem}.figures .value{font-size:1.3rem}figure{padding:.8rem .6rem}}
@media print{body{background:#fff}figure,.figures li{break-inside:avoid}}
"""  # noqa: E501 - style


def head(title: str) -> str:
    """Everything before the body; the title is already escaped."""
    return (
        f'{START}<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}{_BOXES}{_STYLE}</style></head><body><main>\n"
    )
