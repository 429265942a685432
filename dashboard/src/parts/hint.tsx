/** A name whose meaning shows on hover and on focus. */
import { useId } from "preact/hooks";
import type { MetricInfo } from "../../../src/flow/metrics.ts";

export function MetricName({ name, info }: { readonly name: string; readonly info: MetricInfo | null }) {
  const id = useId();
  if (info === null) return <span class="metric-name">{name}</span>;
  const better = info.better === "neither" ? "" : ` ${info.better === "higher" ? "Higher" : "Lower"} is better.`;
  return (
    <span class="hint">
      <button type="button" class="metric-name bare" aria-describedby={id}>
        {name}
      </button>
      <span role="tooltip" id={id}>
        {info.meaning}
        {better}
        {info.unit !== "" && <em> Unit: {info.unit}.</em>}
      </span>
    </span>
  );
}
