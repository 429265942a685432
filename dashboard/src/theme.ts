/** Light or dark: as the system has it, until someone chooses. */
import { effect, signal } from "@preact/signals";

/** What is shown now. */
export const theme = signal<"light" | "dark">("light");

const KEY = "reroll-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

/** Follows the system, or what was chosen before. */
export function startTheme(): void {
  const chosen = localStorage.getItem(KEY);
  const follow = () => {
    theme.value = system.matches ? "dark" : "light";
  };
  if (chosen === "light" || chosen === "dark") theme.value = chosen;
  else {
    follow();
    system.addEventListener("change", follow);
  }
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
  });
}

/** The other one, and from now on always. */
export function switchTheme(): void {
  theme.value = theme.value === "dark" ? "light" : "dark";
  localStorage.setItem(KEY, theme.value);
}

/** The value of a color of the style sheet, for what is drawn on a canvas. */
export function colorOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
