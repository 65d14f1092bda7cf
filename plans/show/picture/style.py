"""The style sheet of the pictures: light or dark as the reader's system is. It loads nothing."""

from __future__ import annotations

_MONO = 'ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace'
_SANS = 'system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif'
_LIGHT = {
    "paper": "#fff", "panel": "#f8fafc", "line": "#cbd5e1", "ink": "#0f172a", "text": "#334155", "dim": "#5b6b80",
    "free": "#eff6ff", "free-line": "#2563eb", "bound": "#f8fafc", "bound-line": "#94a3b8", "out": "#1d4ed8",
    "where": "#9a3412", "good": "#166534", "good-back": "#dcfce7", "fair": "#854d0e", "fair-back": "#fef9c3",
    "poor": "#9a3412", "poor-back": "#ffedd5",
}  # fmt: skip
_DARK = {
    "paper": "#0f172a", "panel": "#1e293b", "line": "#475569", "ink": "#f1f5f9", "text": "#cbd5e1", "dim": "#94a3b8",
    "free": "#172554", "free-line": "#60a5fa", "bound": "#1e293b", "bound-line": "#64748b", "out": "#93c5fd",
    "where": "#fdba74", "good": "#86efac", "good-back": "#14532d", "fair": "#fde047", "fair-back": "#422006",
    "poor": "#fdba74", "poor-back": "#431407",
}  # fmt: skip
_SVG = {
    "text": f"font:12px {_MONO};text-anchor:middle;fill:var(--text)",
    ".name": "font-size:13px;font-weight:600;fill:var(--ink)",
    ".of": "font-size:11px",
    ".names": "font-size:12px;font-weight:600;fill:var(--ink)",
    ".atom": "font-size:11px",
    ".atoms": "font-size:11px",
    ".where": "font-size:11px;fill:var(--where)",
    ".views": "font-size:11px;fill:var(--dim)",
    ".sub": "font-size:8.5px",
    ".out": "fill:var(--out)",
    ".declared": "text-decoration:underline",
    ".node rect": "stroke-width:1.5",
    ".free rect": "fill:var(--free);stroke:var(--free-line)",
    ".bound rect": "fill:var(--bound);stroke:var(--bound-line)",
    ".virtual rect": "stroke-dasharray:5 3",
    ".bag rect": "stroke-width:3",
    ".edge": "fill:none;stroke:var(--bound-line);stroke-width:1.6",
    ".edge.free": "stroke:var(--free-line)",
    ".edge.quiet": "stroke-dasharray:2 4",
    ".edge.open": "stroke:var(--poor);stroke-width:3",
    ".key": "fill:var(--paper);stroke:var(--line)",
    ".key.open": "stroke:var(--poor)",
    ".keytext": "font-size:11px;fill:var(--ink)",
    ".stage rect": "fill:var(--panel);stroke:var(--bound-line);stroke-width:1.5",
    ".stage.result rect": "stroke:var(--free-line);stroke-width:3",
    ".table rect": "fill:var(--paper);stroke:var(--bound-line);stroke-width:1.5",
    ".arrow": "fill:none;stroke:var(--bound-line);stroke-width:1.6",
    ".head": "fill:var(--bound-line)",
}
_PAGE = {
    "": f"font:14px/1.5 {_SANS};color:var(--ink);background:var(--paper);padding:20px 24px;box-sizing:border-box",
    ".query": f"font:13px/1.5 {_MONO};background:var(--panel);color:var(--ink);margin:0 0 14px;padding:10px 14px;"
    "border:1px solid var(--line);border-radius:8px;white-space:pre-wrap;overflow-wrap:anywhere",
    "h1": "font-size:19px;font-weight:600;margin:0 0 12px",
    ".verdict": "padding:8px 14px;border-radius:8px;margin:0 0 14px",
    ".verdict p": "color:var(--ink);margin:4px 0 0",
    "code": f"font-family:{_MONO};font-size:.93em",
    ".good": "color:var(--good);background:var(--good-back)",
    ".fair": "color:var(--fair);background:var(--fair-back)",
    ".poor": "color:var(--poor);background:var(--poor-back)",
    ".badge": "font-size:12px;font-weight:600;padding:1px 9px;border-radius:9px;margin-left:8px;white-space:nowrap",
    "dl": "display:grid;grid-template-columns:76px minmax(0,1fr);gap:2px 12px;margin:0 0 14px",
    "dt": "color:var(--dim)",
    "dd": "margin:0;overflow-wrap:anywhere",
    "h2": "font-size:15px;margin:0 0 8px",
    "h3": "font-size:13px;color:var(--dim);font-weight:600;margin:14px 0 4px",
    "section": "border:1px solid var(--line);border-radius:10px;padding:14px 16px;margin:0 0 16px",
    "section.result": "border:2px solid var(--free-line)",
    ".reads": "color:var(--dim);font-size:13px;margin:0 0 8px",
    "a": "color:var(--out)",
    ".canvas": "overflow-x:auto;padding:6px 0 4px;position:relative",
    ".canvas svg": "display:block;margin:0 auto",
    ".canvas .root": "position:absolute;top:0;height:1px;scroll-initial-target:nearest",
    ".legend": "display:grid;grid-template-columns:max-content minmax(0,1fr);gap:4px 14px;color:var(--text);"
    "font-size:12.5px;margin:0;max-width:1100px",
    ".legend dt": f"color:var(--ink);font-family:{_MONO}",
    ".legend cite": "color:var(--dim);font-style:normal",
    ".legend b": "font-weight:600;padding:0 5px;border-radius:5px",
    ".legend b.where": "color:var(--where);padding:0",
    ".legend b.out": "color:var(--out);padding:0",
    ".legend i": "display:inline-block;width:22px;height:12px;border-radius:3px;border:1.5px solid;"
    "vertical-align:-1px;box-sizing:border-box",
    ".legend i.free": "background:var(--free);border-color:var(--free-line)",
    ".legend i.bound": "background:var(--bound);border-color:var(--bound-line)",
    ".legend i.virtual": "border-style:dashed;border-radius:6px;border-color:var(--free-line)",
    ".legend i.bag": "border-width:3px;border-color:var(--free-line)",
    ".legend i.quiet": "height:0;border-width:0 0 2px;border-style:dotted;border-color:var(--bound-line);"
    "border-radius:0;vertical-align:4px",
    ".legend i.open": "height:0;border-width:0 0 3px;border-color:var(--poor);border-radius:0;vertical-align:4px",
    ".legend i.edge": "height:0;border-width:0 0 2px;border-color:var(--bound-line);border-radius:0;vertical-align:4px",
    ".columns": "display:flex;flex-wrap:wrap;gap:28px;align-items:flex-start;margin-top:10px",
    ".scroll": "overflow-x:auto;max-width:100%",
    "table": "border-collapse:collapse;font-size:12.5px;color:var(--text);background:transparent",
    "tr": "background:transparent",
    "th": "text-align:left;font-weight:600;color:var(--dim);border-bottom:1px solid var(--line);"
    "padding:4px 14px 4px 0;white-space:nowrap",
    "td": "text-align:left;padding:3px 14px 3px 0;border-bottom:1px solid var(--line);vertical-align:top;"
    f"font-family:{_MONO};white-space:nowrap",
    "tr.chosen td": "color:var(--out);font-weight:600",
    ".shape td": "color:var(--dim)",
}


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def _sheet(scope: str, rules: dict[str, str]) -> str:
    return "".join(f"{scope} {selector}".rstrip() + f"{{{rule}}}" for selector, rule in rules.items())


def _colours(scope: str) -> str:
    dark = f"@media (prefers-color-scheme:dark){{{scope}{{{_variables(_DARK)}}}}}"
    return f"{scope}{{{_variables(_LIGHT)}}}{dark}"


def page_style() -> str:
    """Returns the rules of a page or fragment whose element has the class `crown-plan`."""
    scope = ".crown-plan"
    return _colours(scope) + _sheet(scope, _PAGE) + _sheet(f"{scope} svg", _SVG)


def svg_style() -> str:
    """Returns the rules of a drawing that stands alone."""
    return _colours("svg.crown") + _sheet("svg.crown", _SVG)
