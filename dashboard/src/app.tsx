/** The frame of every view: where one is, where one can go, and the view itself. */
import type { ComponentChildren } from "preact";
import { useErrorBoundary } from "preact/hooks";
import { linkTo, route } from "./route.ts";
import { switchTheme, theme } from "./theme.ts";
import { CompareView } from "./views/compare-view.tsx";
import { HelpView } from "./views/help-view.tsx";
import { RunView } from "./views/run-view.tsx";
import { RunsView } from "./views/runs-view.tsx";

export function App() {
  const [place, name] = route.value.path;
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to content
      </button>
      <header class="top">
        <a class="brand" href={linkTo(["runs"])}>
          reroll
        </a>
        {place === "runs" && name !== undefined && <span class="crumb">{name}</span>}
        {place === "compare" && <span class="crumb">compare</span>}
        <button type="button" class="quiet" onClick={switchTheme} aria-label="Switch between light and dark">
          {theme.value === "dark" ? "☀ light" : "☾ dark"}
        </button>
      </header>
      <main id="main" tabIndex={-1}>
        <Guarded key={`${place}/${name}`}>
          {place === "compare" ? (
            <CompareView />
          ) : place === "help" ? (
            <HelpView code={name ?? ""} />
          ) : name === undefined ? (
            <RunsView />
          ) : (
            <RunView run={name} key={name} />
          )}
        </Guarded>
      </main>
    </>
  );
}

/** A record that no view expects is a message, not an empty page. */
function Guarded({ children }: { readonly children: ComponentChildren }) {
  const [error, reset] = useErrorBoundary();
  if (error === undefined) return <>{children}</>;
  return (
    <div class="problem" role="alert">
      <p>This cannot be shown: {String((error as Error).message)}</p>
      <button type="button" onClick={reset}>
        Try again
      </button>
    </div>
  );
}
