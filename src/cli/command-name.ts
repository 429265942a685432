/** How a person calls this program where it is now: from a checkout, or installed as a package. */
export const commandName = import.meta.url.endsWith(".ts") ? "npm run -s reroll --" : "npx reroll";
