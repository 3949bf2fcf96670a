"""Style of the page: light and dark by what the reader's machine asks for, one column on a phone, no font or picture from elsewhere."""

STYLE = """
:root { color-scheme: light dark; --bg: #fdfdfb; --ink: #1d2327; --soft: #5c666d; --rule: #d9dedf; --accept: #0a7a4b; --reject: #b3261e;
  --open: #8a5a00; --one: #1f5fa8; --two: #a8511f; --bar: #7aa5d6; }
@media (prefers-color-scheme: dark) { :root { --bg: #14181b; --ink: #e4e8ea; --soft: #9aa5ac; --rule: #333b40; --accept: #4cc38a;
  --reject: #f2796f; --open: #e0b050; --one: #7fb2f0; --two: #f0a070; --bar: #3f6ea3; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 16px; max-width: 1320px; background: var(--bg); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.3rem; border-top: 1px solid var(--rule); padding-top: 16px; margin-top: 32px; }
h3 { font-size: 1.05rem; margin: 20px 0 4px; }
p { max-width: 75ch; } .soft, figcaption { color: var(--soft); font-size: .9rem; }
.label { border: 1px solid var(--open); color: var(--open); border-radius: 4px; padding: 2px 8px; font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 8px 32px; align-items: start; }
figure { margin: 8px 0; } figure svg { width: 100%; max-width: 560px; height: auto; display: block; }
.wide { overflow-x: auto; } td:last-child { min-width: 10ch; } .verdicts td:last-child { min-width: 36ch; } table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--rule); vertical-align: top; overflow-wrap: normal; }
th { color: var(--soft); font-weight: 600; } td.accept { color: var(--accept); } td.reject { color: var(--reject); }
td.inconclusive, td.open { color: var(--open); }
code, pre { font: .88em ui-monospace, monospace; } pre { overflow-x: auto; border: 1px solid var(--rule); padding: 8px; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; } svg .tick { fill: var(--soft); font-size: 11px; }
svg .label-text, svg .label { fill: var(--soft); font-size: 11.5px; border: 0; } svg .name { font-weight: 600; }
svg line { stroke: var(--ink); } svg .grid { stroke: var(--rule); } svg .axis { stroke: var(--soft); }
svg .zero { stroke: var(--soft); stroke-dasharray: 4 3; } svg .interval { stroke-width: 2.5; opacity: .55; }
svg .dot { fill: var(--ink); } svg .path { fill: none; stroke: var(--soft); stroke-width: 1.5; } svg .bar { fill: var(--bar); }
svg .inside { font-size: 11px; }
svg .dot.accept, svg text.accept { fill: var(--accept); } svg line.accept { stroke: var(--accept); }
svg .dot.reject, svg text.reject { fill: var(--reject); } svg line.reject { stroke: var(--reject); }
svg .dot.inconclusive, svg text.inconclusive { fill: var(--open); } svg line.inconclusive { stroke: var(--open); }
svg .dot.agg, svg text.agg, svg text.roof-0 { fill: var(--one); } svg .path.agg, svg .path.roof-0 { stroke: var(--one); }
svg .dot.per_stream, svg text.per_stream, svg text.roof-1 { fill: var(--two); } svg .path.per_stream, svg .path.roof-1 { stroke: var(--two); }
svg .stage-check, svg .stage-starting { fill: var(--rule); } svg .stage-settle, svg .stage-joining { fill: var(--soft); opacity: .6; }
svg .stage-launch, svg .stage-profiling { fill: var(--two); opacity: .7; } svg .stage-capturing { fill: var(--accept); opacity: .6; }
"""
