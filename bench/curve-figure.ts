/** A plain line chart as SVG, for the documentation. It has no background, and colours that read on white and on black. */

export interface Curve {
  readonly name: string;
  readonly points: readonly { readonly x: number; readonly y: number }[];
}

export interface FigureLabels {
  readonly title: string;
  readonly x: string;
  readonly y: string;
}

const COLORS = ["#7f8c8d", "#d35454", "#e08a2e", "#3f8fd2", "#35a06a", "#9b6bd1", "#b58f3a"];
const plot = { left: 56, top: 44, width: 420, height: 240 };
const size = { width: 660, height: 336 };

/** Values of y lie between 0 and 1. Names stand in the order of the last values. */
export function curveFigure(curves: readonly Curve[], { title, x, y }: FigureLabels): string {
  const lastX = Math.max(...curves.flatMap(({ points }) => points.map((point) => point.x)));
  const at = (point: { x: number; y: number }) =>
    `${round(plot.left + (plot.width * point.x) / lastX)},${round(plot.top + plot.height * (1 - point.y))}`;
  const lines = curves.map(
    ({ points }, i) =>
      `<polyline points="${points.map(at).join(" ")}" fill="none" stroke="${COLORS[i % COLORS.length]}" stroke-width="2"/>`,
  );
  const byLast = curves
    .map(({ name, points }, i) => ({ name, color: COLORS[i % COLORS.length]!, last: points.at(-1)?.y ?? 0 }))
    .sort((a, b) => b.last - a.last);
  const names = byLast.map(
    ({ name, color, last }, i) =>
      `<text x="${plot.left + plot.width + 14}" y="${plot.top + 14 + 22 * i}" fill="${color}">${last.toFixed(2)}  ${name}</text>`,
  );
  const grid = [0, 0.25, 0.5, 0.75, 1].map((value) => {
    const height = round(plot.top + plot.height * (1 - value));
    return (
      `<line x1="${plot.left}" y1="${height}" x2="${plot.left + plot.width}" y2="${height}" stroke="#888" stroke-opacity="0.3"/>` +
      `<text x="${plot.left - 8}" y="${height + 4}" fill="#888" text-anchor="end">${value}</text>`
    );
  });
  const below = plot.top + plot.height + 18;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.width} ${size.height}" font-family="system-ui, sans-serif" font-size="13" role="img">`,
    `<title>${title}</title>`,
    `<text x="${plot.left}" y="22" fill="#888" font-size="15">${title}</text>`,
    ...grid,
    `<text x="${plot.left}" y="${below}" fill="#888">0</text>`,
    `<text x="${plot.left + plot.width}" y="${below}" fill="#888" text-anchor="end">${lastX}</text>`,
    `<text x="${plot.left + plot.width / 2}" y="${below + 16}" fill="#888" text-anchor="middle">${x}</text>`,
    `<text transform="translate(16 ${plot.top + plot.height / 2}) rotate(-90)" fill="#888" text-anchor="middle">${y}</text>`,
    ...lines,
    ...names,
    "</svg>",
    "",
  ].join("\n");
}

function round(value: number): number {
  return Math.round(10 * value) / 10;
}
