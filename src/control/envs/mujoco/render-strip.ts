/**
 * Draws moments of an episode side by side in one SVG, from their shapes and without any graphics library.
 *
 * Seen from the side (x to the right, height up), every panel follows the body, and marks on the ground show how far it has come.
 * Seen from above (x to the right, y up), panels stay centered on the table.
 */
import type { MujocoFrame, MujocoShape, Vector } from "./mujoco-frame.ts";

/** The view, the size of the panels, and their captions. */
export interface StripOptions {
  readonly view: "side" | "top";
  /** Width and height of a panel in meters. Default 2.4 from the side, 1.8 from above. */
  readonly panelMeters?: number;
  /** Width and height of a panel in pixels. Default 160. */
  readonly panelPixels?: number;
  /** Captions below the frames. */
  readonly captions?: readonly string[];
}

const CAPTION_PIXELS = 18;
/** Distance between marks on the ground, in meters. */
const GROUND_STEP = 0.5;
const GROUND_BELOW = 0.2;
const COLOURS = ["#4878a8", "#d9823b", "#5a9e6f", "#a8557a", "#8a6fb8", "#777777"] as const;

/** Returns the picture as an SVG document. */
export function renderStrip(frames: readonly MujocoFrame[], options: StripOptions): string {
  const { view, panelMeters = view === "side" ? 2.4 : 1.8, panelPixels = 160, captions } = options;
  const width = frames.length * panelPixels;
  const height = panelPixels + (captions === undefined ? 0 : CAPTION_PIXELS);
  const panels = frames.map((frame, i) => {
    const picture = panelOf(frame, view, panelMeters);
    const caption = captions?.[i];
    return [
      `<svg x="${i * panelPixels}" width="${panelPixels}" height="${panelPixels}" viewBox="${picture.viewBox}">${picture.content}</svg>`,
      ...(caption === undefined
        ? []
        : [
            `<text x="${(i + 0.5) * panelPixels}" y="${panelPixels + 13}" text-anchor="middle">${escaped(caption)}</text>`,
          ]),
    ].join("\n");
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" fill="#444444">
<rect width="${width}" height="${height}" fill="#ffffff"/>
${panels.join("\n")}
</svg>
`;
}

/** A panel in meters. The y axis of SVG points down, so heights are negated. */
function panelOf({ shapes }: MujocoFrame, view: "side" | "top", meters: number): { viewBox: string; content: string } {
  const project = ([x, y, z]: Vector): Point => (view === "side" ? [x, -z] : [x, -y]);
  const bodies = shapes.filter(({ kind }) => kind !== "plane");
  const left = (view === "side" ? (bodies[0]?.position[0] ?? 0) : 0) - meters / 2;
  const top = view === "side" ? GROUND_BELOW - meters : -meters / 2;
  const hasGround = view === "side" && bodies.length < shapes.length;
  const drawn = [
    ...(hasGround ? groundOf(left, meters) : []),
    ...bodies.map((shape, i) => drawShape(shape, project, COLOURS[i % COLOURS.length]!)),
    `<rect x="${round(left)}" y="${round(top)}" width="${meters}" height="${meters}" fill="none" stroke="#dddddd" stroke-width="${meters / 100}"/>`,
  ];
  return { viewBox: [left, top, meters, meters].map(round).join(" "), content: drawn.join("") };
}

type Point = readonly [number, number];

function groundOf(left: number, meters: number): string[] {
  const first = Math.ceil(left / GROUND_STEP);
  const count = Math.floor((left + meters) / GROUND_STEP) - first + 1;
  const marks = Array.from({ length: count }, (_, i) => (first + i) * GROUND_STEP);
  return [
    lineOf([left, 0], [left + meters, 0], "#999999", 0.015),
    ...marks.map((x) => lineOf([x, 0], [x, 0.06], "#999999", 0.015)),
  ];
}

function drawShape(shape: MujocoShape, project: (vector: Vector) => Point, color: string): string {
  const [x, y] = project(shape.position);
  if (shape.kind === "mark") {
    const arm = 0.04;
    return (
      lineOf([x - arm, y - arm], [x + arm, y + arm], "#c0392b", 0.012) +
      lineOf([x - arm, y + arm], [x + arm, y - arm], "#c0392b", 0.012)
    );
  }
  if (shape.kind === "plane") return "";
  const { axis, radius, halfLength } = shape;
  const [dx, dy] = project(axis);
  if (shape.kind === "cylinder") {
    return `<circle cx="${round(x)}" cy="${round(y)}" r="${round(radius)}" fill="${color}" fill-opacity="0.5" stroke="${color}" stroke-width="0.008"/>`;
  }
  const end: Point = [dx * halfLength, dy * halfLength];
  return lineOf([x - end[0], y - end[1]], [x + end[0], y + end[1]], color, 2 * radius);
}

function lineOf([x1, y1]: Point, [x2, y2]: Point, color: string, width: number): string {
  return `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" stroke="${color}" stroke-width="${round(width)}" stroke-linecap="round"/>`;
}

/** Rounds to a tenth of a millimeter. */
function round(value: number): number {
  return Math.round(value * 1e4) / 1e4;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
