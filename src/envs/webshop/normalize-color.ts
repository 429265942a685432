/** Colors of options, so that "dark navy blue" and "blue" count as one. */

// The order decides: the first name that a text contains is its color.
const COLORS =
  "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo caramel " +
  "champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal dark denim " +
  "eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory ivy khaki " +
  "lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom mustard " +
  "natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand sapphire seashell silver " +
  "skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white wine yellow";

const colors = COLORS.split(" ");
const colorSet = new Set(colors);

/** The first color name inside the text, or the text itself. */
export function normalizeColor(text: string): string {
  return colors.find((color) => text.includes(color)) ?? text;
}

/** Whether the text is a color name and nothing else. */
export function isColor(text: string): boolean {
  return colorSet.has(text);
}
