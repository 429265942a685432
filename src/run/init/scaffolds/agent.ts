/** An agent of one's own, which talks to an OpenAI-compatible address. */
import { isPreset, modelOf, type Scaffold, trainingOf } from "../scaffold.ts";

export const agent: Scaffold = {
  label: "An agent of my own, which calls a chat model over HTTP",
  isLanguageModel: true,
  runFile: (choices) => `import { defineRun } from "reroll";
import { ${isPreset(choices.model) ? "desks, question, " : ""}sortTicket } from "./agent.ts";
import { tickets } from "./tickets.ts";

/** The agent is agent.ts, its tasks are tickets.ts. Every key that is not here has a default: npx reroll train run.ts --explain shows them all. */
export default defineRun({
  name: ${JSON.stringify(choices.name)},
  model: ${modelOf(choices)},
  agent: sortTicket,
  data: { type: "rows", rows: tickets.map(({ text, desk }) => ({ prompt: text, answer: desk })) },
  rollout: { groupsPerStep: 12, groupSize: 16, contextLength: 512, sampling: { maxTokens: ${isPreset(choices.model) ? 2 : 16} } },
  algorithm: { type: "grpo" },
  training: ${trainingOf(choices)},
${warmStart(choices.model)}  loop: { type: "sync", steps: 60 },
});
`,
  files: {
    "agent.ts": `import type { AgentCall, Prompt } from "reroll";

/** The desks that a ticket can go to, by the letter that the model replies with. */
export const desks = { b: "billing", s: "shipping", t: "technical" } as const;

/** What the agent asks about a ticket. */
export const question = (ticket: string) => \`\${ticket} Which desk: b, s or t?\`;

/**
 * Sorts one ticket and returns its reward. It knows nothing of reroll but an address and a key, so an agent written with the openai
 * package, the Vercel AI SDK or anything else that speaks to OpenAI goes here as it is. Every call is recorded token by token.
 */
export async function sortTicket(prompt: Prompt, call: AgentCall): Promise<number> {
  const reply = await chat(call, question(String(prompt.messages[0]?.content)));
  const isDesk = reply.trim() in desks;
  return reply.trim() === prompt.truth ? 1 : isDesk ? 0.1 : 0;
}

async function chat({ baseURL, apiKey, seed, signal }: AgentCall, content: string): Promise<string> {
  const response = await fetch(\`\${baseURL}/chat/completions\`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: \`Bearer \${apiKey}\` },
    body: JSON.stringify({ messages: [{ role: "user", content }], seed }),
    signal,
  });
  if (!response.ok) throw new Error(\`The model answered \${response.status}: \${await response.text()}\`);
  const { choices } = (await response.json()) as { choices: { message: { content: string | null } }[] };
  return choices[0]?.message.content ?? "";
}
`,
    "tickets.ts": `/** What the agent is trained on: tickets, and the desk that each belongs to. */
export const tickets = [
  { text: "Parcel is late.", desk: "s" },
  { text: "Charged twice.", desk: "b" },
  { text: "App crashes.", desk: "t" },
  { text: "Box was wet.", desk: "s" },
  { text: "Wrong invoice.", desk: "b" },
  { text: "Login fails.", desk: "t" },
  { text: "Never arrived.", desk: "s" },
  { text: "Need a refund.", desk: "b" },
  { text: "Page is blank.", desk: "t" },
  { text: "Wrong address.", desk: "s" },
  { text: "Card declined.", desk: "b" },
  { text: "No sound.", desk: "t" },
];
`,
  },
  about: "- `agent.ts`: the agent. Put your own in its place.\n- `tickets.ts`: its tasks.\n",
  measured: "the reward rises from 0.39 to 0.99 in 60 steps",
};

/** Weights from chance first learn what a reply looks like, from replies that are right by chance. */
function warmStart(model: string): string {
  if (!isPreset(model)) return "";
  return `  // From noise to letters: every ticket is shown with every desk, so this teaches what a reply looks like and not which one is right.
  warmStart: {
    type: "data",
    data: {
      type: "rows",
      rows: tickets.flatMap(({ text }) =>
        Object.keys(desks).map((desk) => ({ prompt: question(text), answer: desk })),
      ),
    },
    steps: 60,
    optimizer: { lr: 3e-3 },
  },
`;
}
