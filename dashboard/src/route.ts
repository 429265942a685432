/**
 * What the page shows, kept in the address after `#`: `#/runs/first/trajectories?end=completed`.
 *
 * Every view can be linked to, and the browser's back button works.
 */
import { signal } from "@preact/signals";

/** The parts of the path, decoded, and the query. */
export interface Route {
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

/** The current one. */
export const route = signal(read());

addEventListener("hashchange", () => {
  route.value = read();
});

/** An address for a link. Empty and undefined values of the query are left out. */
export function linkTo(path: readonly (string | number)[], query: Query = {}): string {
  const search = new URLSearchParams(
    Object.entries(query).flatMap(([name, value]) => (value ? [[name, value] as [string, string]] : [])),
  ).toString();
  return `#/${path.map((part) => encodeURIComponent(part)).join("/")}${search === "" ? "" : `?${search}`}`;
}

type Query = Readonly<Record<string, string | undefined>>;

/** Changes the query of the current address, without a step in the history. */
export function setQuery(changes: Query): void {
  const { path, query } = route.value;
  history.replaceState(null, "", linkTo(path, { ...Object.fromEntries(query), ...changes }));
  route.value = read();
}

function read(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
