/** Starts the page. */
import { render } from "preact";
import { App } from "./app.tsx";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { startTheme } from "./theme.ts";

startTheme();
render(<App />, document.getElementById("app")!);
