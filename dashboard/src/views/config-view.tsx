/** The resolved config of a run, key by key, and what else is known of it. */
import { useState } from "preact/hooks";
import type { RunInfo } from "../../../src/tracking/run-record.ts";
import { flattenConfig } from "../flatten-config.ts";

export function ConfigView({ config, info }: { readonly config: unknown; readonly info: RunInfo }) {
  const [search, setSearch] = useState("");
  const rows = [...flattenConfig(config)].filter(([key, value]) =>
    `${key} ${value}`.toLowerCase().includes(search.toLowerCase()),
  );
  return (
    <>
      <div class="tools">
        <input
          type="search"
          placeholder="Find a key or value"
          aria-label="Find a key or value"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        <small class="muted">
          reroll {info.version}, process {info.pid} on {info.host}, started {info.startedAt}
          {info.endedAt !== null && `, ended ${info.endedAt}`}
        </small>
      </div>
      {config === null && <p class="muted">The config of this run cannot be read.</p>}
      <div class="scroll">
        <table>
          <tbody>
            {rows.map(([key, value]) => (
              <tr key={key}>
                <th scope="row">{key}</th>
                <td>
                  <code>{value}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
