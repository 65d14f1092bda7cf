"""The frame of the HTML page: style sheet and head."""

from __future__ import annotations

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>CROWN benchmarks</title><style>
:root { --ink: #1b1f2a; --soft: #667085; --line: #e6e8ee; --ours: #4f46e5; --wash: #f7f8fb; --paper: #fff;
  --rule: #c4c9d4; --alarm: #b42318; --alarm-wash: #fef3f2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #f1f3f8; --soft: #98a2b3; --line: #2b3142; --ours: #a5b4fc; --wash: #0d1017; --paper: #161a24;
    --rule: #475069; --alarm: #fda29b; --alarm-wash: #3a1512; }
  figure svg { filter: invert(0.92) hue-rotate(180deg); } /* charts are drawn for white paper */
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--wash); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
body { padding: 0 16px; }
header, section, footer { max-width: 1320px; margin: 0 auto; padding: 0 28px; }
header { padding-top: 36px; }
h1 { margin: 0 0 4px; font-size: 30px; letter-spacing: -0.01em; }
h2 { margin: 0 0 6px; font-size: 20px; }
h3 { margin: 18px 0 0; font-size: 14px; color: var(--soft); font-weight: 600; }
p { max-width: 78ch; margin: 6px 0 12px; }
.machine, footer { color: var(--soft); font-size: 13px; }
.machine { max-width: none; }
.quick { color: var(--alarm); background: var(--alarm-wash); border: 2px solid var(--alarm);
  border-radius: 12px; padding: 12px 18px; max-width: none; }
.quick b { font-size: 56px; line-height: 1; letter-spacing: 0.04em; margin-right: 14px; vertical-align: middle; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0; }
.tiles div { flex: 1 1 calc(100% / var(--columns) - 12px); min-width: 200px;
  background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; }
.tiles b { display: block; font-size: 24px; line-height: 1.2; color: var(--ours); font-variant-numeric: tabular-nums; }
.tiles span { color: var(--soft); font-size: 13px; }
nav { display: flex; flex-wrap: wrap; gap: 6px 16px; font-size: 13.5px; margin-bottom: 22px; }
a { color: var(--ours); text-decoration: none; }
a:hover { text-decoration: underline; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 12px; padding: 22px 28px; }
section { margin-bottom: 18px; }
figure { margin: 8px 0 4px; overflow-x: auto; }
figure svg { display: block; width: 100%; min-width: 760px; height: auto; }
figure svg[aria-label^="triangle"] { display: inline-block; width: 49.5%; min-width: 420px; }
summary { cursor: pointer; color: var(--soft); font-size: 13px; margin: 6px 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 12.5px; font-variant-numeric: tabular-nums; min-width: 100%; }
th { text-align: left; color: var(--soft); font-weight: 600; border-bottom: 1px solid var(--rule);
  vertical-align: bottom; }
th, td { padding: 5px 10px 5px 0; vertical-align: top; }
td:first-child { white-space: nowrap; }
td.t:nth-child(2), td.engine { min-width: 150px; max-width: 230px; }
td:last-child { min-width: 200px; }
td { border-bottom: 1px solid var(--line); }
.n { text-align: right; }
td.n { white-space: nowrap; }
tr.ours td:first-child, tr.ours td.engine { color: var(--ours); font-weight: 600; }
@media (max-width: 640px) { header, section, footer { padding-left: 14px; padding-right: 14px; } }
footer { padding-bottom: 40px; }
</style></head><body>
{body}
</body></html>
"""
