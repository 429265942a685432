/** Starts the page. */
import { render } from "preact";
import { App } from "./app.tsx";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { openExported } from "./exported.ts";
import { startTheme } from "./theme.ts";

startTheme();
openExported();
render(<App />, document.getElementById("app")!);
