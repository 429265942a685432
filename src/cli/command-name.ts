/** What a person types to run this program: from a checkout, or installed as a package. */
export const commandName = import.meta.url.endsWith(".ts") ? "npm run -s reroll --" : "npx reroll";
