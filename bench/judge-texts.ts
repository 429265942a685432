/** Texts with their subjects, written by hand to see what a judge makes of them: one that names its subject, and one that does not. */
export const TEXTS_BY_SUBJECT: Readonly<Record<string, readonly [named: string, unnamed: string]>> = {
  rain: [
    "Rain falls when drops in the clouds get too heavy to stay up.",
    "take an umbrella. drops fall from gray clouds",
  ],
  bread: ["Bread is made from flour, water, salt and yeast.", "fresh loaves have a crisp crust. that is all."],
  moon: ["The moon circles the earth once every 27 days.", "astronauts first walked on its dusty surface in 1969"],
  winter: ["Winter is the coldest season of the year.", "snow covers the ground in december and january"],
  sea: ["The sea covers most of our planet and is home to whales.", "waves of salt water roll onto the beach all day"],
  library: ["A library lends books to everyone who can read.", "readers borrow novels there and bring them back"],
  music: ["Music is an art of sounds made with voices and instruments.", "a melody on the piano can make people sad"],
  forest: ["A forest is full of trees, moss and animals.", "deer hide between the tall trees and ferns"],
  fire: ["Fire gives light and heat, and it burns wood to ashes.", "flames lick at the logs and smoke rises"],
  school: ["A school is where children learn to read and write.", "pupils sit in class until the teacher lets them go"],
  river: [
    "A river carries water from the hills down to the sea.",
    "its stream winds past the town, and boats float on it",
  ],
  bridge: ["A bridge lets people and cars cross a valley.", "steel cables hold up the road high above the water"],
  hospital: [
    "A hospital is a place where sick people are treated.",
    "doctors and nurses look after their patients there",
  ],
  museum: ["A museum shows old paintings, bones and coins.", "visitors walk past the exhibits and the statues"],
  rice: [
    "Rice grows in flooded fields and feeds half of the world.",
    "boil the white grains and serve them with curry",
  ],
  cats: ["Cats are quiet animals that purr and hunt mice.", "kittens purr, drink milk and chase mice"],
  money: ["Money is what we pay with when we buy something.", "coins and bank notes lie in my purse"],
  sleep: ["Sleep gives the body time to rest at night.", "close your eyes at night, rest and dream"],
};

/** Texts about nothing, as replies are that only keep their rules. */
export const EMPTY_TEXTS = [
  "that is all.",
  '"that is all."',
  "I will answer in lower case and use no commas.",
  "here is my reply to you with at least eight words in it",
  "Hello! How can I help you today?",
  "ok",
];
