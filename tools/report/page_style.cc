#include "tools/report/page_style.h"

namespace tessera {
namespace {

constexpr absl::string_view kStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f5f6f8; --text: #1c1f23; --dim: #555c66; --rule: #d5d9df; --link: #0b5cad;
  --ink: rgba(255, 255, 255, .75); --edge: #1c1f23;
  --c0: #0072b2; --c1: #d55e00; --c2: #008f68; --c3: #b8578f; --c4: #2b8cc4; --c5: #b07600; --c6: #7d7500;
  --c7: #6e6e6e;
  --full: #e4eef7; --split-optimizer: #fbe9cf; --split: #d9f0e6; --flat: #f6e2ef; --mixed: #f3f0c8;
  --warn: #fff1e8; --good: #eaf5ef;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --panel: #1d2127; --text: #e9ebee; --dim: #a9b0ba; --rule: #3a414b; --link: #7ab8f5;
    --ink: rgba(0, 0, 0, .6); --edge: #e9ebee;
    --c0: #4a9fe0; --c1: #f07d2e; --c2: #1fbf91; --c3: #d98fbb; --c4: #7cc8f2; --c5: #e6a317; --c6: #d9cf4a;
    --c7: #a6a6a6;
    --full: #1f2f40; --split-optimizer: #453216; --split: #16392d; --flat: #412738; --mixed: #3a3812;
    --warn: #3b2413; --good: #14301f;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
header, main, footer { max-width: 1180px; margin: 0 auto; padding: 0 20px; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 1.6rem 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 0 0 .3rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; overflow-wrap: anywhere; }
p { margin: .3rem 0; overflow-wrap: anywhere; }
section { margin: 1.4rem 0; padding-top: 1.2rem; border-top: 1px solid var(--rule); }
.dim, .empty, figcaption { color: var(--dim); }
figcaption b { color: var(--text); }
a { color: var(--link); }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; list-style: none; margin: .8rem 0 0; padding: 0; }
nav a { display: inline-block; padding: .3rem 0; }
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--page); padding: .5rem 1rem; z-index: 1; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
footer { border-top: 1px solid var(--rule); margin-top: 2rem; padding-top: .8rem; padding-bottom: 2rem;
  color: var(--dim); font-size: .875rem; }

.callout { border-left: 5px solid var(--c2); background: var(--good); padding: .6rem .9rem; margin: .8rem 0; }
.callout.fault { border-left: 5px double var(--c1); background: var(--warn); }
.scroll { overflow-x: auto; margin: .2rem 0 .8rem; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums;
  font-size: 14px; line-height: 21px; }
