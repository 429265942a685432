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
  /** The same names in the same order in all panels. */
  readonly curves: readonly Curve[];
}

export interface Figure {
  readonly title: string;
  readonly panels: readonly Panel[];
}

const COLORS = ["#7f8c8d", "#d35454", "#e08a2e", "#3f8fd2", "#2fa8a8", "#35a06a", "#9b6bd1", "#b58f3a"];
const plot = { top: 66, width: 330, height: 240, gap: 52, left: 50 };
const height = 384;

/** A curve of one point is a line all the way across. */
export function curveFigure({ title, panels }: Figure): string {
  const width = plot.left + panels.length * (plot.width + plot.gap);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="13" role="img">`,
    `<title>${title}</title>`,
    `<text x="${plot.left}" y="20" fill="#888" font-size="15">${title}</text>`,
    ...panels.map((panel, i) => drawPanel(panel, plot.left + i * (plot.width + plot.gap))),
    ...drawNames(panels[0]?.curves ?? [], width),
    "</svg>",
    "",
  ].join("\n");
}

function drawPanel({ title, x, range = [0, 1], curves }: Panel, left: number): string {
  const lastX = Math.max(...curves.flatMap(({ points }) => points.map((point) => point.x)));
  const at = (px: number, value: number) =>
    `${round(left + (plot.width * px) / lastX)},${round(heightOf((value - range[0]) / (range[1] - range[0])))}`;
  const shapes = curves.map(({ points }, i) => {
    const [only] = points;
    const all = points.length === 1 && only ? [only, { ...only, x: lastX }] : points;
    const band = [...all.map((p) => at(p.x, p.high)), ...all.toReversed().map((p) => at(p.x, p.low))];
    return { color: colorOf(i), band: band.join(" "), line: all.map((p) => at(p.x, p.y)).join(" ") };
  });
  const below = plot.top + plot.height + 18;
  return [
    `<text x="${left}" y="${plot.top - 14}" fill="#888">${title}</text>`,
    ...[0, 0.25, 0.5, 0.75, 1].map((share) => drawLevel(share, range, left)),
    `<text x="${left}" y="${below}" fill="#888">0</text>`,
    `<text x="${left + plot.width}" y="${below}" fill="#888" text-anchor="end">${lastX}</text>`,
    `<text x="${left + plot.width / 2}" y="${below}" fill="#888" text-anchor="middle">${x}</text>`,
    ...shapes.map(({ band, color }) => `<polygon points="${band}" fill="${color}" fill-opacity="0.12"/>`),
    ...shapes.map(({ line, color }) => `<polyline points="${line}" fill="none" stroke="${color}" stroke-width="2"/>`),
  ].join("\n");
}

/** A line across, at a share of the way from the lowest value to the highest. */
function drawLevel(share: number, [lowest, highest]: readonly [number, number], left: number): string {
  const y = round(heightOf(share));
  const value = lowest + share * (highest - lowest);
  return (
    `<line x1="${left}" y1="${y}" x2="${left + plot.width}" y2="${y}" stroke="#888" stroke-opacity="0.3"/>` +
    `<text x="${left - 6}" y="${y + 4}" fill="#888" text-anchor="end">${value}</text>`
  );
}

function heightOf(share: number): number {
  return plot.top + plot.height * (1 - share);
}

/** Below the panels, four to a row. */
function drawNames(curves: readonly Curve[], width: number): readonly string[] {
  const column = (width - plot.left) / 4;
  return curves.map(({ name }, i) => {
    const [x, y] = [plot.left + column * (i % 4), height - 32 + 20 * Math.floor(i / 4)];
    return `<text x="${round(x)}" y="${y}" fill="${colorOf(i)}">${name}</text>`;
  });
}

function colorOf(i: number): string {
  return COLORS[i % COLORS.length]!;
}

function round(value: number): number {
  return Math.round(10 * value) / 10;
}
