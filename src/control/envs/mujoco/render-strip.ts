/**
 * Moments of an episode as a picture: one SVG, the frames side by side, drawn from their shapes without any graphics library.
 *
 * From the side (x to the right, height up) every panel follows the body, and marks on the ground show how far it has come; from
 * above (x to the right, y up) panels stay at the middle of the table.
 */
import type { MujocoFrame, MujocoShape, Vector } from "./mujoco-frame.ts";

/** How to draw. */
export interface StripOptions {
  readonly view: "side" | "top";
  /** Width and height of a panel in metres. Default 2.4 from the side, 1.8 from above. */
  readonly panelMetres?: number;
  /** Width and height of a panel in pixels. Default 160. */
  readonly panelPixels?: number;
  /** A line of text below each frame. */
  readonly captions?: readonly string[];
}

const CAPTION_PIXELS = 18;
/** Between marks on the ground, in metres. */
const GROUND_STEP = 0.5;
const GROUND_BELOW = 0.2;
const COLOURS = ["#4878a8", "#d9823b", "#5a9e6f", "#a8557a", "#8a6fb8", "#777777"] as const;

/** The picture as a whole SVG document. */
export function renderStrip(frames: readonly MujocoFrame[], options: StripOptions): string {
  const { view, panelMetres = view === "side" ? 2.4 : 1.8, panelPixels = 160, captions } = options;
  const width = frames.length * panelPixels;
  const height = panelPixels + (captions === undefined ? 0 : CAPTION_PIXELS);
  const panels = frames.map((frame, i) => {
    const picture = panelOf(frame, view, panelMetres);
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

/** A panel in metres. SVG counts downwards, so every drawn height is negated. */
function panelOf({ shapes }: MujocoFrame, view: "side" | "top", metres: number): { viewBox: string; content: string } {
  const project = ([x, y, z]: Vector): Point => (view === "side" ? [x, -z] : [x, -y]);
  const bodies = shapes.filter(({ kind }) => kind !== "plane");
  const left = (view === "side" ? (bodies[0]?.position[0] ?? 0) : 0) - metres / 2;
  const top = view === "side" ? GROUND_BELOW - metres : -metres / 2;
  const hasGround = view === "side" && bodies.length < shapes.length;
  const drawn = [
    ...(hasGround ? groundOf(left, metres) : []),
    ...bodies.map((shape, i) => drawShape(shape, project, COLOURS[i % COLOURS.length]!)),
    `<rect x="${round(left)}" y="${round(top)}" width="${metres}" height="${metres}" fill="none" stroke="#dddddd" stroke-width="${metres / 100}"/>`,
  ];
  return { viewBox: [left, top, metres, metres].map(round).join(" "), content: drawn.join("") };
}

type Point = readonly [number, number];

function groundOf(left: number, metres: number): string[] {
  const first = Math.ceil(left / GROUND_STEP);
  const count = Math.floor((left + metres) / GROUND_STEP) - first + 1;
  const marks = Array.from({ length: count }, (_, i) => (first + i) * GROUND_STEP);
  return [
    lineOf([left, 0], [left + metres, 0], "#999999", 0.015),
    ...marks.map((x) => lineOf([x, 0], [x, 0.06], "#999999", 0.015)),
  ];
}

function drawShape(shape: MujocoShape, project: (vector: Vector) => Point, colour: string): string {
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
    return `<circle cx="${round(x)}" cy="${round(y)}" r="${round(radius)}" fill="${colour}" fill-opacity="0.5" stroke="${colour}" stroke-width="0.008"/>`;
  }
  const end: Point = [dx * halfLength, dy * halfLength];
  return lineOf([x - end[0], y - end[1]], [x + end[0], y + end[1]], colour, 2 * radius);
}

function lineOf([x1, y1]: Point, [x2, y2]: Point, colour: string, width: number): string {
  return `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" stroke="${colour}" stroke-width="${round(width)}" stroke-linecap="round"/>`;
}

/** To a tenth of a millimetre. */
function round(value: number): number {
  return Math.round(value * 1e4) / 1e4;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
