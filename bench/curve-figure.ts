export interface Curve { readonly name: string; readonly points: readonly { readonly x: number; readonly y: number }[] }
export function curveFigure(): string { return ""; }
