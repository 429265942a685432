/** What a run has warned of: each kind once, the newest first, with the way to its explanation. */
import type { WarningRecord } from "../../../src/tracking/run-record.ts";
import { linkTo } from "../route.ts";

export function Warnings({ warnings }: { readonly warnings: readonly WarningRecord[] }) {
  const latest = new Map(warnings.map((warning) => [warning.code, warning]));
  if (latest.size === 0) return null;
  return (
    <ul class="warnings" aria-label="Warnings">
      {[...latest.values()].reverse().map(({ code, step, text, link }) => (
        <li key={code}>
          <span>
            <strong>Step {step}:</strong> {text}
          </span>
          {link !== null && <a href={linkTo(["help", code])}>What it means</a>}
        </li>
      ))}
    </ul>
  );
}
