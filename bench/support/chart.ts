/** A chart over two logarithmic axes, drawn as SVG: for times against sizes. Readable on light and dark ground. */

export interface ChartPoint {
  x: number;
  y: number;
  /** Computed, not measured: joined by a dashed line, and hollow. */
  computed?: boolean;
}

export interface Chart {
  title: string;
  xTitle: string;
  /** How a value of an axis is written. */
  xText: (x: number) => string;
  yText: (y: number) => string;
  lines: { name: string; points: readonly ChartPoint[] }[];
}

const WIDTH = 760;
const HEIGHT = 420;
const LEFT = 76;
const RIGHT = 24;
const TOP = 48;
const BOTTOM = 64;
const LEGEND = 20;
const COLOURS = ["#c2410c", "#2563eb", "#0d9488", "#7c3aed"];

export function drawChart({ title, xTitle, xText, yText, lines }: Chart): string {
  const points = lines.flatMap((line) => line.points);
  if (points.length === 0) throw new RangeError("a chart needs points");
  const x = scale(
    points.map((point) => point.x),
    LEFT,
    WIDTH - RIGHT,
  );
  const y = scale(
    points.map((point) => point.y),
    HEIGHT - BOTTOM,
    TOP + LEGEND * Math.ceil(lines.length / 2),
  );
  const right = WIDTH - RIGHT;
  const bottom = HEIGHT - BOTTOM;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="${escaped(title)}">
<style>text{fill:#333}.grid{stroke:#8884}.axis{stroke:#888}@media (prefers-color-scheme:dark){text{fill:#ddd}}</style>
<text x="${LEFT}" y="22" font-size="15" font-weight="600">${escaped(title)}</text>
${lines.map(({ name }, n) => legend(name, n)).join("\n")}
${y.ticks.map((tick) => `<path class="grid" d="M${LEFT} ${y.at(tick)}H${right}"/><text x="${LEFT - 8}" y="${y.at(tick)}" dy="4" text-anchor="end">${escaped(yText(tick))}</text>`).join("\n")}
${x.ticks.map((tick) => `<path class="grid" d="M${x.at(tick)} ${bottom}V${TOP}"/><text x="${x.at(tick)}" y="${bottom + 18}" text-anchor="middle">${escaped(xText(tick))}</text>`).join("\n")}
<path class="axis" fill="none" d="M${LEFT} ${TOP}V${bottom}H${right}"/>
<text x="${(LEFT + right) / 2}" y="${HEIGHT - 14}" text-anchor="middle">${escaped(xTitle)}</text>
${lines.map(({ points }, n) => line(points, COLOURS[n % COLOURS.length] as string, x.at, y.at)).join("\n")}
</svg>
`;
}

interface Scale {
  at(value: number): number;
  /** Powers of ten within the range. */
  ticks: number[];
}

/** From the power of ten below the least to the one above the greatest. */
function scale(values: readonly number[], from: number, to: number): Scale {
  const least = Math.floor(Math.log10(Math.min(...values)) + 1e-9);
  const greatest = Math.max(least + 1, Math.ceil(Math.log10(Math.max(...values)) - 1e-9));
  const ticks = Array.from({ length: greatest - least + 1 }, (_, n) => 10 ** (least + n));
  return {
    at: (value) => Math.round((from + ((Math.log10(value) - least) / (greatest - least)) * (to - from)) * 10) / 10,
    ticks,
  };
}

function legend(name: string, n: number): string {
  const x = LEFT + (n % 2) * 340;
  const y = TOP - 6 + LEGEND * Math.floor(n / 2);
  const colour = COLOURS[n % COLOURS.length];
  return `<path stroke="${colour}" stroke-width="3" d="M${x} ${y}h18"/><text x="${x + 24}" y="${y + 4}">${escaped(name)}</text>`;
}

function line(
  points: readonly ChartPoint[],
  colour: string,
  x: (value: number) => number,
  y: (value: number) => number,
): string {
  const sorted = points.toSorted((a, b) => a.x - b.x);
  const parts = sorted.map(({ x: px, y: py, computed }) => {
    const fill = computed ? `fill="none" stroke="${colour}"` : `fill="${colour}"`;
    return `<circle cx="${x(px)}" cy="${y(py)}" r="4" ${fill}/>`;
  });
  for (const [n, point] of sorted.entries()) {
    const next = sorted[n + 1];
    if (next === undefined) break;
    const dashes = point.computed || next.computed ? ' stroke-dasharray="5 4"' : "";
    parts.push(
      `<path stroke="${colour}" stroke-width="2"${dashes} d="M${x(point.x)} ${y(point.y)}L${x(next.x)} ${y(next.y)}"/>`,
    );
  }
  return parts.join("");
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