.caption { color: var(--dim); font-size: .9rem; margin-top: .6rem; }
th, td { text-align: right; padding: 5px 9px; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th.words, td.words { text-align: left; }
thead th { color: var(--dim); font-weight: 600; vertical-align: bottom; white-space: normal; min-width: 4.5rem; }
tbody th { font-weight: 600; position: sticky; left: 0; background: var(--page); white-space: normal;
  min-width: 11.2rem; max-width: 15rem; overflow-wrap: anywhere; }
pre { background: var(--panel); padding: .7rem .9rem; white-space: pre-wrap; overflow-wrap: anywhere; margin: .5rem 0; font-size: .85rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: .6rem 0; }
dt { color: var(--dim); }
dd { margin: 0; overflow-wrap: anywhere; }
summary { cursor: pointer; padding: .25rem 0; }
details.data > summary { color: var(--dim); font-size: .875rem; }
details.plan > summary { font-weight: 600; font-size: 1rem; padding: .5rem 0; overflow-wrap: anywhere; }
details.plan { border-bottom: 1px solid var(--rule); }

figure { margin: 1rem 0 1.4rem; }
figcaption { margin-bottom: .4rem; overflow-wrap: anywhere; }
svg { display: block; overflow: visible; }
svg text { fill: var(--text); font-size: 12px; }
.ticks text { fill: var(--dim); }
.definitions { position: absolute; }
.grid { stroke: var(--rule); stroke-width: 1; }
.tick { stroke: var(--dim); }
.shape { stroke: var(--edge); stroke-width: 1; }
.outline { fill: none; stroke: var(--edge); stroke-width: 1; }
.ink { fill: none; stroke: var(--ink); stroke-width: 1.6; }
.dot { fill: var(--ink); }
.c0 { fill: var(--c0); } .c1 { fill: var(--c1); } .c2 { fill: var(--c2); } .c3 { fill: var(--c3); }
.c4 { fill: var(--c4); } .c5 { fill: var(--c5); } .c6 { fill: var(--c6); } .c7 { fill: var(--c7); }
.c8 { fill: none; }
.line { fill: none; }
.l0 { stroke: var(--c4); } .l1 { stroke: var(--c1); } .l2 { stroke: var(--c2); } .l3 { stroke: var(--c3); }
.l4 { stroke: var(--c0); } .l5 { stroke: var(--c5); } .l6 { stroke: var(--text); } .l7 { stroke: var(--c6); }
.range { stroke: var(--edge); stroke-width: 2; }
.halo { stroke: var(--page); stroke-width: 5; }
.limit { stroke: var(--edge); stroke-width: 2; stroke-dasharray: 4 3; }
.peak { fill: var(--page); stroke: var(--edge); stroke-width: 2; }
.peak-text { font-weight: 600; paint-order: stroke; stroke: var(--page); stroke-width: 4px;
  stroke-linejoin: round; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: .4rem 0 .6rem; padding: 0;
  font-size: .875rem; }
.legend li { display: flex; align-items: center; gap: .4rem; }
.swatch { flex: none; }

.bar { display: grid; grid-template-columns: 11.5rem minmax(0, 1fr) 13rem; gap: 0 .8rem; align-items: center;
  margin: 1px 0; font-size: .875rem; }
.bar-label { color: var(--dim); overflow-wrap: anywhere; }
.bar-value { font-variant-numeric: tabular-nums; }
.bar-group { margin: .7rem 0; }
.group-label { margin: 0; }
.plot-grid { display: grid; grid-template-columns: 5rem minmax(0, 1fr); margin-top: 1.4rem; }
.with-labels { grid-template-columns: 5rem minmax(0, 1fr) 13rem; }
.area { background: var(--panel); }
.lines { overflow: visible; }
.line-labels { position: relative; font-size: 12px; line-height: 18px; }
.line-labels span { position: absolute; left: 8px; right: 0; margin-top: -9px; display: flex; gap: .4rem;
  align-items: center; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
.line-labels svg { flex: none; }

.map, .cells { list-style: none; margin: 0; padding: 0; }
.map { display: flex; flex-wrap: wrap; gap: .7rem 1.4rem; }
.unit.wide { flex: 1 1 100%; }
.unit { border-left: 3px solid var(--rule); padding: .1rem 0 .1rem .8rem; max-width: 100%; }
.unit > p { display: flex; flex-wrap: wrap; gap: .2rem .6rem; align-items: baseline; margin: 0; }
.size, .group, .settings { color: var(--dim); font-size: .875rem; }
.chip { border: 1px solid var(--dim); border-radius: 1rem; padding: 0 .6rem; font-size: .8rem; }
.chip.recomputed { border-style: dashed; }
.cells { display: flex; flex-wrap: wrap; gap: 6px; margin: .4rem 0; }
.cells > .cell { width: 11.2rem; }
.wide .cells { display: grid; grid-template-columns: repeat(auto-fill, minmax(10.5rem, 1fr)); }
.wide .cells > .cell { width: auto; }
.cell { position: relative; border: 1px solid var(--dim); padding: .3rem 2.1rem .35rem .5rem; font-size: 12px;
  line-height: 1.35; overflow-wrap: anywhere; }
.cell b, .cell span { display: block; }
.cell .mark { position: absolute; right: 0; top: 0; min-width: 1.7rem; text-align: center; font-style: normal;
  font-weight: 700; border-left: 1px solid var(--dim); border-bottom: 1px solid var(--dim); padding: 0 .2rem; }
.full { background: var(--full); }
.split-optimizer { background: var(--split-optimizer); border-style: dotted solid; }
.split { background: var(--split); border-left-width: 5px; }
.flat { background: var(--flat); border-style: dashed; }
.mixed { background: var(--mixed); border-style: double; border-width: 3px; }
.decisions { list-style: none; margin: .4rem 0; padding: 0; font-size: .875rem; }
.decisions > li { display: grid; grid-template-columns: 14rem 3.5rem minmax(0, 1fr); gap: 0 .8rem;
  align-items: center; margin: 1px 0; }
.decisions span { overflow-wrap: anywhere; }
.sample { display: inline-block; width: 3.2rem; height: 1.6rem; }

@media (max-width: 760px) {
  header, main, footer { padding: 0 14px; }
  .bar { grid-template-columns: minmax(0, 1fr) auto; margin: 5px 0; }
  .bar > svg { grid-column: 1 / -1; grid-row: 2; }
  .plot-grid { grid-template-columns: 4.2rem minmax(0, 1fr); }
  .with-labels { grid-template-columns: 3.4rem minmax(0, 1fr); }
  .with-labels > .last { display: none; }
  .line-labels { grid-column: 1 / -1; grid-row: 3; display: flex; flex-wrap: wrap; gap: 0 1rem; }
  .line-labels span { position: static; margin: 0; }
  .wide .cells { grid-template-columns: repeat(auto-fill, minmax(8.6rem, 1fr)); }
  .decisions > li { grid-template-columns: minmax(0, 7.5rem) 1.5rem minmax(0, 1fr); }
  tbody th { min-width: 7.6rem; max-width: 9rem; padding-right: .4rem; }
  svg.ticks text.minor { display: none; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { margin-bottom: .5rem; }
}
@media print { .scroll { overflow: visible; } nav { display: none; } }
)css";

}  // namespace

absl::string_view PageStyle() { return kStyle; }

}  // namespace tessera
