/** Plain line charts beside each other as SVG, for the documentation. No background, and colors that read on white and on black. */

export interface Curve {
  readonly name: string;
  /** Values lie within the panel's range; `low` and `high` bound the band around them. */
  readonly points: readonly { readonly x: number; readonly y: number; readonly low: number; readonly high: number }[];
}

export interface Panel {
  readonly title: string;
  readonly x: string;
  /** Lowest and highest value of the axis. Default 0 and 1. */
  readonly range?: readonly [number, number];
  /** Shows `low` and `high` as bars at the points instead of as a band, for many curves that lie close together. */
  readonly hasBars?: boolean;
  /** The same names in the same order in all panels. */
  readonly curves: readonly Curve[];
}

export interface Figure {
  readonly title: string;
  readonly panels: readonly Panel[];
}

const COLORS = ["#7f8c8d", "#d35454", "#e08a2e", "#3f8fd2", "#2fa8a8", "#35a06a", "#9b6bd1", "#b58f3a"];
const plot = { top: 66, height: 240, gap: 52, left: 50 };
/** Wide enough for a title, and for a panel that stands alone. */
const leastWidth = 620;
/** About what a letter takes. */
const letterWidth = 7.3;

/** A curve of one point is a line all the way across. */
export function curveFigure({ title, panels }: Figure): string {
  const panelWidth = panels.length === 1 ? leastWidth - plot.left - plot.gap : 330;
  const width = plot.left + panels.length * (panelWidth + plot.gap);
  const names = placeNames(panels[0]?.curves ?? [], width);
  const height = plot.top + plot.height + 56 + 20 * Math.max(0, ...names.map(({ row }) => row));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="13" role="img">`,
    `<title>${title}</title>`,
    `<text x="${plot.left}" y="20" fill="#888" font-size="15">${title}</text>`,
    ...panels.map((panel, i) => drawPanel(panel, plot.left + i * (panelWidth + plot.gap), panelWidth)),
    ...names.map(
      ({ name, x, row }, i) =>
        `<text x="${round(x)}" y="${plot.top + plot.height + 46 + 20 * row}" fill="${colorOf(i)}">${name}</text>`,
    ),
    "</svg>",
    "",
  ].join("\n");
}

function drawPanel({ title, x, range = [0, 1], hasBars = false, curves }: Panel, left: number, width: number): string {
  const lastX = Math.max(...curves.flatMap(({ points }) => points.map((point) => point.x)));
  const xOf = (px: number) => round(left + (width * px) / lastX);
  const yOf = (value: number) => round(heightOf((value - range[0]) / (range[1] - range[0])));
  const at = (px: number, value: number) => `${xOf(px)},${yOf(value)}`;
  const shapes = curves.map(({ points }, i) => {
    const [only] = points;
    const all = points.length === 1 && only ? [only, { ...only, x: lastX }] : points;
    const band = [...all.map((p) => at(p.x, p.high)), ...all.toReversed().map((p) => at(p.x, p.low))];
    const color = colorOf(i);
    // Beside each other, so that bars of several curves at one point can be told apart.
    const aside = 3 * (i - (curves.length - 1) / 2);
    const bars = all.map(
      (p) =>
        `<path d="M${xOf(p.x) + aside},${yOf(p.low)}V${yOf(p.high)}m-2,0h4m-4,${round(yOf(p.low) - yOf(p.high))}h4" fill="none" stroke="${color}"/>`,
    );
    const spread = hasBars ? bars : [`<polygon points="${band.join(" ")}" fill="${color}" fill-opacity="0.12"/>`];
    return { color, spread, line: all.map((p) => at(p.x, p.y)).join(" ") };
  });
  const below = plot.top + plot.height + 18;
  return [
    `<text x="${left}" y="${plot.top - 14}" fill="#888">${title}</text>`,
    ...[0, 0.25, 0.5, 0.75, 1].map((share) => drawLevel(share, range, left, width)),
    `<text x="${left}" y="${below}" fill="#888">0</text>`,
    `<text x="${left + width}" y="${below}" fill="#888" text-anchor="end">${Number(lastX.toPrecision(3))}</text>`,
    `<text x="${left + width / 2}" y="${below}" fill="#888" text-anchor="middle">${x}</text>`,
    ...shapes.flatMap(({ spread }) => spread),
    ...shapes.map(({ line, color }) => `<polyline points="${line}" fill="none" stroke="${color}" stroke-width="2"/>`),
  ].join("\n");
}

/** A line across, at a share of the way from the lowest value to the highest. */
function drawLevel(share: number, [lowest, highest]: readonly [number, number], left: number, width: number): string {
  const y = round(heightOf(share));
  const value = lowest + share * (highest - lowest);
  return (
    `<line x1="${left}" y1="${y}" x2="${left + width}" y2="${y}" stroke="#888" stroke-opacity="0.3"/>` +
    `<text x="${left - 6}" y="${y + 4}" fill="#888" text-anchor="end">${value}</text>`
  );
}

function heightOf(share: number): number {
  return plot.top + plot.height * (1 - share);
}

/** Below the panels, as many to a row as there is room for. */
function placeNames(curves: readonly Curve[], width: number) {
  let [x, row] = [plot.left, 0];
  return curves.map(({ name }) => {
    const taken = letterWidth * name.length + 24;
    if (x > plot.left && x + taken > width) [x, row] = [plot.left, row + 1];
    const place = { name, x, row };
    x += taken;
    return place;
  });
}

function colorOf(i: number): string {
  return COLORS[i % COLORS.length]!;
}

function round(value: number): number {
  return Math.round(10 * value) / 10;
}
